"""Makes the input of the jobs: the same bytes for the same sizes, with the right answers.

Made on the host, in a folder that all containers see as /data.
"""

import base64
import collections
import json
import os
import random
import zlib

FOLDER = "/data"
CORPUS = f"{FOLDER}/corpus"
COUNTS = f"{FOLDER}/counts.json"
RECORDS = f"{FOLDER}/records"
DIGEST = f"{FOLDER}/digest.json"
SORTED = f"{FOLDER}/sorted"

# Format of TeraSort: 100 bytes a record with its end of line, 10 of them the key.
RECORD_CHARS = 99
KEY_CHARS = 10

SEED = 1
VOCABULARY = 10_000
BLOCK_WORDS = 500_000
LINE_WORDS = 12


class Digest:
    """Number of records, and the sum of their checksums: the same in any order."""

    def __init__(self):
        self.count = self.sum = 0

    def add(self, record):
        self.count += 1
        self.sum += zlib.crc32(record)

    def object(self):
        return {"count": self.count, "sum": self.sum}


def digest():
    """Reads the digest of the input, from the path at which a container sees it."""
    with open(DIGEST) as file:
        return json.load(file)


def make_corpus(folder, corpus_mb):
    """Writes a text whose words follow Zipf's distribution: one block, repeated."""
    draw = random.Random(SEED)
    words = [
        "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 10)))
        for _ in range(VOCABULARY)
    ]
    weights = [1 / rank for rank in range(1, VOCABULARY + 1)]
    drawn = draw.choices(words, weights=weights, k=BLOCK_WORDS)
    lines = (" ".join(drawn[i : i + LINE_WORDS]) for i in range(0, BLOCK_WORDS, LINE_WORDS))
    block = "".join(f"{line}\n" for line in lines)
    blocks = max(1, round(corpus_mb * 1e6 / len(block)))
    with open(folder + "/corpus", "w") as file:
        for _ in range(blocks):
            file.write(block)
    counts = {word: count * blocks for word, count in collections.Counter(drawn).items()}
    with open(folder + "/counts.json", "w") as file:
        json.dump(counts, file)


def make_records(folder, records_mb):
    """Writes records of random printable characters."""
    draw = random.Random(SEED)
    found = Digest()
    with open(folder + "/records", "wb") as file:
        for _ in range(round(records_mb)):
            text = base64.b64encode(draw.randbytes(750_000))
            for i in range(0, 10_000 * RECORD_CHARS, RECORD_CHARS):
                record = text[i : i + RECORD_CHARS]
                found.add(record)
                file.write(record + b"\n")
    with open(folder + "/digest.json", "w") as file:
        json.dump(found.object(), file)


def make(folder, corpus_mb, records_mb):
    """Writes both inputs to a folder of the host."""
    os.makedirs(folder, exist_ok=True)
    make_corpus(folder, corpus_mb)
    make_records(folder, records_mb)
