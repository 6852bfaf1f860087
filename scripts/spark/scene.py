"""The scene of the benchmark: podman containers on a network of their own.

Spark runs in four of the containers; the fifth computes or receives load.

    peer p0 ── up0 router br0 ─┬─ eth0 master      (Spark's master, the application, CPU 1)
                               ├─ eth0 executor1…3
                               └─ eth0 neighbour   (computes, or receives floods, CPU 0)

Peer and router are network namespaces, so the host's devices, routes and firewall stay as they are.
Everything is named `cf-PID-spark-…`, and is removed in reverse order.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

SUBNET = "10.79.0"
MASTER, NEIGHBOUR = "master", "neighbour"
EXECUTORS = ["executor1", "executor2", "executor3"]
ADDRESS = {
    MASTER: f"{SUBNET}.10",
    "executor1": f"{SUBNET}.11",
    "executor2": f"{SUBNET}.12",
    "executor3": f"{SUBNET}.13",
    NEIGHBOUR: f"{SUBNET}.20"
}
MASTER_PORT = 7077
FLOOD_PORT = 20_000
FLOWS = 3
SIZE_BYTES = 200
# Datagrams a second of each flow: more than CPU 0 can receive, and nearly all that CPU 1 sends.
FLOW_RATE = 200_000
# Rhythm of the computation that replaces the senders on CPU 1: it sleeps as often as they do.
RUN_US, SLEEP_US = 25, 75
SHARES = 1024
# Fixes the cgroup manager: podman's default depends on the host.
PODMAN = ("podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs")
# Life of a worker, seconds: longer than any turn.
LIMIT_S = 280


class Failed(Exception):
    """A failure: its text says what failed, why, and where to look."""


def run(*argv, **options):
    """Runs a command; returns its standard output. Its failure is ours."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise Failed(
            f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip() or done.returncode}")
    return done.stdout


def until(what, limit_s, is_true):
    """Waits until `is_true` returns something; returns that."""
    deadline = time.monotonic() + limit_s
    while not (found := is_true()):
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {limit_s} s")
        time.sleep(0.1)
    return found


def hierarchies():
    """Returns the mount points of cgroup hierarchies: by controller on v1, by "" on v2."""
    found = {}
    with open("/proc/self/mounts") as file:
        for line in file:
            _, folder, kind, options = line.split()[:4]
            if kind == "cgroup2":
                found[""] = folder
            elif kind == "cgroup":
                found[os.path.basename(folder)] = folder
                found.update({option: folder for option in options.split(",")})
    return found


def cgroups_of(pid):
    """Returns the folders of a process's cgroups, in every hierarchy."""
    mounted = hierarchies()
    folders = []
    with open(f"/proc/{pid}/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            name = controllers.split(",")[0].removeprefix("name=")
            if name in mounted:
                folders.append(mounted[name] + path)
    return folders


class Worker:
    """One load generator, sink or victim of `cofferdam bench-worker`."""

    def __init__(self, program, kind, place, before=(), **options):
        """Starts it. `before` is what comes before the command; the rest are its arguments."""
        words = [str(word) for key, value in options.items() for word in (f"--{key}", value)]
        self.kind = kind
        arguments = ["--parent", str(os.getpid()), "--limit", str(LIMIT_S), *place, *words]
        self.process = subprocess.Popen([*before, program, "bench-worker", kind, *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        if (line := self.process.stdout.readline().strip()) != "ready":
            raise Failed(f"{kind}: {line or self.process.stderr.read().strip()}")
        self._say("go")

    def _say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def answer(self):
        """Reads its next object."""
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self.kind}: it ended: {self.process.stderr.read().strip()}")
        return json.loads(line)

    def read(self):
        """Asks for its counters."""
        self._say("read")
        return self.answer()

    def is_running(self):
        return self.process.poll() is None

    def stop(self):
        self.process.kill()
        self.process.wait()


class Scene:
    """Everything that the benchmark makes; `close` removes it."""

    def __init__(self, program, spark, state, sizes_mb, cpus, has_slice, congestion):
        """Builds the scene.

        `sizes_mb` are those of corpus and records, `cpus` is by container, `congestion` is TCP's
        congestion control. All containers have one weight. With `has_slice` the executors have
        that weight together, in a cgroup of their own.
        """
        self.program, self.spark, self.state = program, spark, state
        self.tag = f"cf-{os.getpid()}-spark"
        self.image = f"localhost/{self.tag}"
        self.cpus, self.has_slice, self.congestion, self.pids = cpus, has_slice, congestion, {}
        self.undo = contextlib.ExitStack()
        self.driver = None
        try:
            self._build(sizes_mb)
        except BaseException:
            self.close()
            raise

    def close(self):
        # A second signal would leave something behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.undo.close()

    def _build(self, sizes_mb):
        import data

        # The data are in memory, so that the disk plays no part.
        self.data = f"/dev/shm/{self.tag}"
        self.undo.callback(shutil.rmtree, self.data, ignore_errors=True)
        data.make(self.data, *sizes_mb)
        self._network()
        self._image()
        self.undo.callback(self._remove_cgroups)
        for index, name in enumerate(ADDRESS):
            self._container(name, index)
        if self.has_slice:
            self._weigh_slice()
        self._start_spark()

    def _network(self):
        self.router, self.peer = f"{self.tag}-router", f"{self.tag}-peer"
        for name in (self.router, self.peer):
            run("ip", "netns", "add", name)
            self.undo.callback(run, "ip", "netns", "delete", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        self.inside(
            self.router, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.disable_ipv6=1 "
            "net.ipv6.conf.default.disable_ipv6=1")
        self._pair("up0", "p0", self.peer)
        run("ip", "-n", self.router, "link", "add", "br0", "type", "bridge")
        for netns, device, address in (
                (self.router, "up0", "10.79.1.2/24"),
                (self.router, "br0", f"{SUBNET}.1/24"),
                (self.peer, "p0", "10.79.1.1/24"),
        ):
            run("ip", "-n", netns, "address", "add", address, "dev", device)
            run("ip", "-n", netns, "link", "set", device, "up")
        run("ip", "-n", self.peer, "route", "add", "default", "via", "10.79.1.2")
        # Receives as if the network card interrupted CPU 0, and the sender's card CPU 1.
        self.steer(self.router, "up0", 0)
        self.steer(self.peer, "p0", 1)

    def _pair(self, device, peer_device, netns):
        """Makes a veth pair of one queue, like a simple network card, to a namespace."""
        queues = ("numtxqueues", "1", "numrxqueues", "1")
        run("ip", "-n", self.router, "link", "add", device, *queues, "type", "veth", "peer", "name",
            peer_device, *queues, "netns", netns)

    def inside(self, netns, script):
        """Runs a shell script in a network namespace, with its own /sys."""
        return run("ip", "netns", "exec", netns, "sh", "-ec", script)

    def steer(self, netns, device, cpu):
        """Makes one CPU do the receive work of a device."""
        queues = f"/sys/class/net/{device}/queues/rx-*"
        self.inside(netns, f"for q in {queues}; do echo {1 << cpu:x} > $q/rps_cpus; done")

    def _image(self):
        """Makes an image of busybox and mount points for the host's /usr, Spark and the jobs."""
        with tempfile.TemporaryDirectory(dir=self.state) as folder:
            root = f"{folder}/root"
            for place in ("bin", "proc", "sys", "dev", "etc", "tmp", "usr", "spark", "jobs", "data",
                          "work"):
                os.makedirs(f"{root}/{place}")
            for link in ("lib", "lib64"):
                os.symlink(f"usr/{link}", f"{root}/{link}")
            busybox = shutil.which("busybox") or "/bin/busybox"
            shutil.copy(busybox, f"{root}/bin/busybox")
            os.symlink("/usr/bin/bash", f"{root}/bin/bash")
            with open(f"{root}/etc/passwd", "w") as file:
                file.write("root:x:0:0:root:/tmp:/bin/sh\n")
            run("tar", "-C", root, "-cf", f"{folder}/image.tar", ".")
            run("podman", "import", f"{folder}/image.tar", self.image)
            self.undo.callback(run, "podman", "rmi", "--force", self.image)

    def name(self, container):
        return f"{self.tag}-{container}"

    def _container(self, container, index):
        name, address = self.name(container), ADDRESS[container]
        here = os.path.dirname(os.path.abspath(__file__))
        java = os.path.realpath(shutil.which("java"))
        self.java = java
        mounts = [("/usr", "/usr"), (self.spark, "/spark"), (here, "/jobs")]
        # Debian keeps Java's configuration in these folders.
        mounts += [(path, path)
                   for path in [f"/etc/{part}" for part in ("java-17-openjdk", "java-21-openjdk")]
                   if os.path.isdir(path)]
        volumes = [
            word for source, target in mounts for word in ("--volume", f"{source}:{target}:ro")
        ]
        self.undo.callback(run, *PODMAN, "rm", "--force", "--ignore", "--time", "0", name)
        # podman's own limits need CAP_SYS_RESOURCE, which root may lack.
        parent = f"/{self.tag}/job" if self.has_slice and container in EXECUTORS else f"/{self.tag}"
        run(*PODMAN, "run", "--detach", "--cgroup-parent", parent, "--name", name, "--hostname",
            container, "--network", "none", "--ulimit", "nofile=20000:20000", "--ulimit",
            "nproc=10000:10000", "--add-host", f"{container}:{address}", "--cpuset-cpus",
            str(self.cpus[container]), "--cpu-shares", str(SHARES), "--tmpfs", "/work", "--tmpfs",
            "/tmp", "--volume", f"{self.data}:/data", *volumes, self.image, "/bin/busybox", "sleep",
            "100000")
        pid = self.pids[container] = int(
            run("podman", "inspect", "--format", "{{.State.Pid}}", name))
        run("ip", "netns", "attach", name, str(pid))
        # The namespace itself ends with the container.
        self.undo.callback(run, "ip", "netns", "delete", name)
        device = f"v{index}"
        self._pair(device, "eth0", name)
        run("ip", "-n", self.router, "link", "set", device, "up", "master", "br0")
        run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "route", "add", "default", "via", f"{SUBNET}.1")
        # TCP passes single packets of at most an MTU, as on a wire.
        self.inside(name, "ethtool -K eth0 tso off gso off")
        # Sets it by route: as a sysctl a namespace may only choose among the host's defaults.
        run("ip", "-n", name, "route", "replace", f"{SUBNET}.0/24", "dev", "eth0", "proto",
            "kernel", "scope", "link", "src", address, "congctl", self.congestion)

    def _weigh_slice(self):
        """Gives the executors' cgroup the weight of the neighbour's."""
        for folder in cgroups_of(self.pids[NEIGHBOUR]):
            for file in ("cpu.shares", "cpu.weight"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(f"{folder}/{file}", f"{os.path.dirname(folder)}/job/{file}")

    def _remove_cgroups(self):
        """Removes the cgroups that podman leaves above those of its containers."""
        def gone():
            left = [f"{folder}/{self.tag}" for folder in set(hierarchies().values())]
            for top in filter(os.path.isdir, left):
                for folder, _, _ in os.walk(top, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)
            return not any(map(os.path.exists, left))

        until(f"the cgroups {self.tag} go", 20, gone)

    def device(self, container):
        """Returns the router's end of a container's interface."""
        return f"v{list(ADDRESS).index(container)}"

    def _in_spark(self, container):
        """Returns the beginning of a command in one of Spark's containers."""
        address = ADDRESS[container]
        variables = {
            "SPARK_LOCAL_IP": address,
            "SPARK_LOCAL_HOSTNAME": address,
            "SPARK_HOME": "/spark/deps",
            "JAVA_HOME": self.java.removesuffix("/bin/java"),
            "HOME": "/tmp",
            "SPARK_LOCAL_DIRS": "/work",
            "PYTHONPATH": ":".join(["/spark", "/jobs", *self._libraries()]),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Without this variable Spark takes the folder for its source tree.
            "SPARK_SCALA_VERSION": "2.13",
            "PATH": "/usr/bin:/bin"
        }
        words = [word for key, value in variables.items() for word in ("--env", f"{key}={value}")]
        return [*PODMAN, "exec", *words, "--interactive", self.name(container)]

    def _libraries(self):
        """Returns the Python libraries of the bridge to Java, from the package."""
        return [
            f"/spark/lib/{name}" for name in os.listdir(f"{self.spark}/lib")
            if name.startswith("py4j")
        ]

    def _process(self, name, argv, **options):
        log = open(f"{self.state}/{name}.log", "a")
        process = subprocess.Popen(argv, stderr=log, text=True, **options)
        log.close()
        self.undo.callback(process.wait)
        self.undo.callback(process.kill)
        return process

    def _java(self, container, main, *arguments):
        argv = [
            *self._in_spark(container), self.java, "-Xmx384m", "-cp", "/spark/deps/jars/*", main,
            *arguments
        ]
        return self._process(container, argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def _start_spark(self):
        master = f"spark://{ADDRESS[MASTER]}:{MASTER_PORT}"
        self._java(MASTER, "org.apache.spark.deploy.master.Master", "--host", ADDRESS[MASTER],
                   "--port", str(MASTER_PORT), "--webui-port", "0")
        listens = f"ss -Hltn sport = :{MASTER_PORT}"
        until("Spark's master listens", 60, lambda: self.inside(self.name(MASTER), listens).strip())
        for executor in EXECUTORS:
            self._java(executor, "org.apache.spark.deploy.worker.Worker", "--host",
                       ADDRESS[executor], "--webui-port", "0", "--cores", "1", "--memory", "1500m",
                       "--work-dir", "/work", master)
        argv = [
            *self._in_spark(MASTER), "/usr/bin/python3", "/jobs/job.py", master, ADDRESS[MASTER],
            str(len(EXECUTORS))
        ]
        self.driver = self._process("driver", argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.versions = self._answer()

    def _answer(self):
        line = self.driver.stdout.readline()
        if not line:
            raise Failed(f"the application ended: see {self.state}/driver.log and executor*.log")
        return json.loads(line)

    def start_job(self, job):
        self.driver.stdin.write(job + "\n")
        self.driver.stdin.flush()

    def job(self, job):
        """Runs a job; returns its seconds. A wrong result is a failure."""
        self.start_job(job)
        return self.job_done(job)

    def job_done(self, job):
        done = self._answer()
        if done["wrong"]:
            raise Failed(f"{job}: {done['wrong']}")
        return done["seconds"]

    @contextlib.contextmanager
    def worker(self, kind, container=None, cpu=0, **options):
        """Runs a worker in a container, or in the peer's network namespace."""
        place = ["--cpu", str(cpu), "--netns", self.name(container) if container else self.peer]
        # The peer stands for a distant host: it must not delay Spark's master, which has the same
        # CPU.
        before = () if container else ("nice", "-n", "19")
        if container:
            place += [
                word for folder in cgroups_of(self.pids[container]) for word in ("--join", folder)
            ]
        worker = Worker(self.program, kind, place, before, **options)
        try:
            yield worker
        finally:
            worker.stop()

    @contextlib.contextmanager
    def several(self, kind, options):
        """Runs [`FLOWS`] workers of the peer on CPU 1.

        They sleep often. On Linux 6.18 a task there that never sleeps delays a cgroup that wakes on
        that CPU (Spark's master) for up to 3 seconds, whatever their weights.
        """
        with contextlib.ExitStack() as workers:
            yield [
                workers.enter_context(self.worker(kind, cpu=1, **options(flow)))
                for flow in range(FLOWS)
            ]

    def as_senders(self):
        """Takes the CPU time of the flood's senders on CPU 1, and sends nothing."""
        return self.several("periodic", lambda flow: {
            "threads": 1,
            "run-us": RUN_US,
            "sleep-us": SLEEP_US
        })

    @contextlib.contextmanager
    def flood(self):
        """Floods the neighbour from the peer with UDP; yields the reader and the senders."""
        with self.worker("udp-sink", NEIGHBOUR, port=FLOOD_PORT, flows=FLOWS) as sink:
            with self.several(
                    "udp-flood", lambda flow: {
                        "to": ADDRESS[NEIGHBOUR],
                        "port": FLOOD_PORT + flow,
                        "flows": 1,
                        "size": SIZE_BYTES,
                        "rate": FLOW_RATE
                    }) as senders:
                yield sink, senders

    def cpu_s(self):
        """Returns the CPU time of each container so far, seconds, with that of its NAPI thread."""
        found = {}
        for container, pid in self.pids.items():
            for folder in cgroups_of(pid):
                with contextlib.suppress(FileNotFoundError), open(
                        f"{folder}/cpuacct.usage") as file:
                    found[container] = int(file.read()) / 1e9
                # On a hybrid host this hierarchy has no controllers, and only the time of the
                # tasks.
                with contextlib.suppress(FileNotFoundError), open(f"{folder}/cpu.stat") as file:
                    if (words := file.readline().split())[0] == "usage_usec":
                        found.setdefault(container, int(words[1]) / 1e6)
        return found

    def losses(self):
        """Counts the losses of Spark's containers so far.

        Packets that their interfaces lost (the sending end counts those of a full ring), segments
        that TCP has sent, and segments that it has sent again.
        """
        found = {"ring_drops": 0, "segments": 0, "sent_again": 0}
        script = "cat /sys/class/net/{}/statistics/tx_dropped"
        for container in (MASTER, *EXECUTORS):
            found["ring_drops"] += int(
                self.inside(self.router, script.format(self.device(container))))
            with open(f"/proc/{self.pids[container]}/net/snmp") as file:
                names, values = [line.split() for line in file if line.startswith("Tcp:")]
            counts = dict(zip(names, values))
            found["segments"] += int(counts["OutSegs"])
            found["sent_again"] += int(counts["RetransSegs"])
        return found

    def settings(self):
        """Returns everything that enforcement may change for these containers."""
        found = {}
        for pid in self.pids.values():
            for folder in cgroups_of(pid):
                for file in ("cpu.shares", "cpu.cfs_quota_us", "cpu.weight", "cpu.max",
                             "cpuset.cpus"):
                    with contextlib.suppress(FileNotFoundError), open(f"{folder}/{file}") as text:
                        found[f"{folder}/{file}"] = text.read().strip()
                found[folder] = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        script = (
            'cd /sys/class/net; for d in *; do ethtool -k $d | grep -v Features | sed "s/^/$d: /"; '
            'for f in threaded rx-*/rps_cpus; do for f in $d/$f $d/queues/$f; do '
            '[ ! -e $f ] || echo "$f: $(cat $f)"; done; done; '
            'ip -o link show $d | grep -o "xdp.*" || true; done; '
            'for d in *; do tc filter show dev $d ingress; tc filter show dev $d egress; done '
            '2>/dev/null || true'
        )
        for netns in (self.router, *map(self.name, self.pids)):
            lines = self.inside(netns, script).splitlines()
            found |= {
                f"{netns}: {key}": value
                for key, _, value in (line.rpartition(": ") for line in lines)
            }
        return found

    @contextlib.contextmanager
    def agent(self):
        """Runs the agent, which enforces for these containers only; yields a reader of its status.

        Checks that it reverts everything.
        """
        before = self.settings()
        configuration, socket = f"{self.state}/agent.toml", f"{self.state}/agent.sock"
        with open(configuration, "w") as file:
            file.write(
                f'[[rule]]\nmatch = "{self.tag}-*"\nnetwork_cpu = "enforce"\n\n'
                f'[socket]\npath = "{socket}"\n\n'
                '[metrics]\naddress = "off"\n\n[history]\npath = "off"\n')
        with open(f"{self.state}/agent.log", "a") as log:
            process = subprocess.Popen([
                "setpriv", "--pdeathsig", "TERM", self.program, "agent", "--config", configuration
            ],
                                       stdout=log,
                                       stderr=log)

        def status():
            return json.loads(run(self.program, "status", "--json", "--socket", socket))

        def ready():
            if process.poll() is not None:
                raise Failed(f"the agent ended: see {self.state}/agent.log")
            with contextlib.suppress(Failed):
                return len(status()["containers"]) >= len(self.pids)

        try:
            until("the agent knows the containers", 30, ready)
            yield status
        finally:
            process.terminate()
            code = process.wait(timeout=30)
        if code != 0:
            raise Failed(f"the agent exited with {code}: see {self.state}/agent.log")
        after = self.settings()
        if changed := [key for key in before | after if before.get(key) != after.get(key)]:
            changes = (f"{key}: {before.get(key)} → {after.get(key)}" for key in changed)
            raise Failed("the agent has left changes: " + "; ".join(changes))

    def ledger(self, seconds):
        """Returns what each container owes over so many seconds, without an agent.

        The unit is nanoseconds of network CPU: caused less charged.
        """
        text = run(self.program, "accounting", "record", "--duration", f"{seconds}s", "--interval",
                   f"{seconds}s", "--format", "jsonl", "--container", f"{self.tag}-*")
        found = {}
        for line in text.splitlines():
            for row in json.loads(line)["containers"]:
                found[row["name"].removeprefix(f"{self.tag}-")] = row["owed_ns"]
        return found
