//! The kernel behind a tap device, with ordinary sockets on it.

use super::Host;
use super::support::app::pattern;
use super::support::ip;
use super::support::script::{MACS, number};
use super::support::segment::{Segment, checksum, frame, plain_checksum};
use super::tap::{Cable, DEVICE};
use cofferdam_lab::fixtures::run;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limit for a frame or a connection that must come.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for the kernel's delayed acknowledgement, which is at most 200 ms.
const DELAYED_ACK: Duration = Duration::from_millis(250);

pub struct Kernel {
    cable: Cable,
    us: IpAddr,
    peer: IpAddr,
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
    connecting: Option<JoinHandle<std::io::Result<TcpStream>>>,
    /// Number of the last ping, which marks the end of earlier answers.
    fence: u16,
}

fn set(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

impl Kernel {
    /// The kernel of this thread's namespace, which is called `namespace`.
    pub fn new(namespace: &str, v6: bool) -> Kernel {
        let (us, peer) = (ip(0, v6), ip(1, v6));
        let cable = Cable::new(namespace, MACS[0], &[us]);
        run(&[
            "ip",
            "-n",
            namespace,
            "link",
            "set",
            DEVICE,
            "address",
            &mac(MACS[1]),
        ]);
        let neighbour = mac(MACS[0]);
        run(&[
            "ip",
            "-n",
            namespace,
            "neigh",
            "replace",
            &peer.to_string(),
            "lladdr",
            &neighbour,
            "dev",
            DEVICE,
            "nud",
            "permanent",
        ]);
        // The kernel retransmits nothing during a scenario, and answers every wrong segment. The
        // metric is that of the route that came with the address.
        let (network, metric) = if v6 {
            ("fd00::/64", "256")
        } else {
            ("10.0.0.0/24", "0")
        };
        run(&[
            "ip", "-n", namespace, "route", "replace", network, "dev", DEVICE, "metric", metric,
            "rto_min", "20s",
        ]);
        let route = run(&["ip", "-n", namespace, "route", "get", &peer.to_string()]);
        assert!(route.contains("rto_min"), "{route}");
        set("tcp_early_retrans", "0");
        set("tcp_invalid_ratelimit", "0");
        set("tcp_challenge_ack_limit", "2147483647");
        Kernel {
            cable,
            us,
            peer,
            listener: None,
            stream: None,
            connecting: None,
            fence: 0,
        }
    }

    /// Closes the sockets of a scenario, and drops the segments that they send.
    pub fn end(&mut self) {
        (self.listener, self.stream) = (None, None);
        if let Some(thread) = self.connecting.take() {
            // The connection attempt was refused, or succeeded and is closed here.
            drop(thread.join().expect("it connects or not"));
        }
        self.answers(0, false);
    }

    fn stream(&mut self) -> &mut TcpStream {
        if let Some(thread) = self.connecting.take() {
            let connected = thread.join().expect("it connects or not");
            self.stream = Some(connected.expect("it is open"));
        }
        self.stream.as_mut().expect("a connection")
    }

    /// Sends a ping whose reply arrives behind all earlier answers. Returns the fields that
    /// identify the reply.
    fn ping(&mut self) -> Vec<u8> {
        self.fence += 1;
        let [high, low] = self.fence.to_be_bytes();
        let v6 = self.us.is_ipv6();
        let mut message = vec![if v6 { 128 } else { 8 }, 0, 0, 0, 0xcf, 0xda, high, low];
        let sum = if v6 {
            checksum(self.peer, self.us, 58, &message)
        } else {
            plain_checksum(&message)
        };
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let protocol = if v6 { 58 } else { 1 };
        let ping = frame(MACS, self.peer, self.us, protocol, &message);
        self.cable.send(&ping);
        vec![if v6 { 129 } else { 0 }, 0, 0xcf, 0xda, high, low]
    }

    /// Whether a frame is the reply to the ping.
    fn is_reply(&self, frame: &[u8], reply: &[u8]) -> bool {
        let (protocol, at) = match frame[12..14] {
            [8, 0] => (frame[23] == 1, 34),
            [0x86, 0xdd] => (frame[20] == 58, 54),
            _ => return false,
        };
        protocol
            && frame.len() >= at + 8
            && frame[at..at + 2] == reply[..2]
            && frame[at + 4..at + 8] == reply[2..]
    }

    /// Collects segments until `enough` returns `true` for a frame or `limit` has passed.
    fn collect(
        &mut self,
        limit: Duration,
        mut enough: impl FnMut(&Kernel, &[u8]) -> bool,
    ) -> (Vec<Segment>, bool) {
        let until = Instant::now() + limit;
        let mut segments = Vec::new();
        loop {
            let frames = self.cable.receive();
            let is_idle = frames.is_empty();
            let mut is_enough = false;
            for frame in frames {
                segments.extend(Segment::read(&frame));
                is_enough |= enough(self, &frame);
            }
            if is_enough {
                return (segments, true);
            }
            if is_idle && Instant::now() >= until {
                return (segments, false);
            }
            if is_idle {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
}

impl Host for Kernel {
    fn command(&mut self, words: &[&str], ports: (u16, u16)) {
        match words {
            ["listen"] => {
                let listener = TcpListener::bind(SocketAddr::new(self.us, ports.0)).expect("free");
                listener.set_nonblocking(true).expect("a socket");
                self.listener = Some(listener);
            }
            ["connect"] => {
                let to = SocketAddr::new(self.peer, ports.1);
                // A thread inherits the namespace of its creator.
                self.connecting = Some(std::thread::spawn(move || TcpStream::connect(to)));
            }
            ["accept"] => {
                let listener = self.listener.as_ref().expect("it listens");
                let (stream, _) = listener.accept().expect("a connection waits");
                stream.set_nodelay(true).expect("a socket");
                self.stream = Some(stream);
            }
            ["send", bytes, from] => {
                let from: u64 = from.parse().expect("a number");
                let data = (from..from + u64::from(number(bytes))).map(pattern);
                let data: Vec<u8> = data.collect();
                self.stream().write_all(&data).expect("room");
            }
            ["read", bytes] => {
                let mut buffer = vec![0; number(bytes) as usize];
                let stream = self.stream();
                stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
                stream.read_exact(&mut buffer).expect("it has come");
            }
            ["shutdown"] => self.stream().shutdown(Shutdown::Write).expect("open"),
            ["close"] => {
                self.stream();
                self.stream = None;
            }
            other => panic!("no command {other:?}"),
        }
    }

    fn arrive(&mut self, segment: &Segment) {
        let frame = segment.write(MACS, self.peer, self.us);
        self.cable.send(&frame);
    }

    fn answers(&mut self, peer: u16, wait: bool) -> Vec<Segment> {
        let reply = self.ping();
        let (mut segments, came) =
            self.collect(PATIENCE, |kernel, frame| kernel.is_reply(frame, &reply));
        assert!(came, "the kernel answers no ping");
        let is_answer = |segment: &Segment| segment.to == peer;
        if wait && !segments.iter().any(is_answer) {
            let came =
                |_: &Kernel, frame: &[u8]| Segment::read(frame).as_ref().is_some_and(is_answer);
            segments = self.collect(DELAYED_ACK, came).0;
        }
        segments.retain(is_answer);
        segments
    }
}
