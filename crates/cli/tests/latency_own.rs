//! Test of the example in docs/src/latency.md, "Matching your own requests": a tool finds its
//! requests among the reports by properties of its own sockets.

mod latency_testbed;

use cofferdam_lab::fixtures::{Net, traffic, wait_until};
use cofferdam_latency::ping::{Kind, Prober};
use latency_testbed::{COFFERDAM, alone, testbed};
use nix::sys::socket::getsockopt;
use nix::{getsockopt_impl, libc, sockopt_impl};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const REQUESTS: usize = 5;

/// Properties of the tool's own packets.
struct Own {
    udp_cookie: u64,
    udp_port: u16,
    tcp_cookie: u64,
    tcp_port: u16,
    /// Number of each echo.
    echoes: Vec<u64>,
}

sockopt_impl!(
    /// Cookie of a socket. The kernel assigns it when it is requested for the first time.
    SocketCookie, GetOnly, libc::SOL_SOCKET, libc::SO_COOKIE, u64
);

fn cookie(socket: &impl AsFd) -> u64 {
    getsockopt(socket, SocketCookie).expect("every socket has one")
}

fn datagram(number: usize) -> Vec<u8> {
    vec![0x5a; 20 + number]
}

fn request(number: usize) -> Vec<u8> {
    vec![0x5a; 100 + number]
}

/// Acts as the tool: requests its cookies first, then sends.
fn tool(peer: [u8; 4]) -> Own {
    let to = |port| SocketAddr::from((peer, port));
    let udp = UdpSocket::bind("0.0.0.0:0").expect("a free port");
    let udp_cookie = cookie(&udp);
    for number in 0..REQUESTS {
        udp.send_to(&datagram(number), to(9000)).expect("a way");
    }
    let mut tcp = TcpStream::connect(to(9001)).expect("a listener");
    let tcp_cookie = cookie(&tcp);
    tcp.set_nodelay(true).expect("TCP");
    for number in 0..REQUESTS {
        tcp.write_all(&request(number)).expect("a connection");
        // Waits for the answer, so that the next request is a segment of its own.
        tcp.read_exact(&mut [0]).expect("an answer");
    }
    let mut prober = Prober::open(peer.into(), Kind::Icmp, 56).expect("a raw socket");
    let probes = (0..REQUESTS).map(|_| prober.probe(Duration::from_secs(5)));
    let probes = probes.map(|p| p.expect("a socket").expect("an answer"));
    Own {
        udp_cookie,
        udp_port: udp.local_addr().expect("bound").port(),
        tcp_cookie,
        tcp_port: tcp.local_addr().expect("bound").port(),
        echoes: probes.map(|p| u64::from(p.sequence)).collect(),
    }
}

/// Starts a recording, and waits until its file has packets.
fn recording(name: &str, file: &Path, wake: impl Fn()) -> Child {
    let child = Command::new(COFFERDAM)
        .args(["latency", "record", "--format", "jsonl", "--per", "packet"])
        .args([
            "--duration",
            "30s",
            "--interval",
            "100ms",
            "--container",
            name,
        ])
        .arg("--output")
        .arg(file)
        .spawn()
        .expect("the binary runs");
    let begin = Instant::now();
    while std::fs::metadata(file).map_or(0, |m| m.len()) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "it records");
        wake();
    }
    child
}

/// Whole lines of the recording.
fn packets(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("text");
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|l| serde_json::from_str(l).expect("one object a line"))
        .collect()
}

/// Reports of `direction` that `own` recognizes, in the order of the packets.
fn mine<'a>(packets: &'a [Value], direction: &str, own: impl Fn(&Value) -> bool) -> Vec<&'a Value> {
    let of = |p: &&Value| p["direction"] == direction && own(p);
    let mut mine: Vec<&Value> = packets.iter().filter(of).collect();
    mine.sort_by_key(|p| p["monotonic_ns"].as_u64());
    mine
}

/// Promise 21.
#[test]
fn a_tool_finds_its_own_requests() {
    alone(|| {
        let testbed = testbed();
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("latency.jsonl");
        let sink = traffic::udp_sink(
            &testbed.peer,
            None,
            SocketAddr::from(([10, 98, 3, 2], 9000)),
            REQUESTS as u64,
        );
        let server = testbed.peer.thread(|| {
            let listener = std::net::TcpListener::bind("0.0.0.0:9001").expect("a free port");
            let (mut stream, _) = listener.accept().expect("the tool");
            for number in 0..REQUESTS {
                let mut bytes = request(number);
                stream.read_exact(&mut bytes).expect("a request");
                stream.write_all(&[1]).expect("a connection");
            }
        });
        let web = testbed.web.namespace();
        let mut child = recording(testbed.web.name(), &file, || {
            web.sh("busybox ping -q -c 2 -i 0.05 10.98.3.2");
        });
        let own = web.thread(|| tool([10, 98, 3, 2])).join().expect("it ran");
        assert_eq!(sink.finish()[0], REQUESTS as u64);
        server.join().expect("it ran");
        // The answer to the last echo is the last packet: after it the file is complete.
        let has_last = || {
            let packets = packets(&file);
            let echoes = mine(&packets, "ingress", |p| p["protocol"] == "icmp");
            echoes.last().and_then(|p| p["sequence"].as_u64()) == own.echoes.last().copied()
        };
        wait_until("the last echo's report", Duration::from_secs(20), has_last);
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
        child.wait().expect("it can be waited for");
        let packets = packets(&file);

        // UDP: the n-th report of the socket is the n-th datagram.
        let udp = mine(&packets, "egress", |p| p["cookie"] == own.udp_cookie);
        let sizes: Vec<_> = udp.iter().map(|p| p["payload_bytes"].as_u64()).collect();
        let sent: Vec<_> = (0..REQUESTS)
            .map(|n| Some(datagram(n).len() as u64))
            .collect();
        assert_eq!(sizes, sent, "{udp:?}");
        assert!(udp.iter().all(|p| p["source_port"] == own.udp_port));

        // TCP: each request begins where the previous one ended.
        let tcp = mine(&packets, "egress", |p| {
            p["cookie"] == own.tcp_cookie && p["payload_bytes"] != 0
        });
        let again = |p: &&Value| p["retransmit"] == true;
        let tcp: Vec<&Value> = tcp.into_iter().filter(|p| !again(p)).collect();
        assert_eq!(tcp.len(), REQUESTS, "{tcp:?}");
        let number = |p: &Value, name: &str| p[name].as_u64().expect("a number") as u32;
        let mut next = number(tcp[0], "sequence");
        for (n, packet) in tcp.iter().enumerate() {
            assert_eq!(number(packet, "sequence"), next, "{packet}");
            assert_eq!(number(packet, "payload_bytes"), request(n).len() as u32);
            assert_eq!(packet["source_port"], own.tcp_port);
            next = next.wrapping_add(request(n).len() as u32);
        }

        // ICMP: the number of the echo, in both directions.
        for direction in ["egress", "ingress"] {
            let last = mine(&packets, direction, |p| p["protocol"] == "icmp");
            let numbers: Vec<u64> = last.iter().filter_map(|p| p["sequence"].as_u64()).collect();
            let tail = numbers.len().saturating_sub(REQUESTS);
            assert_eq!(numbers[tail..], own.echoes, "{direction}");
        }
    });
}
