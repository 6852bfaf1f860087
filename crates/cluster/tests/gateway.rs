//! Tests of a gateway without an agent, and with hostile clients: it answers with a reason and
//! continues.
#![allow(clippy::unwrap_used)]

use cofferdam_cluster::gateway::{Gateway, Options};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Runs a gateway while `body` runs.
fn with_gateway(folder: &Path, body: impl FnOnce(SocketAddr)) {
    let options = Options {
        listen: "127.0.0.1:0".parse().unwrap(),
        socket: folder.join("agent.sock"),
        token_file: folder.join("token"),
        doctor_file: Some(folder.join("doctor.json")),
    };
    let mut gateway = Gateway::start(&options).unwrap();
    let address = gateway.address().unwrap();
    let (stop, stopped) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(move || gateway.run(stopped.as_fd()));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(address)));
        drop(stop);
        served.join().unwrap().unwrap();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn get(address: SocketAddr, path: &str, header: &str) -> String {
    ask(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n"),
    )
}

/// Promise 73.
#[test]
fn only_the_token_gives_access_except_for_probes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    std::fs::write(folder.path().join("doctor.json"), "{\"schema\":\"x\"}").unwrap();
    with_gateway(folder.path(), |address| {
        let (ours, bearer) = (
            format!("x-cofferdam-TOKEN: {TOKEN}"),
            format!("Authorization: Bearer {TOKEN}"),
        );
        assert!(get(address, "/healthz", "A: b").starts_with("HTTP/1.1 200"));
        for header in [&ours, &bearer] {
            assert!(get(address, "/v1/doctor", header).ends_with("{\"schema\":\"x\"}"));
        }
        for path in [
            "/v1/node",
            "/v1/explain",
            "/v1/status",
            "/v1/doctor",
            "/metrics",
            "/",
            "/healthz/",
        ] {
            assert!(
                get(address, path, "A: b").starts_with("HTTP/1.1 403"),
                "{path}"
            );
            let wrong = format!("X-Cofferdam-Token: {}", TOKEN.to_uppercase());
            assert!(
                get(address, path, &wrong).starts_with("HTTP/1.1 403"),
                "{path}"
            );
        }
        // Two tokens are as good as none.
        let twice = format!("{ours}\r\n{ours}");
        assert!(get(address, "/v1/doctor", &twice).starts_with("HTTP/1.1 403"));
        assert!(
            get(address, &format!("/v1/doctor?token={TOKEN}"), "A: b").starts_with("HTTP/1.1 403")
        );
        let post = format!("POST /v1/node HTTP/1.1\r\n{ours}\r\n\r\n");
        assert!(ask(address, &post).starts_with("HTTP/1.1 405"));
        assert!(get(address, "/v1/../v1/node", &ours).starts_with("HTTP/1.1 404"));
    });
}

/// Promise 73.
#[test]
fn a_missing_agent_or_token_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let ours = format!("X-Cofferdam-Token: {TOKEN}");
    with_gateway(folder.path(), |address| {
        let answer = get(address, "/v1/node", &ours);
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("create the Secret"),
            "{answer}"
        );
        // The kubelet mounts the token later.
        std::fs::write(folder.path().join("token"), TOKEN).unwrap();
        let mut answer = String::new();
        for _ in 0..100 {
            answer = get(address, "/v1/node", &ours);
            if answer.contains("no agent is running") {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("no agent is running"),
            "{answer}"
        );
        assert!(get(address, "/metrics", &ours).contains("no agent is running"));
        let ready = get(address, "/readyz", "A: b");
        assert!(
            ready.starts_with("HTTP/1.1 503") && !ready.contains("running"),
            "{ready}"
        );
        assert!(get(address, "/v1/doctor", &ours).contains("cannot read the doctor's report"));
    });
}

#[test]
fn a_taken_address_is_named() {
    let folder = tempfile::tempdir().unwrap();
    with_gateway(folder.path(), |address| {
        let options = Options {
            listen: address,
            socket: folder.path().join("agent.sock"),
            token_file: folder.path().join("token"),
            doctor_file: None,
        };
        let why = Gateway::start(&options).err().unwrap().to_string();
        assert!(
            why.contains(&address.to_string()) && why.contains("--listen"),
            "{why}"
        );
    });
}
