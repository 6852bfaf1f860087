//! Tests of `cofferdam latency ping`: each way to probe, from the host and from a container.

mod latency_testbed;

use cofferdam_lab::fixtures::{Net, traffic};
use latency_testbed::{COFFERDAM, Serve, alone, testbed};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Asserts that every probe was measured in both directions, and that the figures add up.
fn assert_corrected(record: &Value, count: u64) {
    assert_eq!(record["schema"], "cofferdam.latency-ping/1");
    assert_eq!(record["received"], count, "{record}");
    assert_eq!(record["measured"], count, "{record}");
    for round in record["rounds"].as_array().expect("rounds") {
        let ns = |name: &str| round[name].as_u64().expect(name);
        assert!(ns("rtt_ns") > ns("added_ns"), "{round}");
        assert_eq!(ns("corrected_ns"), ns("rtt_ns") - ns("added_ns"));
        assert!(ns("wire_ns") < ns("corrected_ns"), "{round}");
    }
}

/// Record of `cofferdam latency ping 10.98.3.2 --json` with more words, started by `program`.
#[track_caller]
fn ping<'a>(program: &[&'a str], words: impl IntoIterator<Item = &'a str>) -> Value {
    let out = Command::new(program[0])
        .args(&program[1..])
        .args(["latency", "ping", "10.98.3.2", "--json", "-i", "20ms"])
        .args(words)
        .stderr(Stdio::inherit())
        .output()
        .expect("it runs");
    assert!(out.status.success(), "{out:?}");
    serde_json::from_slice(&out.stdout).expect("one JSON document")
}

/// Promise 21.
#[test]
fn a_ping_from_a_container_is_corrected() {
    alone(|| {
        let testbed = testbed();
        let words = ["-c", "5", "--container", testbed.web.name()];
        assert_corrected(&ping(&[COFFERDAM], words), 5);
    });
}

/// Packets to the gateway, which is the host, do not leave the host: no figures, and the reason.
/// Promise 21.
#[test]
fn a_ping_that_cannot_be_measured_gives_the_reason() {
    alone(|| {
        let testbed = testbed();
        for host in ["10.98.1.1", "127.0.0.1"] {
            let out = Command::new(COFFERDAM)
                .args(["latency", "ping", host, "-c", "2", "-i", "20ms"])
                .args(["--container", testbed.web.name()])
                .output()
                .expect("it runs");
            assert!(out.status.success(), "{out:?}");
            let text = String::from_utf8(out.stdout).expect("text");
            assert!(text.contains("2 answered, 0 measured"), "{text}");
            let last = text.lines().last().unwrap_or_default();
            assert!(last.contains("answers on this host"), "{text}");
        }
    });
}

/// Promise 21.
#[test]
fn connections_are_pinged_too() {
    alone(|| {
        let testbed = testbed();
        let peer = &testbed.peer;
        let server = peer.thread(|| {
            let listener = std::net::TcpListener::bind("0.0.0.0:9000").expect("a free port");
            for _ in 0..3 {
                drop(listener.accept());
            }
        });
        let web = testbed.web.name();
        let words = ["-c", "3", "--tcp-connect", "9000", "--container", web];
        assert_eq!(ping(&[COFFERDAM], words)["measured"], 3);
        server.join().expect("three connections");
    });
}

/// Promise 21.
#[test]
fn datagrams_are_pinged_too() {
    alone(|| {
        let testbed = testbed();
        let at = "10.98.3.2:9000".parse().expect("an address");
        let _echo = traffic::udp_echo(&testbed.peer, None, at);
        let web = testbed.web.name();
        let words = ["-c", "5", "--udp", "9000", "--container", web];
        assert_corrected(&ping(&[COFFERDAM], words), 5);
    });
}

/// The user is inside the container and has no capability: the ping uses the kernel's ping socket,
/// and the reports of the socket that is mounted into the container.
/// Promise 21.
#[test]
fn a_user_without_capabilities_pings_by_a_ping_socket() {
    alone(|| {
        let testbed = testbed();
        let dir = tempfile::tempdir().expect("a directory");
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), everybody).expect("our own directory");
        let serve = Serve::start(dir.path());
        let web = testbed.web.namespace();
        web.sysctl("net/ipv4/ping_group_range", "'0 2147483647'");
        let socket = serve.socket.to_str().expect("a plain path");
        let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all \
                      --inh-caps=-all --no-new-privs";
        let mut program = vec!["ip", "netns", "exec", web.name()];
        program.extend(nobody.split_whitespace());
        program.push(COFFERDAM);
        assert_corrected(&ping(&program, ["-c", "5", "--socket", socket]), 5);
    });
}

/// CLOCK_MONOTONIC of another time namespace differs from that of the reports, and is corrected.
/// Promise 21.
#[test]
fn a_time_namespace_shifts_nothing() {
    alone(|| {
        let testbed = testbed();
        let begin = SystemTime::now();
        let shifted = "unshare --time --monotonic 100000 --fork";
        let mut program: Vec<&str> = shifted.split(' ').collect();
        program.push(COFFERDAM);
        let words = ["-c", "5", "--container", testbed.web.name()];
        assert_corrected(&ping(&program, words), 5);
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("latency.jsonl");
        let mut child = Command::new(program[0])
            .args(&program[1..])
            .args(["latency", "record", "--format", "jsonl", "--per", "packet"])
            .args(["--duration", "2s", "--container", testbed.web.name()])
            .arg("--output")
            .arg(&file)
            .spawn()
            .expect("unshare runs");
        while child.try_wait().expect("it can be waited for").is_none() {
            testbed
                .web
                .namespace()
                .sh("busybox ping -q -c 2 -i 0.1 10.98.3.2");
        }
        let text = std::fs::read_to_string(&file).expect("text");
        let first: Value =
            serde_json::from_str(text.lines().next().expect("a packet")).expect("JSON");
        let time = first["time"].as_str().expect("a time");
        let time = humantime::parse_rfc3339(time).expect("RFC 3339");
        assert!(begin <= time && time <= SystemTime::now(), "{first}");
    });
}
