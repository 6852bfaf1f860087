//! Tests of the server against hostile and slow peers.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use cofferdam_web::{
    Address, LARGEST_HEAD_BYTES, ListenError, MOST_STRANGERS, MOST_STREAMS, Page, READ_WITHIN,
    StartError,
};
use common::{
    Repeats, body, connect, cookie, flooded, get, options, send, serve, serve_with_past, socket_of,
};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn page() -> Page {
    serve(Repeats::new(flooded(3)))
}

fn status_of(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("closed")
}

/// Opens a stream of readings and skips its head.
fn stream(page: &Page) -> BufReader<TcpStream> {
    let mut stream = connect(page);
    let head = format!(
        "GET /api/live HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\n\r\n",
        cookie(page)
    );
    stream.write_all(head.as_bytes()).unwrap();
    BufReader::new(stream)
}

fn first_line(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

/// Promise 74.
#[test]
fn every_answer_binds_the_browser() {
    let page = page();
    for path in ["/", "/app.js", "/api/frame", "/nothing", "/api/live"] {
        let cookie = cookie(&page);
        let head = format!(
            "HEAD {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\
                         Connection: close\r\n\r\n"
        );
        let answer = send(&page, head.as_bytes(), 1 << 20).to_ascii_lowercase();
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.contains(header), "{path} lacks {header}:\n{answer}");
        }
        assert!(!answer.contains("access-control"), "{answer}");
        assert!(!answer.contains("unsafe"), "{answer}");
        let (_, after) = answer.split_once("\r\n\r\n").unwrap();
        assert!(after.is_empty(), "HEAD {path} has a body");
    }
}

/// Promise 73.
#[test]
fn only_the_token_admits_and_then_the_cookie() {
    let page = page();
    let ask = |path: &str, more: &str| {
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}Connection: close\r\n\r\n");
        send(&page, head.as_bytes(), 1 << 20)
    };
    let token = page.url().unwrap().split_once("token=").unwrap().1;
    for path in ["/", "/api/live", "/api/frame", "/app.js", "/nothing"] {
        let answer = ask(path, "");
        assert_eq!(status_of(&answer), "401", "{path}");
        assert!(!answer.contains(token));
        assert!(answer.contains("this page needs its token"), "{answer}");
    }
    let wrong = "0".repeat(64);
    assert_eq!(status_of(&ask(&format!("/?token={wrong}"), "")), "401");
    assert_eq!(
        status_of(&ask(
            "/",
            &format!("Cookie: cofferdam_{}={wrong}\r\n", socket_of(&page).port())
        )),
        "401"
    );
    let answer = ask(&format!("/?token={token}"), "");
    assert_eq!(status_of(&answer), "303");
    assert!(answer.contains("location: /\r\n"), "{answer}");
    let set = answer
        .lines()
        .find_map(|l| l.strip_prefix("set-cookie: "))
        .unwrap();
    assert!(
        set.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
        "{set}"
    );
    let pair = set.split(';').next().unwrap();
    assert_eq!(status_of(&ask("/", &format!("Cookie: {pair}\r\n"))), "200");
    // No browser sends two cookie headers.
    assert_eq!(
        status_of(&ask("/", &format!("Cookie: {pair}\r\nCookie: {pair}\r\n"))),
        "401"
    );
}

/// Promise 73.
#[test]
fn foreign_names_sites_and_methods_are_refused() {
    let page = page();
    let cookie = cookie(&page);
    let ask = |line: &str, host: &str, more: &str| {
        let head =
            format!("{line} HTTP/1.1\r\n{host}Cookie: {cookie}\r\n{more}Connection: close\r\n\r\n");
        send(&page, head.as_bytes(), 1 << 20)
    };
    let own = "Host: localhost\r\n";
    for host in [
        "Host: evil.example\r\n",
        "Host: evil.example:9478\r\n",
        "",
        "Host: localhost\r\nHost: evil.example\r\n",
    ] {
        let answer = ask("GET /api/frame", host, "");
        assert!(
            ["421", "400"].contains(&status_of(&answer)),
            "{host}: {answer}"
        );
        assert!(!answer.contains("ingest"));
    }
    assert_eq!(
        status_of(&ask(
            "GET /api/frame",
            own,
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"
        )),
        "403"
    );
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"] {
        let answer = ask(
            &format!("{method} /api/frame"),
            own,
            "Content-Length: 0\r\n",
        );
        assert_eq!(status_of(&answer), "405", "{method}");
        assert!(answer.contains("allow: GET, HEAD"), "{answer}");
    }
    for path in [
        "/../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/app.js/../../Cargo.toml",
        "/vendor/",
    ] {
        let answer = ask(&format!("GET {path}"), own, "");
        assert_eq!(status_of(&answer), "404", "{path}");
        assert!(!answer.contains("root:"));
    }
    for query in [
        "/api/series",
        "/api/series?from=9&to=1",
        "/api/story",
        "/api/frame?at=x",
    ] {
        assert_eq!(
            status_of(&ask(&format!("GET {query}"), own, "")),
            "400",
            "{query}"
        );
    }
}

/// Promise 73.
#[test]
fn bad_heads_are_refused_and_the_page_continues() {
    let page = page();
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "x".repeat(2 * LARGEST_HEAD_BYTES)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "A: b\r\n".repeat(1000)
    );
    let random: Vec<u8> = (0..100_000).map(|_| fastrand::u8(..)).collect();
    let cases: [&[u8]; 8] = [
        long.as_bytes(),
        many.as_bytes(),
        &random,
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n",
    ];
    for case in cases {
        let mut peer = connect(&page);
        let _ = peer.write_all(case);
        let _ = peer.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = peer.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(!text.contains(" 200 "), "{text}");
    }
    body(&get(&page, "/api/frame", ""));
}

/// Promise 73.
#[test]
fn a_browser_with_200_streams_gets_64() {
    let page = page();
    let mut open: Vec<_> = (0..200).map(|_| stream(&page)).collect();
    let lines: Vec<String> = open.iter_mut().map(first_line).collect();
    let served = lines.iter().filter(|l| l.contains(" 200 ")).count();
    let refused = lines.iter().filter(|l| l.contains(" 503 ")).count();
    assert_eq!((served, refused), (MOST_STREAMS, 200 - MOST_STREAMS));
    let at = lines.iter().position(|l| l.contains(" 503 ")).unwrap();
    let mut text = String::new();
    while !text.contains("close a page") {
        assert_ne!(open[at].read_line(&mut text).unwrap(), 0, "{text}");
    }
    // Meanwhile files are served, and a freed place can be taken again.
    body(&get(&page, "/app.js", ""));
    drop(open);
    let begun = Instant::now();
    while !first_line(&mut stream(&page)).contains(" 200 ") {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "no place became free"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether the server has closed a connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0]);
    !matches!(read, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
}

/// Promise 73.
#[test]
fn silent_connections_exclude_no_one_and_end() {
    let page = page();
    let mut viewer = stream(&page);
    assert!(first_line(&mut viewer).contains(" 200 "));
    let mut silent: Vec<_> = (0..500).map(|_| connect(&page)).collect();
    // The newest connection is always served.
    for _ in 0..20 {
        body(&get(&page, "/api/frame", ""));
    }
    let begun = Instant::now();
    let mut open = silent.len();
    while open > 0 {
        open = silent
            .iter_mut()
            .map(|one| usize::from(!is_closed(one)))
            .sum();
        assert!(open <= MOST_STRANGERS, "{open} strangers are held");
        assert!(
            begun.elapsed() < Duration::from_secs(40),
            "{open} silent connections stay"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    // A viewer is never treated as a stranger, however long it stays.
    while !first_line(&mut viewer).starts_with("event: frame") {}
}

/// Script that holds connections as the user `nobody`. It reopens closed ones, each with the begin
/// of a head, until its input ends.
const HOLDER: &str = r#"
import os, select, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
held = []
print('ready', flush=True)
while not select.select([sys.stdin], [], [], 0.05)[0]:
    while len(held) < 400:
        try:
            one = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 1)
            one.send(b'GET / HTTP/1.1\r\nHost: ')
            held.append(one)
        except OSError:
            break
    for one in list(held):
        try:
            one.send(b'1')
        except OSError:
            held.remove(one)
"#;

/// Promise 73.
#[test]
fn a_user_without_the_token_excludes_no_viewer() {
    let page = page();
    let mut holder = std::process::Command::new("/usr/bin/python3")
        .args(["-c", HOLDER, &socket_of(&page).port().to_string()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut output = BufReader::new(holder.stdout.take().unwrap());
    output.read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    for _ in 0..100 {
        body(&get(&page, "/api/frame", ""));
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
}

/// Promise 73.
#[test]
fn a_refused_connection_is_closed() {
    let page = page();
    let mut stranger = connect(&page);
    stranger
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    // The server ends the connection.
    stranger.read_to_string(&mut answer).unwrap();
    assert_eq!(status_of(&answer), "401");
}

/// Promise 73.
#[test]
fn a_reader_that_takes_nothing_is_disconnected() {
    let page = serve(Repeats::new(flooded(2000)));
    let slow = stream(&page);
    let mut quick = stream(&page);
    assert!(first_line(&mut quick).contains(" 200 "));
    // The buffers fill in seconds. After READ_WITHIN the server closes the connection, and the
    // kernel shows that.
    let inode_open = |stream: &TcpStream| {
        let port = stream.local_addr().unwrap().port();
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let server = format!(":{:04X} ", socket_of(&page).port());
        let client = format!(":{port:04X} ");
        // Established, at the server's end.
        table.lines().any(|l| {
            let fields: Vec<&str> = l.split_whitespace().collect();
            fields.len() > 3
                && format!("{} ", fields[1]).ends_with(&server)
                && format!("{} ", fields[2]).ends_with(&client)
                && fields[3] == "01"
        })
    };
    let begun = Instant::now();
    let mut frames = 0;
    while inode_open(slow.get_ref()) {
        let limit = READ_WITHIN + Duration::from_secs(60);
        assert!(
            begun.elapsed() < limit,
            "the slow reader is still served after {frames} frames"
        );
        while !first_line(&mut quick).starts_with("event: frame") {}
        frames += 1;
    }
    assert!(frames > 1, "the quick reader was served meanwhile");
}

/// Promise 14.
#[test]
fn documents_have_what_the_page_shows() {
    let page = serve_with_past(Repeats::new(flooded(3)));
    let frame: Value = serde_json::from_str(body(&get(&page, "/api/frame", ""))).unwrap();
    assert_eq!(frame["schema"], "cofferdam.web/1");
    assert_eq!(frame["containers"].as_array().unwrap().len(), 10);
    assert!(
        frame["summary"]
            .as_str()
            .unwrap()
            .starts_with("ingest takes 0.")
    );
    let story = get(&page, "/api/story?container=2", "");
    let story: Value = serde_json::from_str(body(&story)).unwrap();
    assert_eq!(story["suffers"][0]["name"], "ingest");
    assert_eq!(
        story["row"]["help"]["command"],
        "sudo cofferdam rule set ingest --network-cpu enforce"
    );
    assert_eq!(status_of(&get(&page, "/api/story?container=77", "")), "404");
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let series = get(
        &page,
        &format!("/api/series?from={}&to={now}&points=60", now - 3_600_000),
        "",
    );
    let series: Value = serde_json::from_str(body(&series)).unwrap();
    assert_eq!(series["time_ms"].as_array().unwrap().len(), 60);
    assert_eq!(series["payers"][0]["name"], "orders-db");
    let past = get(&page, &format!("/api/frame?at={}", now - 7_200_000), "");
    let past: Value = serde_json::from_str(body(&past)).unwrap();
    assert_eq!(
        (&past["live"], &past["agent"]),
        (&Value::Bool(false), &Value::Null)
    );
    let before = get(&page, "/api/frame?at=1000", "");
    assert_eq!(status_of(&before), "404");
    let extent = get(&page, "/api/extent", "");
    let extent: [u64; 2] = serde_json::from_str(body(&extent)).unwrap();
    assert!(extent[1] - extent[0] > 86_000_000);
    // Unchanged files are not sent again.
    let first = get(&page, "/style.css", "");
    let tag = first
        .lines()
        .find_map(|l| l.strip_prefix("etag: "))
        .unwrap();
    let again = get(&page, "/style.css", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!(status_of(&again), "304");
}

/// Promise 73.
#[test]
fn a_path_needs_no_token_and_belongs_to_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/web.sock");
    let mut options = options(Address::Unix(path.clone()));
    options.group = Some(std::fs::metadata("/proc/self").unwrap().gid());
    let start = || Page::start(&options, Box::new(Repeats::new(flooded(0))), None);
    let page = start().unwrap();
    assert_eq!(page.url(), None);
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o660
    );
    let ask = |host: &str| {
        let mut peer = UnixStream::connect(&path).unwrap();
        write!(
            peer,
            "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        peer.read_to_string(&mut text).unwrap();
        status_of(&text).to_owned()
    };
    assert_eq!(ask("localhost:9478"), "200");
    assert_eq!(ask("evil.example"), "421");
    assert!(matches!(
        start(),
        Err(StartError::Listen(ListenError::Taken(_)))
    ));
    drop(page);
    assert!(!path.exists() && !folder.path().join("run").exists());
    // A file left by a killed process is replaced, but never one that is no socket.
    std::fs::create_dir(folder.path().join("run")).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    drop(start().unwrap());
    std::fs::create_dir_all(folder.path().join("run")).unwrap();
    std::fs::write(&path, "precious").unwrap();
    let refused = start().unwrap_err().to_string();
    assert!(refused.contains("not a socket"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

/// Promise 73.
#[test]
fn unusable_addresses_are_refused_with_a_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let start = |address: &str| {
        let options = options(address.parse().unwrap());
        Page::start(&options, Box::new(Repeats::new(flooded(0))), None)
    };
    let address = taken.local_addr().unwrap().to_string();
    let refused = start(&address).unwrap_err().to_string();
    assert!(
        refused.contains(&address) && refused.contains("another process does"),
        "{refused}"
    );
    let refused = start("0.0.0.0:0").unwrap_err().to_string();
    assert!(refused.contains("no TLS"), "{refused}");
    // The address does not belong to this host.
    assert!(start("127.0.0.1:0").is_ok());
}

/// Promise 73.
#[test]
fn a_forbidden_folder_is_reported_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("below/web.sock");
    let options = options(format!("unix:{}", path.display()).parse().unwrap());
    // Change the user of this thread alone, to one who owns nothing here.
    let refused = std::thread::spawn(move || {
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
        Page::start(&options, Box::new(Repeats::new(flooded(0))), None).map(|_| ())
    });
    let refused = refused.join().unwrap().unwrap_err().to_string();
    assert!(
        refused.contains(&path.display().to_string())
            && refused.contains("permission denied")
            && refused.contains("a folder that this user may write to"),
        "{refused}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Promise 73.
#[test]
fn the_url_belongs_to_its_owner_and_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.url");
    std::fs::write(&file, "old, and for all").unwrap();
    let mut options = options("127.0.0.1:0".parse().unwrap());
    options.url_file = Some(file.clone());
    let page = Page::start(&options, Box::new(Repeats::new(flooded(0))), None).unwrap();
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        std::fs::read_to_string(&file).unwrap().trim_end(),
        page.url().unwrap()
    );
    drop(page);
    assert!(!file.exists());
}

/// A script waits for the file and reads it: it must never see a part.
/// Promise 73.
#[test]
fn the_file_with_the_url_appears_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.url");
    let mut options = options("127.0.0.1:0".parse().unwrap());
    options.url_file = Some(file.clone());
    // The page removes an empty folder.
    std::fs::write(folder.path().join("other"), "").unwrap();
    // A killed process left this.
    std::fs::write(folder.path().join("web.url.new"), "http://127").unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let reads = {
        let (over, file) = (over.clone(), file.clone());
        std::thread::spawn(move || {
            let mut whole = 0;
            while !over.load(Ordering::Relaxed) {
                let Ok(text) = std::fs::read_to_string(&file) else {
                    continue;
                };
                assert!(
                    text.starts_with("http://127.0.0.1:") && text.ends_with('\n'),
                    "'{text}'"
                );
                whole += 1;
            }
            whole
        })
    };
    for _ in 0..50 {
        drop(Page::start(&options, Box::new(Repeats::new(flooded(0))), None).unwrap());
    }
    over.store(true, Ordering::Relaxed);
    assert!(reads.join().unwrap() > 0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
