//! Parts that the agent's tests share: a running agent, and a container that is flooded.

use cofferdam_lab::fixtures::traffic::{Udp, compute, udp_send, udp_sink};
use cofferdam_lab::fixtures::{FakeContainer, Namespace, Net, VethPair, exclusive, time_limit};
use cofferdam_records::status::StatusReport;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const BINARY: &str = env!("CARGO_BIN_EXE_cofferdam");
/// Unit of the agent. Tests take its capabilities from it.
pub const SERVICE: &str = include_str!("../../../../etc/cofferdam.service");

pub fn alone(body: impl FnOnce() + Send + 'static) {
    alone_for(Duration::from_secs(150), body);
}

/// Runs `body` as the only test of the machine, with a time limit; asserts that nothing is left
/// behind.
pub fn alone_for(limit: Duration, body: impl FnOnce() + Send + 'static) {
    let _alone = exclusive();
    time_limit(limit, body);
    cofferdam_lab::fixtures::assert_nothing_left();
}

/// Running agent; killed if a test ends without ending it.
pub struct Agent {
    pub child: Child,
    pub folder: tempfile::TempDir,
}

impl Agent {
    pub fn start(config: &str) -> Agent {
        Agent::with(config, &[])
    }

    /// Starts the agent under the command `before`; waits while another accounting runs.
    pub fn with(config: &str, before: &[&str]) -> Agent {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), config);
        let until = Instant::now() + Duration::from_secs(90);
        loop {
            let mut words = before.to_vec();
            let path = folder.path().join("agent.toml");
            words.extend([BINARY, "agent", "--config", path.to_str().unwrap()]);
            let mut child = Command::new(words[0])
                .args(&words[1..])
                .stdin(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut log = BufReader::new(child.stderr.take().unwrap());
            let mut printed = String::new();
            while log.read_line(&mut printed).unwrap() > 0 && !printed.contains(" ready: ") {}
            if printed.contains(" ready: ") {
                // Later lines go to the test's output.
                std::thread::spawn(move || log.lines().for_each(|l| eprintln!("agent: {l:?}")));
                return Agent { child, folder };
            }
            child.wait().unwrap();
            assert!(
                printed.contains("another cofferdam") && Instant::now() < until,
                "{printed}"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// Runs a command that asks this agent.
    pub fn ask(&self, args: &[&str]) -> Output {
        Command::new(BINARY)
            .args(args)
            .args(["--socket", self.socket().to_str().unwrap()])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    pub fn status(&self) -> StatusReport {
        let output = self.ask(&["status", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Stops all threads of the agent, until SIGCONT.
    pub fn hold(&self) {
        self.signal(Signal::SIGSTOP);
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert_eq!(stopped, WaitStatus::Stopped(pid, Signal::SIGSTOP));
    }

    /// Ends the agent by `signal`, and returns its exit code.
    pub fn end(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Agent {
    /// Ends the agent in order, so that nothing stays on the host; kills it if it does not end.
    fn drop(&mut self) {
        const ORDERLY: Duration = Duration::from_secs(20);
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let until = Instant::now() + ORDERLY;
        // If the agent has ended already, this is an error and there is nothing to do.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = (kill(pid, Signal::SIGTERM), kill(pid, Signal::SIGCONT));
        }
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn write(folder: &Path, config: &str) {
    let head = format!(
        "socket.path = \"{}\"\nmetrics.address = \"127.0.0.1:0\"\n",
        folder.join("agent.sock").display()
    );
    std::fs::write(folder.join("agent.toml"), head + config).unwrap();
}

pub fn cofferdam(args: &[&str]) -> Output {
    Command::new(BINARY)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

pub fn line(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

pub fn enforce(glob: &str) -> String {
    format!("[[rule]]\nmatch = \"{glob}\"\nnetwork_cpu = \"enforce\"\n")
}

/// Container that is flooded on CPU 0, where another one computes.
pub struct Testbed {
    pub traffic: Vec<cofferdam_lab::fixtures::ForkedProcess>,
    _link: VethPair,
    pub flooded: FakeContainer,
    pub victim: FakeContainer,
    pub source: Namespace,
}

impl Testbed {
    pub fn new() -> Testbed {
        let (victim, flooded) = (FakeContainer::new("victim"), FakeContainer::new("flooded"));
        let source = Namespace::new("source");
        let link = VethPair::new((&source, "veth0"), (flooded.namespace(), "eth0"));
        source.address("veth0", "10.98.0.1/24");
        flooded.namespace().address("eth0", "10.98.0.2/24");
        flooded.namespace().steer("eth0", 1);
        Testbed {
            traffic: Vec::new(),
            _link: link,
            flooded,
            victim,
            source,
        }
    }

    /// Gives the flooded container half of a CPU. Its debt surely exceeds that limit. With a whole
    /// CPU it might leave so much of its share, next to whatever else runs here, that the agent
    /// would change nothing.
    pub fn cap(&self) {
        let cpu = self.flooded.cgroup().controller("cpu");
        let (file, text) = match cpu.join("cpu.max").exists() {
            true => ("cpu.max", "50000 100000"),
            false => ("cpu.cfs_quota_us", "50000"),
        };
        std::fs::write(cpu.join(file), text).unwrap();
    }

    pub fn load(&mut self) {
        let length = Duration::from_secs(60);
        let to: SocketAddr = "10.98.0.2:9000".parse().unwrap();
        self.traffic = vec![
            compute(&self.victim, Some(0), length),
            udp_sink(&self.flooded, Some(0), to, u64::MAX),
            udp_send(&self.source, Some(1), Udp::to(to).flood(length)),
        ];
    }

    /// State of everything that the agent may change here, as text.
    pub fn state(&self) -> String {
        let mut text = self.cgroups();
        let script = "for d in /sys/class/net/*; do echo $d; cat $d/threaded; done; \
                      ip link | sed 's/state .*//'; tc qdisc show; \
                      cat /sys/class/net/*/queues/*/rps_cpus";
        text += &self.flooded.namespace().sh(script);
        text += &self.flooded.namespace().run("ethtool -k eth0");
        text += &self.source.sh(script);
        text += &self.source.run("ethtool -k veth0");
        text
    }

    /// Part of the state in cgroups. It outlives a killed agent, while programs on links do not.
    pub fn cgroups(&self) -> String {
        let mut text = String::new();
        for container in [&self.flooded, &self.victim] {
            for (controller, file) in [
                ("cpu", "cpu.shares"),
                ("cpu", "cpu.cfs_quota_us"),
                ("cpu", "cpu.cfs_period_us"),
                ("cpu", "cpu.weight"),
                ("cpu", "cpu.max"),
                ("cpu", "cpu.idle"),
                ("cpuset", "cpuset.cpus"),
            ] {
                let path = container.cgroup().controller(controller).join(file);
                let value = std::fs::read_to_string(&path).unwrap_or_default();
                text += &format!("{}: {value}\n", path.display());
            }
            for child in std::fs::read_dir(container.cgroup().controller("cpu")).unwrap() {
                let child = child.unwrap();
                if child.file_type().unwrap().is_dir() {
                    text += &format!("below: {}\n", child.path().display());
                }
            }
        }
        text
    }
}
