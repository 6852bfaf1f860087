//! Tests of latency in the agent: histograms for Prometheus, and the socket in the containers.

mod latency_testbed;

use cofferdam_lab::fixtures::{Net, wait_until};
use latency_testbed::{COFFERDAM, alone, ask, testbed};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Running agent; ended as by systemd when dropped.
struct Agent {
    child: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(folder: &Path, latency: &str) -> Agent {
        let socket = folder.join("agent.sock");
        let config = folder.join("agent.toml");
        let text = format!(
            "socket.path = \"{}\"\nmetrics.address = \"127.0.0.1:0\"\n[latency]\n{latency}\n",
            socket.display()
        );
        std::fs::write(&config, text).expect("a file of our own");
        let child = Command::new(COFFERDAM)
            .args(["agent", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let agent = Agent { child, socket };
        wait_until("the agent answers", Duration::from_secs(30), || {
            agent.status().is_some()
        });
        agent
    }

    fn status(&self) -> Option<Value> {
        let out = Command::new(COFFERDAM)
            .args(["status", "--json", "--socket"])
            .arg(&self.socket)
            .stderr(Stdio::null())
            .output()
            .expect("the binary runs");
        let status = out.status.success().then_some(out.stdout)?;
        serde_json::from_slice(&status).ok()
    }

    /// Text of one scrape.
    fn metrics(&self) -> String {
        let status = self.status().expect("it runs");
        let address = status["agent"]["metrics_address"]
            .as_str()
            .expect("an address");
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        text
    }

    fn stop(&mut self) -> Option<i32> {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        self.child.wait().ok()?.code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Values of the series that have all of `labels`.
fn values(text: &str, name: &str, labels: &[&str]) -> Vec<f64> {
    let start = format!("{name}{{");
    text.lines()
        .filter(|l| l.starts_with(&start) && labels.iter().all(|label| l.contains(label)))
        .filter_map(|l| l.rsplit(' ').next()?.parse().ok())
        .collect()
}

/// First of these values; 0 if there is none.
fn value(text: &str, name: &str, labels: &[&str]) -> f64 {
    values(text, name, labels).first().copied().unwrap_or(0.0)
}

/// Promise 22.
#[test]
fn the_agent_exports_histograms_and_serves_the_containers() {
    alone(|| {
        let testbed = testbed();
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("latency.sock");
        let latency = format!("histograms = true\nsocket = \"{}\"", socket.display());
        let mut agent = Agent::start(dir.path(), &latency);
        let (web, other) = (testbed.web.namespace(), testbed.other.namespace());
        let name = format!("container=\"{}\"", testbed.web.name());
        let echoes = [name.as_str(), "direction=\"egress\"", "protocol=\"icmp\""];
        wait_until("its packets are measured", Duration::from_secs(20), || {
            web.sh("busybox ping -q -c 2 -i 0.05 10.98.3.2");
            value(
                &agent.metrics(),
                "cofferdam_container_latency_seconds_count",
                &echoes,
            ) > 0.0
        });
        // Next to the agent's own measurement the container has its own: these reports and no
        // others.
        ask(web, &socket, "on --protocol icmp");
        web.sh("busybox ping -q -c 3 -i 0.05 10.98.3.2");
        let lines = ask(web, &socket, "read --mace");
        let of = |way: &str| lines.iter().filter(|l| l.contains(way)).count();
        assert_eq!((of(" egress: "), of(" ingress: ")), (3, 3), "{lines:?}");
        assert_eq!(ask(other, &socket, "read"), Vec::<String>::new());
        ask(web, &socket, "off");
        // The histograms have them as well, and add up. (Packets that the container's kernel sends
        // itself, such as a router solicitation, end on the host: a miss, with its reason.)
        let out = &echoes[..2];
        wait_until("the histograms follow", Duration::from_secs(10), || {
            let text = agent.metrics();
            let sum = |name: &str| {
                let name = format!("cofferdam_container_latency_{name}");
                values(&text, &name, out).iter().sum::<f64>()
            };
            let count = "cofferdam_container_latency_seconds_count";
            value(&text, count, &echoes) >= 5.0
                && sum("packets_total") == sum("seconds_count") + sum("missed_packets_total")
        });
        let text = agent.metrics();
        let above: Vec<&str> = echoes.iter().copied().chain(["le=\"+Inf\""]).collect();
        let bucket = "cofferdam_container_latency_added_seconds_bucket";
        assert!(value(&text, bucket, &above) >= 5.0, "{text}");
        let veth: Vec<&str> = echoes.iter().copied().chain(["stage=\"veth\""]).collect();
        let stage = "cofferdam_container_latency_stage_seconds_total";
        assert!(value(&text, stage, &veth) > 0.0, "{text}");
        assert_eq!(agent.stop(), Some(0));
        assert!(!socket.exists(), "the socket's file stays");
    });
}
