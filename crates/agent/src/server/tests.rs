use super::*;
use crate::config::SocketConfig;
use crate::testing::{TestAgent, until};
use crate::wire::Answer;
use cofferdam_lab::fixtures::{CROWD, Crowd, send_descriptor};
use cofferdam_records::status::StatusReport;
use std::io::{BufRead, BufReader, Read, Write};

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

const STATUS: &[u8] = b"{\"version\":1,\"op\":\"status\"}\n";

fn connect(agent: &TestAgent) -> BufReader<UnixStream> {
    let stream = UnixStream::connect(agent.socket()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    BufReader::new(stream)
}

fn line(stream: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line
}

fn refusal(line: &str) -> RefusalCode {
    let answer: Answer<()> = serde_json::from_str(line).expect(line);
    answer.error.expect(line).code
}

fn is_status(line: &str) -> bool {
    let answer: Result<Answer<StatusReport>, _> = serde_json::from_str(line);
    answer.is_ok_and(|a| a.ok.is_some())
}

/// Whether the other end has closed.
fn closed(stream: &mut BufReader<UnixStream>) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => rest.is_empty(),
        // The agent closed with unread bytes of ours.
        Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Promise 71.
#[test]
fn garbage_is_refused_and_the_connection_closed() {
    let agent = TestAgent::start("");
    for (bytes, code) in [
        (&b"\n"[..], RefusalCode::BadRequest),
        (b"GET / HTTP/1.1\r\n\r\n", RefusalCode::BadRequest),
        (b"\xff\xfe\x00\n", RefusalCode::BadRequest),
        (b"{\"version\":9,\"op\":\"status\"}\n", RefusalCode::Version),
        (
            b"{\"version\":1,\"op\":\"status\",\"x\":1}\n",
            RefusalCode::BadRequest,
        ),
    ] {
        let mut stream = connect(&agent);
        stream.get_mut().write_all(bytes).unwrap();
        assert_eq!(refusal(&line(&mut stream)), code);
        assert!(closed(&mut stream));
    }
    assert!(agent.client().status().is_ok());
}

/// Promise 71.
#[test]
fn a_message_without_end_is_cut_off() {
    let agent = TestAgent::start("");
    let mut stream = connect(&agent);
    // The agent may close before all is written.
    let _ = stream.get_mut().write_all(&vec![b'x'; 1 << 20]);
    let answer = line(&mut stream);
    assert_eq!(refusal(&answer), RefusalCode::TooLong);
    assert!(agent.client().status().is_ok());
}

/// Promise 71.
#[test]
fn half_a_message_times_out_and_harms_no_other() {
    let agent = TestAgent::start("");
    let mut half = connect(&agent);
    half.get_mut().write_all(&STATUS[..10]).unwrap();
    assert!(agent.client().status().is_ok());
    let begin = Instant::now();
    assert!(closed(&mut half));
    assert!(
        begin.elapsed() < connection::IDLE,
        "not by the longer limit"
    );
}

#[test]
fn a_message_may_come_in_pieces_and_several_at_once() {
    let agent = TestAgent::start("");
    let mut stream = connect(&agent);
    for piece in STATUS.chunks(3) {
        stream.get_mut().write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(is_status(&line(&mut stream)));
    let snapshot = b"{\"version\":1,\"op\":\"snapshot\"}\n";
    let both = [STATUS, snapshot, STATUS, snapshot, STATUS].concat();
    stream.get_mut().write_all(&both).unwrap();
    for i in 0..5 {
        assert_eq!(
            is_status(&line(&mut stream)),
            i % 2 == 0,
            "answers keep their order"
        );
    }
}

/// Promise 71.
#[test]
fn thousands_of_connections_exclude_no_client() {
    let agent = TestAgent::start("");
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut connections: Vec<_> = (0..3000).map(|_| connect(&agent)).collect();
    // The user's longest silent connections made room for the last ones.
    for stream in &mut connections[3000 - MOST_CONTROL..] {
        stream.get_mut().write_all(STATUS).unwrap();
        assert!(is_status(&line(stream)));
    }
    assert!(
        line(&mut connections[0]).is_empty(),
        "closed without a word"
    );
    assert!(agent.client().status().is_ok());
    drop(connections);
    until("there is room again", || agent.client().status().is_ok());
    until("descriptors are closed", || {
        std::fs::read_dir("/proc/self/fd").unwrap().count() <= before + 64
    });
}

/// Promise 71.
#[test]
fn root_always_finds_a_place() {
    let waiting = |uid: u32, count: usize| vec![(Peer::Uid(uid), false); count];
    let silent = |uid: u32, count: usize| vec![(Peer::Uid(uid), true); count];
    let user = Peer::Uid(1000);
    let others: Vec<_> = (1..=MOST_UNPRIVILEGED as u32)
        .flat_map(|uid| waiting(uid, 1))
        .collect();
    assert_eq!(BUDGET.admit(user, &others), Admission::Refused);
    assert_eq!(BUDGET.admit(Peer::ROOT, &others), Admission::Free);
    assert_eq!(
        BUDGET.admit(user, &waiting(0, MOST_UNPRIVILEGED)),
        Admission::Free
    );
    assert_eq!(
        BUDGET.admit(Peer::ROOT, &waiting(0, MOST_CONTROL)),
        Admission::Refused
    );
    let own = silent(1000, MOST_A_USER);
    assert_eq!(BUDGET.admit(user, &own), Admission::InsteadOf(0));
    assert_eq!(BUDGET.admit(Peer::Uid(1001), &own), Admission::Free);
    // Users without requests do not exclude others.
    let crowd: Vec<_> = (1..=MOST_UNPRIVILEGED as u32)
        .flat_map(|uid| silent(uid, 1))
        .collect();
    assert_eq!(BUDGET.admit(user, &crowd), Admission::InsteadOf(0));
}

/// Promise 71.
#[test]
fn a_flood_of_requests_does_not_stop_the_control_loop() {
    let agent = TestAgent::start("[[rule]]\nmatch = \"web-*\"\nnetwork_cpu = \"enforce\"\n");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = agent.client();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    client.snapshot().unwrap();
                }
            });
        }
        agent.world.add(1, "web-1");
        until("the container gets its class", || {
            agent.world.wanted() == ["web-1"]
        });
        let steps = || agent.world.steps.load(std::sync::atomic::Ordering::Relaxed);
        let begin = steps();
        until("steps continue", || steps() > begin + 5);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Promise 71.
#[test]
fn a_reader_that_takes_no_answers_delays_no_other() {
    let agent = TestAgent::start("");
    for i in 0..500 {
        agent.world.add(i + 1, &format!("container-{i}"));
    }
    let deaf: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = connect(&agent);
            stream.get_mut().set_nonblocking(true).unwrap();
            let requests = b"{\"version\":1,\"op\":\"snapshot\"}\n".repeat(100);
            let _ = stream.get_mut().write(&requests);
            stream
        })
        .collect();
    let mut client = agent.client();
    for _ in 0..20 {
        client.snapshot().unwrap();
    }
    drop(deaf);
}

fn http(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn metrics_are_scraped_over_http() {
    let agent = TestAgent::start("");
    agent.world.add(1, "web-1");
    let address = agent
        .client()
        .status()
        .unwrap()
        .agent
        .metrics_address
        .unwrap();
    let get = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    until("the container is served", || {
        http(&address, get).contains("container=\"web-1\"")
    });
    let text = http(&address, get);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("openmetrics-text"));
    assert!(head.contains(&format!("Content-Length: {}", body.len())));
    let (rest, _) = nom_openmetrics::parser::openmetrics(body).unwrap();
    assert_eq!(rest, "");
    assert!(http(&address, "x\r\n\r\n").starts_with("HTTP/1.1 400"));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(10_000));
    let message = http(&address, &long);
    assert!(
        message.starts_with("HTTP/1.1 431") || message.is_empty(),
        "{message}"
    );
}

/// Promise 71.
#[test]
fn status_and_scrapes_work_during_5000_bad_connections() {
    let mut crowd = Crowd::new();
    let agent = TestAgent::start("");
    let address = agent.client().status().unwrap().agent.metrics_address;
    let address = address.unwrap();
    let get = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    for _ in 0..10 {
        crowd.grow(address.parse().unwrap(), CROWD / 10);
        assert!(agent.client().status().is_ok());
        assert!(http(&address, get).contains("200 OK"));
    }
    // The agent ends while all of them are connected.
    drop(agent);
    drop(crowd);
}

/// Promise 23.
#[test]
fn a_used_metrics_port_is_reported_until_a_reload() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let agent = TestAgent::start("");
    let path = agent.folder.path().join("agent.toml");
    let text = format!(
        "socket.path = \"{}\"\nmetrics.address = \"{address}\"\n",
        agent.socket().display()
    );
    std::fs::write(path, text).unwrap();
    agent.client().reload().unwrap();
    let status = agent.client().status().unwrap();
    assert_eq!(status.agent.metrics_address, None);
    assert_eq!(status.degraded[0].name, "metrics_address");
    assert!(
        status.degraded[0].text.contains("in use"),
        "{}",
        status.degraded[0].text
    );
    drop(other);
    agent.client().reload().unwrap();
    let status = agent.client().status().unwrap();
    assert_eq!(status.agent.metrics_address, Some(address.to_string()));
    assert!(status.degraded.is_empty());
}

fn socket(path: &Path, group: Option<&str>) -> Result<ControlSocket, ListenError> {
    ControlSocket::open(&SocketConfig {
        path: path.to_owned(),
        group: group.map(str::to_owned),
    })
}

/// The server would have to close a received descriptor, which may take as long as its sender
/// likes.
/// Promise 71.
#[test]
fn no_client_can_send_the_agent_a_descriptor() {
    let agent = TestAgent::start("");
    let client = connect(&agent);
    let sent = send_descriptor(client.get_ref(), client.get_ref());
    assert_eq!(sent, Err(nix::errno::Errno::EPERM), "Linux 6.16 refuses it");
    assert!(agent.client().status().is_ok());
}

/// Promise 66.
#[test]
fn a_living_socket_is_kept_and_a_stale_one_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deeper/agent.sock");
    let first = socket(&path, None).unwrap();
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    let message = socket(&path, None).unwrap_err();
    assert!(matches!(message, ListenError::Taken(_)), "{message}");
    assert_eq!(message.to_string().lines().count(), 1);
    // Like after kill -9: the file stays, and no process listens.
    std::mem::drop(first.listener.try_clone().unwrap());
    let stale = folder.path().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    let again = socket(&stale, Some("0")).unwrap();
    assert_eq!(
        std::fs::metadata(&stale).unwrap().permissions().mode() & 0o777,
        0o660
    );
    drop(again);
    assert!(!stale.exists());
    drop(first);
    assert!(!path.exists() && !path.parent().unwrap().exists());
}

/// Promise 66.
#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    std::fs::write(&path, "mine").unwrap();
    assert!(matches!(socket(&path, None), Err(ListenError::Foreign(_))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    let message = socket(&folder.path().join("x"), Some("no-such-group")).unwrap_err();
    assert!(message.to_string().contains("groupadd"), "{message}");
    assert!(!folder.path().join("x").exists());
}
