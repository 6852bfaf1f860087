#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;
use std::net::TcpListener;
use std::thread;

fn limits(ms: u64) -> Limits {
    Limits {
        deadline: Instant::now() + Duration::from_millis(ms),
        most_bytes: 1 << 20,
    }
}

/// Answers one request with `parts`, each after `pause`; then holds the connection open if `hold`.
fn peer(parts: Vec<Vec<u8>>, pause: Duration, hold: bool) -> (Peer, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = vec![0; 4096];
        let n = stream.read(&mut request).unwrap();
        request.truncate(n);
        for part in parts {
            thread::sleep(pause);
            if stream.write_all(&part).is_err() {
                break;
            }
        }
        if hold {
            // Wait until the other end closes.
            let _ = stream.read(&mut [0; 1]);
        }
        request
    });
    (Peer::Tcp(address), served)
}

#[test]
fn an_answer_in_pieces_is_joined() {
    let parts = [
        "HTTP/1.0 200",
        " OK\r\nContent-Le",
        "ngth: 4\r\n\r\nab",
        "cd",
    ];
    let parts = parts.map(|p| p.as_bytes().to_vec()).to_vec();
    let (peer, served) = peer(parts, Duration::from_millis(5), false);
    let reply = get(&peer, "/x?y=1", &[("X-Key", "v")], limits(20_000)).unwrap();
    assert_eq!((reply.status, reply.body.as_slice()), (200, &b"abcd"[..]));
    let request = String::from_utf8(served.join().unwrap()).unwrap();
    assert!(
        request.starts_with("GET /x?y=1 HTTP/1.0\r\nHost: localhost\r\n"),
        "{request}"
    );
    assert!(request.ends_with("X-Key: v\r\n\r\n"), "{request}");
}

/// Promise 73.
#[test]
fn an_endless_answer_has_its_deadline() {
    let (peer, served) = peer(
        vec![b"HTTP/1.0 200 OK\r\n\r\nx".to_vec()],
        Duration::ZERO,
        true,
    );
    let error = get(&peer, "/", &[], limits(200)).unwrap_err();
    assert!(matches!(error, HttpError::Late), "{error}");
    served.join().unwrap();
}

/// Promise 73.
#[test]
fn a_dripping_answer_has_its_deadline() {
    let drips = vec![b"x".to_vec(); 1000];
    let (peer, served) = peer(drips, Duration::from_millis(20), false);
    let error = get(&peer, "/", &[], limits(300)).unwrap_err();
    assert!(matches!(error, HttpError::Late), "{error}");
    served.join().unwrap();
}

/// Promise 73.
#[test]
fn an_oversized_answer_is_not_read_completely() {
    let flood = vec![vec![b'x'; 1 << 20]; 64];
    let (peer, served) = peer(flood, Duration::ZERO, false);
    let error = get(&peer, "/", &[], limits(20_000)).unwrap_err();
    assert!(matches!(error, HttpError::TooLarge(_)), "{error}");
    served.join().unwrap();
}

#[test]
fn an_incomplete_or_foreign_answer_is_an_error() {
    for bytes in [
        &b""[..],
        b"HTTP/1.0 200 OK\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.0 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"\x16\x03\x01\x00\x00",
    ] {
        let result = Reply::parse(bytes, 1 << 20);
        assert!(
            matches!(result, Err(HttpError::Garbled(_))),
            "{bytes:?}: {result:?}"
        );
    }
    let long = format!(
        "HTTP/1.0 200 OK\r\nx: {}\r\n\r\n",
        "y".repeat(LONGEST_HEAD_BYTES)
    );
    assert!(Reply::parse(long.as_bytes(), 1 << 20).is_err());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Reply::parse(&bytes, 100);
    }

    #[test]
    fn no_head_panics(rest in "[ -~\r\n]{0,200}") {
        let _ = Reply::parse(format!("HTTP/1.0 200 OK\r\n{rest}").as_bytes(), 100);
    }
}
