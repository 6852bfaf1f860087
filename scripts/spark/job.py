"""Spark application of the benchmark, in the master's container.

Runs the jobs that its standard input names. Answers each line `JOB` with one JSON object: `seconds`
(of the action, by the wall clock), `records`, and `wrong`: null, or the fault of the result. The
first object says that the executors are there. The input is that of `data.py`.
"""

import json
import os
import shutil
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import data

PARTITIONS = 24


def session(master, address, executors):
    """Starts the application; returns when all of its executors have registered."""
    settings = {
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.ui.enabled": "false",
        "spark.executor.memory": "1g",
        "spark.driver.memory": "1g",
        # The executor of a task decides which CPU pays: no task waits for a better executor, and
        # none runs twice.
        "spark.locality.wait": "0s",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.cores.max": str(executors),
        # Fixes the number of tasks, so that every round is alike.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.files.maxPartitionBytes": str(4 << 20),
        # A flooded executor is slow, but not lost.
        "spark.network.timeout": "600s",
    }
    builder = SparkSession.builder.master(master).appName("cofferdam")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    scheduler = spark.sparkContext._jsc.sc()
    deadline = time.monotonic() + 60
    # The driver counts as one.
    while scheduler.getExecutorMemoryStatus().size() < executors + 1:
        if time.monotonic() > deadline:
            raise SystemExit(f"fewer than {executors} executors registered within 60 s")
        time.sleep(0.1)
    return spark


def wordcount(spark):
    """Counts the words of the corpus; compares with the counts of its maker."""
    started = time.monotonic()
    words = spark.read.text(data.CORPUS).select(F.explode(F.split("value", " ")).alias("word"))
    counts = {row["word"]: row["count"] for row in words.groupBy("word").count().collect()}
    seconds = time.monotonic() - started
    with open(data.COUNTS) as file:
        expected = json.load(file)
    wrong = None if counts == expected else "the counts differ from those of the corpus's maker"
    return seconds, sum(counts.values()), wrong


def terasort(spark):
    """Sorts the records by their keys into files; reads these again to check their order."""
    shutil.rmtree(data.SORTED, ignore_errors=True)
    started = time.monotonic()
    records = spark.read.text(data.RECORDS)
    records.orderBy(F.substring("value", 1, data.KEY_CHARS)).write.text(data.SORTED)
    seconds = time.monotonic() - started
    found, is_sorted, last = data.Digest(), True, b""
    for name in sorted(n for n in os.listdir(data.SORTED) if n.startswith("part-")):
        with open(os.path.join(data.SORTED, name), "rb") as file:
            for line in file:
                key = line[: data.KEY_CHARS]
                is_sorted &= last <= key
                last = key
                found.add(line.rstrip(b"\n"))
    shutil.rmtree(data.SORTED)
    wrong = None if is_sorted else "the files are not sorted by key"
    if found.object() != data.digest():
        wrong = "the files have other records than the input"
    return seconds, found.count, wrong


def shuffle(spark):
    """Sends every record through the shuffle, and adds up what arrives."""
    started = time.monotonic()
    arrived = spark.read.text(data.RECORDS).repartition(PARTITIONS)
    row = arrived.agg(
        F.count("value").alias("count"), F.sum(F.crc32("value")).alias("sum")
    ).collect()[0]
    seconds = time.monotonic() - started
    wrong = None
    if {"count": row["count"], "sum": row["sum"]} != data.digest():
        wrong = "other records arrived than were sent"
    return seconds, row["count"], wrong


JOBS = {"wordcount": wordcount, "terasort": terasort, "shuffle": shuffle}


def main():
    master, address, executors = sys.argv[1:]
    spark = session(master, address, int(executors))

    def say(thing):
        print(json.dumps(thing), flush=True)

    say({"spark": spark.version, "executors": int(executors)})
    for line in sys.stdin:
        seconds, records, wrong = JOBS[line.strip()](spark)
        say({"seconds": seconds, "records": records, "wrong": wrong})
    spark.stop()


if __name__ == "__main__":
    main()
