//! Tests of `cofferdam latency` on real namespaces: recordings, pings, and the socket in
//! containers.

mod latency_testbed;

use cofferdam_lab::fixtures::{FakeContainer, Net, wait_until};
use latency_testbed::{COFFERDAM, Serve, alone, ask, testbed};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Promise 72.
#[test]
fn the_three_steps_inside_a_container() {
    alone(|| {
        let testbed = testbed();
        let dir = tempfile::tempdir().expect("a directory");
        let mut serve = Serve::start(dir.path());
        let (web, other) = (testbed.web.namespace(), testbed.other.namespace());
        ask(web, &serve.socket, "on --protocol icmp");
        web.sh("busybox ping -q -c 3 -i 0.1 10.98.3.2");
        other.sh("busybox ping -q -c 5 -i 0.1 10.98.3.2");
        let lines = ask(web, &serve.socket, "read --mace");
        let of = |way: &str| lines.iter().filter(|l| l.contains(way)).count();
        assert_eq!((of(" egress: "), of(" ingress: ")), (3, 3), "{lines:?}");
        for line in &lines {
            // Format: [1552589043.315681] (1) egress: 80932
            let (time, rest) = line.split_once("] (").expect(line);
            assert!(time.starts_with('[') && time.contains('.'), "{line}");
            let (_, ns) = rest.rsplit_once(": ").expect(line);
            assert!(ns.parse::<u64>().is_ok_and(|ns| ns > 0), "{line}");
        }
        // The neighbour gets none of these reports, before and during its own measurement.
        assert_eq!(ask(other, &serve.socket, "read"), Vec::<String>::new());
        ask(other, &serve.socket, "on");
        web.sh("busybox ping -q -c 3 -i 0.1 10.98.3.2");
        assert!(
            !ask(other, &serve.socket, "read")
                .iter()
                .any(|l| l.contains("10.98.1.2")),
            "another namespace's packets"
        );
        ask(web, &serve.socket, "off");
        assert_eq!(serve.stop(), Some(130));
        assert!(!serve.socket.exists(), "the socket's file stays");
    });
}

#[test]
fn the_host_itself_is_refused_and_a_second_server_too() {
    alone(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let mut serve = Serve::start(dir.path());
        let mut stream = BufReader::new(UnixStream::connect(&serve.socket).expect("it listens"));
        stream.get_mut().write_all(b"on\n").expect("it reads");
        let mut line = String::new();
        stream.read_line(&mut line).expect("it answers");
        assert!(line.starts_with("error this is the host's own"), "{line}");
        let second = Command::new(COFFERDAM)
            .args(["latency", "serve", "--socket"])
            .arg(&serve.socket)
            .output()
            .expect("the binary runs");
        assert_eq!(second.status.code(), Some(1));
        let text = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(text.contains("another process listens on"), "{text}");
        // A killed server leaves a socket that the next one replaces.
        serve.child.kill().expect("it runs");
        serve.child.wait().expect("it ran");
        let mut next = Serve::start(dir.path());
        assert_eq!(next.stop(), Some(130));
    });
}

#[test]
fn packets_are_recorded_as_json_lines() {
    alone(|| {
        let testbed = testbed();
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("latency.jsonl");
        let mut child = Command::new(COFFERDAM)
            .args(["latency", "record", "--format", "jsonl", "--per", "packet"])
            .args(["--duration", "3s", "--container", testbed.web.name()])
            .arg("--output")
            .arg(&file)
            .spawn()
            .expect("the binary runs");
        // Sends until the recording ends, because its begin is unknown.
        let web = testbed.web.namespace();
        let status = loop {
            if let Some(status) = child.try_wait().expect("it can be waited for") {
                break status;
            }
            web.sh("busybox ping -q -c 5 -i 0.02 10.98.3.2");
        };
        assert!(status.success());
        let text = std::fs::read_to_string(&file).expect("text");
        let lines: Vec<Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).expect("one object a line"))
            .collect();
        let (packets, rest): (Vec<_>, Vec<_>) = lines.iter().partition(|l| l["kind"] == "packet");
        assert!(packets.len() > 10, "{text}");
        for packet in &packets {
            assert_eq!(packet["schema"], "cofferdam.latency/1");
            assert_eq!(packet["container"], testbed.web.name());
            let parts = packet["stages_ns"].as_object().expect("parts");
            let sum: u64 = parts.values().filter_map(Value::as_u64).sum();
            assert_eq!(packet["total_ns"].as_u64(), Some(sum));
        }
        assert_eq!(rest.len(), 1, "the summary");
        let flows = rest[0]["flows"].as_array().expect("flows");
        assert!(flows.iter().any(|f| f["protocol"] == "icmp"
            && f["direction"] == "egress"
            && f["reports"].as_u64() > Some(10)));
    });
}

/// Promise 76.
#[test]
fn bad_input_is_one_clear_line() {
    alone(|| {
        let testbed = testbed();
        let fails = |arguments: &[&str], code: i32, words: &str| {
            let out = Command::new(COFFERDAM)
                .arg("latency")
                .args(arguments)
                .output()
                .expect("the binary runs");
            let text = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(code), "{arguments:?}: {text}");
            assert!(text.contains(words), "{arguments:?}: {text}");
            assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
        };
        let lonely = FakeContainer::new("lonely");
        fails(
            &["record", "--container", lonely.name()],
            1,
            "no network interface of its own",
        );
        fails(&["record", "--container", "nobody-here"], 1, "no container");
        fails(
            &[
                "record",
                "--container",
                testbed.web.name(),
                "--interface",
                "eth7",
            ],
            1,
            "no selected container has an interface 'eth7': there are eth0",
        );
        fails(&["record", "--port", "0"], 2, "--port");
        fails(
            &["ping", "10.98.3.2", "--socket", "/nowhere"],
            1,
            "latency serve",
        );
        let full = ["record", "--duration", "100ms", "--output", "/dev/full"];
        fails(&full, 1, "No space left");
    });
}

/// Small file system; unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> SmallDisk {
        let disk = SmallDisk(tempfile::tempdir().expect("a directory"));
        let options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs"];
        let done = Command::new("mount")
            .args(options)
            .arg(disk.0.path())
            .status();
        assert!(done.expect("mount runs").success());
        disk
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Promise 67.
#[test]
fn a_full_disk_ends_the_recording_with_whole_lines() {
    alone(|| {
        let testbed = testbed();
        let disk = SmallDisk::mount();
        let file = disk.0.path().join("latency.jsonl");
        let mut child = Command::new(COFFERDAM)
            .args(["latency", "record", "--format", "jsonl", "--per", "packet"])
            .args(["--duration", "30s", "--container", testbed.web.name()])
            .arg("--output")
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        // About 600 bytes a packet and direction: the disk has space for about fifty echoes.
        wait_until("the recording has ended", Duration::from_secs(30), || {
            testbed
                .web
                .namespace()
                .sh("busybox ping -q -c 20 -i 0.01 10.98.3.2 >/dev/null || true");
            child.try_wait().expect("it can be waited for").is_some()
        });
        let out = child.wait_with_output().expect("it ended");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{text}");
        assert!(text.contains("No space left"), "{text}");
        let recorded = std::fs::read_to_string(&file).expect("text");
        let whole = recorded.rfind('\n').map_or("", |end| &recorded[..end]);
        assert!(whole.lines().count() > 20, "{recorded}");
        for line in whole.lines() {
            serde_json::from_str::<Value>(line).expect(line);
        }
    });
}

/// Promise 67.
#[test]
fn a_container_that_ends_ends_its_recording() {
    alone(|| {
        let testbed = testbed();
        let brief = FakeContainer::new("brief");
        testbed.router.attach(&brief);
        brief.ping("10.98.3.2");
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("latency.jsonl");
        let child = Command::new(COFFERDAM)
            .args(["latency", "record", "--format", "jsonl", "--per", "packet"])
            .args(["--duration", "50s", "--container", brief.name()])
            .arg("--output")
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let recorded = || std::fs::read_to_string(&file).unwrap_or_default();
        wait_until("packets are recorded", Duration::from_secs(30), || {
            brief
                .namespace()
                .sh("busybox ping -q -c 5 -i 0.02 10.98.3.2");
            recorded().lines().count() >= 10
        });
        drop(brief);
        let out = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{text}");
        assert!(text.contains("every selected container is gone"), "{text}");
        assert!(recorded().lines().count() >= 10, "{}", recorded());
    });
}

/// Promise 67.
#[test]
fn a_filter_that_matches_nothing_says_so() {
    alone(|| {
        let testbed = testbed();
        let out = Command::new(COFFERDAM)
            .args([
                "latency",
                "record",
                "--duration",
                "300ms",
                "--port",
                "65000",
            ])
            .args(["--container", testbed.web.name()])
            .output()
            .expect("the binary runs");
        assert!(out.status.success());
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(text.contains("no packets"), "{text}");
    });
}
