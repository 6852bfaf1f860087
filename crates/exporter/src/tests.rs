use super::*;
use nix::poll::{PollTimeout, poll};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

const FORMAT: Format = Format {
    metrics: Exposition::Text,
    index: "index",
};

fn serve_once(exporter: &mut Exporter) {
    serve_request(exporter, "x 1\n", 1000);
}

/// Runs one round of an exporter whose metrics are `line`, `lines` times.
fn serve_request(exporter: &mut Exporter, line: &str, lines: usize) {
    let ready: Vec<bool> = {
        let mut fds: Vec<PollFd<'_>> = exporter.poll_fds().collect();
        poll(&mut fds, PollTimeout::from(5_u8)).expect("polled");
        fds.iter().map(|fd| fd.any().unwrap_or(false)).collect()
    };
    exporter.serve(&ready, |_| line.repeat(lines));
}

/// Serves while `body` runs.
fn serve_during<T: Send>(body: impl FnOnce(SocketAddr) -> T + Send) -> (T, Exporter) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut exporter = Exporter::bind(any, FORMAT).expect("bound");
    let (address, ended) = (exporter.address().expect("bound"), AtomicBool::new(false));
    let outcome = std::thread::scope(|scope| {
        let body = scope.spawn(|| {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(address)));
            ended.store(true, Ordering::Relaxed);
            outcome
        });
        while !ended.load(Ordering::Relaxed) {
            serve_once(&mut exporter);
        }
        body.join().expect("caught")
    });
    match outcome {
        Ok(outcome) => (outcome, exporter),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("set");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
        .expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// Promise 71.
#[test]
fn a_scraper_is_served_among_bad_connections() {
    let (connections, exporter) = serve_during(|address| {
        let mut connections = Vec::new();
        for n in 0..1500 {
            let mut stream = TcpStream::connect(address).expect("connected");
            match n % 3 {
                0 => {}
                1 => drop(stream.write_all(b"GET /met")),
                _ => drop(stream.write_all(&[b'x'; 20_000])),
            }
            connections.push(stream);
            if n % 100 == 99 {
                let text = scrape(address);
                assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
                assert!(text.ends_with("x 1\n") && text.len() > 4000);
            }
        }
        connections
    });
    assert!(exporter.clients.len() <= MOST_CLIENTS);
    assert_eq!(exporter.traffic().scrapes, 15);
    assert!(exporter.traffic().evicted >= 500);
    drop(connections);
}

/// Promise 71.
#[test]
fn slow_connections_are_closed() {
    let ((), exporter) = serve_during(|address| {
        let mut silent = TcpStream::connect(address).expect("connected");
        let limit = Some(Duration::from_secs(20));
        silent.set_read_timeout(limit).expect("set");
        let start = Instant::now();
        assert_eq!(silent.read(&mut [0; 9]).expect("closed"), 0);
        assert!(start.elapsed() >= client::REQUEST / 2);
    });
    assert_eq!(
        (exporter.clients.len(), exporter.traffic().timeouts),
        (0, 1)
    );
}

/// 10,000 containers with series of their own take tens of megabytes a scrape.
/// Promise 71.
#[test]
fn slow_readers_of_large_answers_cost_bounded_memory() {
    const ANSWER: usize = 8 << 20;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut exporter = Exporter::bind(any, FORMAT).expect("bound");
    let address = exporter.address().expect("bound");
    let mut slow = Vec::new();
    for _ in 0..MOST_CLIENTS {
        let mut stream = TcpStream::connect(address).expect("connected");
        let request = b"GET /metrics HTTP/1.1\r\n\r\n";
        stream.write_all(request).expect("sent");
        slow.push(stream);
    }
    let pending = |e: &Exporter| -> usize { e.clients.iter().map(Client::pending_bytes).sum() };
    while exporter.traffic().scrapes < slow.len() as u64 {
        serve_request(&mut exporter, "x", ANSWER);
        assert!(pending(&exporter) <= MOST_PENDING_BYTES);
    }
    assert!(exporter.traffic().evicted > 0);
    let scraper = std::thread::spawn(move || scrape(address));
    while !scraper.is_finished() {
        serve_request(&mut exporter, "x", ANSWER);
        assert!(pending(&exporter) <= MOST_PENDING_BYTES);
    }
    let text = scraper.join().expect("served");
    assert!(text.starts_with("HTTP/1.1 200 OK") && text.len() > ANSWER);
}

/// Promise 71.
#[test]
fn one_answer_may_be_larger_than_all_together() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut exporter = Exporter::bind(any, FORMAT).expect("bound");
    let address = exporter.address().expect("bound");
    let scraper = std::thread::spawn(move || scrape(address));
    while !scraper.is_finished() {
        serve_request(&mut exporter, "x", MOST_PENDING_BYTES + 1);
    }
    assert!(scraper.join().expect("served").len() > MOST_PENDING_BYTES);
}

/// Promise 71.
#[test]
fn a_lack_of_descriptors_does_not_spin() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut exporter = Exporter::bind(any, FORMAT).expect("bound");
    exporter.resting = Some(Instant::now() + REST);
    let waits = exporter.poll_fds().next().expect("the listener").events();
    assert_eq!(waits, PollFlags::empty());
    assert!(exporter.deadline().is_some());
    exporter.resting = Some(Instant::now());
    serve_once(&mut exporter);
    assert_eq!(exporter.deadline(), None);
}
