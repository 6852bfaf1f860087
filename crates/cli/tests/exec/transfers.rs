//! Tests of large transfers by unmodified programs over a link that loses, repeats and reorders:
//! every byte arrives, once and in order.

use crate::support::{ADDRESS, CLIENT, PATIENCE, Program, Scene, alone_for};
use cofferdam_lab::fixtures::{number_from_env, wait_until};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// Default for the MiB that each program sends, and that redis also receives;
/// COFFERDAM_TRANSFER_MIB sets another.
const TRANSFER_MIB: u64 = 64;

fn mib() -> u64 {
    number_from_env("COFFERDAM_TRANSFER_MIB").unwrap_or(TRANSFER_MIB)
}

/// Time limit: two minutes, and a second for each MiB.
fn limit() -> Duration {
    Duration::from_secs(120 + mib())
}

/// Prints the numbers of lost, repeated and reordered frames, for the report.
fn report_frames(scene: &Scene, what: &str, bytes: u64, began: Instant) {
    let (lost, repeated, reordered) = scene.link_did();
    println!(
        "{what}: {bytes} bytes in {:.1} s, {lost} frames lost, {repeated} repeated, \
         {reordered} reordered",
        began.elapsed().as_secs_f64()
    );
    assert!(lost > 0 && repeated > 0 && reordered > 0);
}

/// First word of a command's output at the client.
fn word(scene: &Scene, line: &str) -> String {
    let printed = scene.long_client(line, limit());
    printed
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Promise 53.
#[test]
fn nginx_sends_a_large_file_over_a_bad_link() {
    alone_for(limit(), || {
        let scene = Scene::with_bad_link();
        let folder = scene.folder();
        let bytes = mib() << 20;
        scene.long_client(
            &format!("head -c {bytes} /dev/urandom > {folder}/file"),
            limit(),
        );
        let text = format!(
            "daemon off; user root; worker_processes 1; pid {folder}/pid; \
         error_log {folder}/error.log;\n\
             events {{ worker_connections 64; }}\n\
             http {{ access_log off; sendfile on; server {{ listen 80; root {folder}; }} }}\n"
        );
        std::fs::write(scene.path("nginx.conf"), text).unwrap();
        let server = scene.serve(
            "nginx",
            &format!("nginx -p {folder} -c {folder}/nginx.conf"),
        );
        scene.wait_for_port(80);
        let began = Instant::now();
        let got = word(
            &scene,
            &format!("curl -sS http://{ADDRESS}/file | sha256sum"),
        );
        report_frames(&scene, "nginx", bytes, began);
        assert_eq!(got, word(&scene, &format!("sha256sum {folder}/file")));
        server.signal(Signal::SIGQUIT);
        assert_eq!(server.end(), Some(0), "{}", server.output());
    });
}

/// Promise 53.
#[test]
fn redis_stores_and_returns_large_values_over_a_bad_link() {
    alone_for(limit(), || {
        let scene = Scene::with_bad_link();
        let server = scene.serve(
            "redis",
            "redis-server --port 6379 --protected-mode no --save ''",
        );
        scene.wait_for_port(6379);
        let script = scene.script("values.py", include_str!("values.py"));
        let (mib, began) = (mib(), Instant::now());
        let line = format!("/usr/bin/python3 {script} {ADDRESS} 6379 {mib}");
        let printed = scene.long_client(&line, limit());
        let bytes = mib << 20;
        report_frames(&scene, "redis, each way", bytes, began);
        assert!(
            printed.starts_with(&format!("set {bytes} got {bytes} sha256 ")),
            "{printed}"
        );
        server.signal(Signal::SIGTERM);
        assert_eq!(server.end(), Some(0), "{}", server.output());
    });
}

/// Number called `name` at the end of iperf3's report.
pub fn last(report: &serde_json::Value, part: &str, name: &str) -> u64 {
    let found = report.pointer(&format!("/end/{part}/{name}"));
    found
        .and_then(serde_json::Value::as_u64)
        .unwrap_or_else(|| panic!("no {part}/{name} in {report}"))
}

/// Promise 53.
#[test]
fn iperf3_transfers_over_a_bad_link_in_both_roles() {
    alone_for(limit(), || {
        let scene = Scene::with_bad_link();
        let bytes = mib() << 20;
        let json = |text: &str| -> serde_json::Value {
            serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
        };
        // iperf3 listens again for each test, and resets earlier connections: therefore only its
        // output is checked.
        let listens = |server: &Program, test: usize| {
            let line = format!("(test #{test})");
            wait_until("iperf3", PATIENCE, || server.output().contains(&line));
        };
        let server = scene.serve("server", "iperf3 -s -p 5201 --forceflush");
        let peer = scene.at_client("peer", "iperf3 -s -p 5202 --forceflush");
        for (test, reverse) in (1..).zip(["", "-R"]) {
            listens(&server, test);
            let began = Instant::now();
            let line = format!("iperf3 -c {ADDRESS} -p 5201 -n {bytes} -J {reverse}");
            let report = json(&scene.long_client(&line, limit()));
            check(&report, bytes, reverse == "-R", false);
            report_frames(&scene, &format!("iperf3 -s {reverse}"), bytes, began);
        }
        for (test, reverse) in (1..).zip(["", "-R"]) {
            listens(&peer, test);
            let began = Instant::now();
            let line = format!("iperf3 -c {CLIENT} -p 5202 -n {bytes} -J {reverse}");
            let out = scene.run_on_dataplane_for(&line, limit());
            let report = json(&String::from_utf8_lossy(&out.stdout));
            check(&report, bytes, reverse.is_empty(), true);
            report_frames(&scene, &format!("iperf3 -c {reverse}"), bytes, began);
        }
        server.signal(Signal::SIGTERM);
        server.end();
        peer.signal(Signal::SIGTERM);
        peer.end();
    });
}

/// Checks that all was sent, and that all was received except data in flight at the end. `TCP_INFO`
/// of a sender on the dataplane has the retransmissions and, in the sender's own report, its
/// window.
#[track_caller]
fn check(report: &serde_json::Value, bytes: u64, is_sender_ours: bool, is_senders: bool) {
    assert!(report.get("error").is_none(), "{report}");
    let (sent, received) = (
        last(report, "sum_sent", "bytes"),
        last(report, "sum_received", "bytes"),
    );
    // The last block is complete: 128 KiB.
    assert!((bytes..=bytes + (128 << 10)).contains(&sent), "{sent}");
    assert!(
        received <= sent && received >= bytes - (4 << 20),
        "{received} of {sent}"
    );
    if is_sender_ours {
        assert!(last(report, "sum_sent", "retransmits") > 0, "{report}");
    }
    if is_sender_ours && is_senders {
        let stream = report.pointer("/end/streams/0/sender");
        let of = |name: &str| stream.and_then(|s| s.get(name)?.as_u64());
        assert!(
            of("max_snd_cwnd") > Some(0) && of("max_rtt") > Some(0),
            "{report}"
        );
    }
}
