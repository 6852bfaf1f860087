//! Traffic with exact counts, in plain sockets. Every end runs in a child process inside its
//! [`Place`], so its sockets belong to that place's namespace and cgroup.

use crate::place::{Child, Forked, Place, fork};
use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Packets sent in one go by default.
const BURST: u64 = 8;

/// Room for the packets of a receiver that has to wait for its CPU.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;

/// What to send by UDP.
#[derive(Clone, Copy, Debug)]
pub struct Udp {
    to: SocketAddr,
    payload_bytes: usize,
    packets: u64,
    packets_per_s: Option<u64>,
    burst: u64,
    limit: Duration,
}

impl Udp {
    /// 1,000 packets of 64 bytes at 20,000 a second, which loses none on any test machine.
    pub fn to(to: SocketAddr) -> Udp {
        Udp {
            to,
            payload_bytes: 64,
            packets: 1000,
            packets_per_s: Some(20_000),
            burst: BURST,
            limit: Duration::from_secs(30),
        }
    }

    /// Payload of each packet.
    pub fn bytes(self, payload_bytes: usize) -> Udp {
        Udp {
            payload_bytes,
            ..self
        }
    }

    /// How many packets.
    pub fn packets(self, packets: u64) -> Udp {
        Udp { packets, ..self }
    }

    /// At this rate; slower when the sender does not get its CPU.
    pub fn rate(self, packets_per_s: u64) -> Udp {
        Udp {
            packets_per_s: Some(packets_per_s),
            ..self
        }
    }

    /// In bursts of this many packets: the fuller a batch, the less what is common to it
    /// costs each packet.
    pub fn burst(self, burst: u64) -> Udp {
        Udp { burst, ..self }
    }

    /// As fast as it goes, for `limit`: packets may be lost.
    pub fn flood(self, limit: Duration) -> Udp {
        Udp {
            packets: u64::MAX,
            packets_per_s: None,
            limit,
            ..self
        }
    }
}

/// Sends from `place`, pinned to `cpu`. `finish()` gives `[packets sent]`.
#[track_caller]
pub fn udp_send(place: &dyn Place, cpu: Option<usize>, udp: Udp) -> Forked {
    fork(place, cpu, move |_| {
        let socket = UdpSocket::bind((any(udp.to.ip()), 0))?;
        let payload = vec![0x5a; udp.payload_bytes];
        let (start, mut sent) = (Instant::now(), 0);
        let mut due = start;
        while sent < udp.packets && start.elapsed() < udp.limit {
            if let Some(rate) = udp.packets_per_s {
                let now = Instant::now();
                std::thread::sleep(due.saturating_duration_since(now));
                // A sender that was held up does not catch up: the burst would overflow queues.
                due = due.max(now) + Duration::from_nanos(udp.burst * 1_000_000_000 / rate);
            }
            for _ in 0..udp.burst.min(udp.packets - sent) {
                match socket.send_to(&payload, udp.to) {
                    Ok(_) => sent += 1,
                    // A full queue below us: the packet was not sent.
                    Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(vec![sent])
    })
}

/// Receives at `at` in `place` until `packets` have come, or none for two seconds. Returns
/// once the socket is bound. `finish()` gives `[packets, payload bytes]`.
#[track_caller]
pub fn udp_sink(place: &dyn Place, cpu: Option<usize>, at: SocketAddr, packets: u64) -> Forked {
    let mut sink = fork(place, cpu, move |child: &mut Child| {
        let socket = UdpSocket::bind((any(at.ip()), at.port()))?;
        setsockopt(&socket, RcvBufForce, &RECEIVE_BUFFER_BYTES)?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        child.ready(0)?;
        let (mut buffer, mut count, mut bytes) = (vec![0; 65_536], 0, 0);
        while count < packets {
            match socket.recv(&mut buffer) {
                Ok(n) => {
                    count += 1;
                    bytes += n as u64;
                }
                Err(e) if is_timeout(&e) => {
                    if count > 0 {
                        break;
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(vec![count, bytes])
    });
    sink.wait_ready();
    sink
}

/// Answers each datagram that comes to `at` with itself, until dropped.
#[track_caller]
pub fn udp_echo(place: &dyn Place, cpu: Option<usize>, at: SocketAddr) -> Forked {
    let mut echo = fork(place, cpu, move |child: &mut Child| {
        let socket = UdpSocket::bind((any(at.ip()), at.port()))?;
        child.ready(0)?;
        let mut buffer = vec![0; 65_536];
        loop {
            let (n, from) = socket.recv_from(&mut buffer)?;
            socket.send_to(&buffer[..n], from)?;
        }
    });
    echo.wait_ready();
    echo
}

/// Accepts one TCP connection at `at` and reads it to its end. Returns once it listens.
/// `finish()` gives `[bytes]`.
#[track_caller]
pub fn tcp_sink(place: &dyn Place, cpu: Option<usize>, at: SocketAddr) -> Forked {
    let mut sink = fork(place, cpu, move |child: &mut Child| {
        let listener = TcpListener::bind((any(at.ip()), at.port()))?;
        child.ready(0)?;
        let (mut stream, _) = listener.accept()?;
        let (mut buffer, mut bytes) = (vec![0; 1 << 17], 0);
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(vec![bytes]),
                n => bytes += n as u64,
            }
        }
    });
    sink.wait_ready();
    sink
}

/// Sends `bytes` by one TCP connection. `finish()` gives `[bytes]`.
#[track_caller]
pub fn tcp_send(place: &dyn Place, cpu: Option<usize>, to: SocketAddr, bytes: u64) -> Forked {
    fork(place, cpu, move |_| {
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
        stream.set_write_timeout(Some(Duration::from_secs(10)))?;
        let (buffer, mut left) = (vec![0x5a; 1 << 16], bytes);
        while left > 0 {
            let chunk = buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= stream.write(&buffer[..chunk])? as u64;
        }
        Ok(vec![bytes])
    })
}

/// Computes and nothing else until `length` is over. `finish()` gives `[rounds]`.
#[track_caller]
pub fn compute(place: &dyn Place, cpu: Option<usize>, length: Duration) -> Forked {
    fork(place, cpu, move |_| {
        let (start, mut rounds, mut state) = (Instant::now(), 0_u64, 1_u64);
        while start.elapsed() < length {
            for _ in 0..10_000 {
                state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005) + 1);
            }
            rounds += 1;
        }
        Ok(vec![rounds])
    })
}

fn any(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
