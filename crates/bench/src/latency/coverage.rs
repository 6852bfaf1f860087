//! Reports ÷ packets, by protocol, direction and rate.

use super::testbed::LatencyTestbed;
use super::wire::packet;
use super::{Options, failed, load, measure_error};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::latency::data::{CoverageRow, LatencyResult};
use cofferdam_latency::{Class, Direction, Filter, Meter, Miss, Start};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

const HERE: Ipv4Addr = Ipv4Addr::new(10, 97, 1, 2);
const PORT: u16 = 9000;
/// Packets between two readings of the clock.
const BURST: u32 = 16;

/// Measures every rate with UDP and ICMP, out, in, and in both directions at once.
pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    testbed: &LatencyTestbed,
    result: &mut LatencyResult,
) -> Result<(), BenchError> {
    let seconds = if options.quick { 1.0 } else { 2.0 };
    for class in [Class::Udp, Class::Icmp] {
        for rate in [20_000.0, 100_000.0, 200_000.0] {
            for direction in Direction::ALL {
                let rows = cell(testbed, class, &[direction], rate, seconds)?;
                result.coverage.extend(rows);
                rig.check()?;
            }
        }
        for rate in [50_000.0, 100_000.0, 200_000.0] {
            let rows = cell(testbed, class, &Direction::ALL, rate, seconds)?;
            result.coverage.extend(rows);
            rig.check()?;
        }
    }
    for direction in Direction::ALL {
        result.coverage.extend(stream(testbed, direction, seconds)?);
        rig.check()?;
    }
    Ok(())
}

fn cell(
    testbed: &LatencyTestbed,
    class: Class,
    directions: &[Direction],
    rate: f64,
    seconds: f64,
) -> Result<Vec<CoverageRow>, BenchError> {
    let mut meter = load(Start::Queue)?;
    meter
        .on(testbed.netns, &Filter::default())
        .map_err(measure_error)?;
    let mut reader = meter.reader().map_err(measure_error)?;
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    std::thread::scope(|scope| -> Result<(), BenchError> {
        let reading = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                reader.take(|_| {});
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let out = directions.contains(&Direction::Egress).then(|| {
            scope.spawn(|| {
                let sent = testbed.inside(|| send_out(class, rate, seconds));
                sent.and_then(|sent| sent)
            })
        });
        let inward = directions.contains(&Direction::Ingress).then(|| {
            receive(testbed, class, &stop, scope)?;
            send_in(testbed, class, rate, seconds);
            Ok::<_, BenchError>(())
        });
        let out = out.map(ScopedJoinHandle::join);
        std::thread::sleep(DRAIN);
        stop.store(true, Ordering::Relaxed);
        let _ = reading.join();
        inward.transpose()?;
        match out {
            Some(Ok(sent)) => sent,
            None => Ok(()),
            Some(Err(_)) => Err(BenchError::Latency("a sender panicked".to_owned())),
        }
    })?;
    let length = (begin.elapsed() - DRAIN).as_secs_f64();
    let load = Load {
        asked_per_s: Some(rate),
        both_ways: directions.len() > 1,
        length,
        lost_reports: reader.totals().lost,
    };
    let row = |d: &Direction| row(testbed, &meter, class, *d, &load);
    directions.iter().map(row).collect()
}

/// Time after the last packet was sent.
const DRAIN: Duration = Duration::from_millis(100);

struct Load {
    asked_per_s: Option<f64>,
    both_ways: bool,
    /// Length of the measurement, seconds.
    length: f64,
    lost_reports: u64,
}

fn row(
    testbed: &LatencyTestbed,
    meter: &Meter,
    class: Class,
    direction: Direction,
    load: &Load,
) -> Result<CoverageRow, BenchError> {
    meter.close_idle_packets(DRAIN / 2).map_err(measure_error)?;
    let counts = meter.counts(testbed.netns).map_err(measure_error)?;
    let (d, c) = (direction as usize, class as usize);
    let (packets, reports) = (counts.packets[d][c], counts.reports[d][c]);
    Ok(CoverageRow {
        protocol: class.label().to_owned(),
        direction: direction.label().to_owned(),
        both_ways: load.both_ways,
        asked_per_s: load.asked_per_s,
        packets_per_s: packets as f64 / load.length,
        packets,
        reports,
        coverage_pct: reports as f64 / packets.max(1) as f64 * 100.0,
        misses: Miss::ALL
            .iter()
            .zip(counts.misses[d])
            .filter(|(_, count)| *count > 0)
            .map(|(miss, count)| (miss.label().to_owned(), count))
            .collect(),
        lost: load.lost_reports,
    })
}

/// One TCP stream between the container and a neighbour, as fast as possible: data in one
/// direction, acknowledgements in the other.
fn stream(
    testbed: &LatencyTestbed,
    direction: Direction,
    seconds: f64,
) -> Result<Vec<CoverageRow>, BenchError> {
    let (listener, sender) = match direction {
        Direction::Egress => {
            let listener = testbed.next_door(|| TcpListener::bind("10.97.2.2:9000"))?;
            (
                listener,
                testbed.inside(|| TcpStream::connect("10.97.2.2:9000"))?,
            )
        }
        Direction::Ingress => {
            let listener = testbed.inside(|| TcpListener::bind((HERE, PORT)))?;
            (
                listener,
                testbed.next_door(|| TcpStream::connect((HERE, PORT)))?,
            )
        }
    };
    let tcp = || failed("cannot make a TCP stream");
    let (listener, mut sender) = (listener.map_err(tcp())?, sender.map_err(tcp())?);
    let (mut receiver, _) = listener.accept().map_err(tcp())?;
    let mut meter = load(Start::Queue)?;
    meter
        .on(testbed.netns, &Filter::default())
        .map_err(measure_error)?;
    let mut reader = meter.reader().map_err(measure_error)?;
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = vec![0; 1 << 17];
            while receiver.read(&mut buffer).is_ok_and(|n| n > 0) {}
        });
        let payload = vec![0x5a; 1 << 16];
        while begin.elapsed().as_secs_f64() < seconds {
            if sender.write_all(&payload).is_err() {
                break;
            }
            reader.take(|_| {});
        }
        drop(sender);
    });
    let length = begin.elapsed().as_secs_f64();
    std::thread::sleep(DRAIN);
    reader.take(|_| {});
    let load = Load {
        asked_per_s: None,
        both_ways: false,
        length,
        lost_reports: reader.totals().lost,
    };
    let row = |d| row(testbed, &meter, Class::Tcp, d, &load);
    Direction::ALL.into_iter().map(row).collect()
}

/// Calls `one` at `rate` for `seconds`.
fn call_at_rate(rate: f64, seconds: f64, mut one: impl FnMut(u32)) {
    let begin = Instant::now();
    let mut sent = 0u32;
    loop {
        let elapsed = begin.elapsed().as_secs_f64();
        if elapsed >= seconds {
            return;
        }
        let ahead = f64::from(sent) / rate - elapsed;
        if ahead > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(ahead.min(0.001)));
            continue;
        }
        for _ in 0..BURST {
            one(sent);
            sent = sent.wrapping_add(1);
        }
    }
}

/// Sends from the container to the wire.
fn send_out(class: Class, rate: f64, seconds: f64) -> Result<(), BenchError> {
    match class {
        Class::Icmp => {
            let fd = raw_socket()?;
            // Nothing answers replies: the wire turns only requests.
            call_at_rate(rate, seconds, |n| {
                let whole = packet(1, super::wire::FAR, 77, n as u16);
                let to = nix::sys::socket::SockaddrIn::new(10, 97, 0, 2, 0);
                let _ = nix::sys::socket::sendto(
                    std::os::fd::AsRawFd::as_raw_fd(&fd),
                    &whole[20..],
                    &to,
                    nix::sys::socket::MsgFlags::empty(),
                );
            });
        }
        _ => {
            let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed("cannot send"))?;
            let to = SocketAddr::from((super::wire::FAR, PORT));
            socket.connect(to).map_err(failed("cannot send"))?;
            call_at_rate(rate, seconds, |n| {
                let mut payload = [0x5a; 40];
                payload[..4].copy_from_slice(&n.to_be_bytes());
                let _ = socket.send(&payload);
            });
        }
    }
    Ok(())
}

fn raw_socket() -> Result<OwnedFd, BenchError> {
    socket(
        AddressFamily::Inet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::Icmp,
    )
    .map_err(|e| BenchError::Latency(format!("cannot open a raw socket: {e}")))
}

/// Opens a socket in the container that reads until `stop`.
fn receive<'a>(
    testbed: &'a LatencyTestbed,
    class: Class,
    stop: &'a AtomicBool,
    scope: &'a Scope<'a, '_>,
) -> Result<(), BenchError> {
    let socket = testbed.inside(|| -> Result<UdpSocket, BenchError> {
        match class {
            // SAFETY: a descriptor of our own, given away; a raw socket receives as UDP's does.
            Class::Icmp => Ok(unsafe { UdpSocket::from_raw_fd(raw_socket()?.into_raw_fd()) }),
            _ => UdpSocket::bind((HERE, PORT)).map_err(failed("cannot receive")),
        }
    })??;
    // A reader that waits for its CPU must not look like a miss.
    let room =
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBufForce, &(64 << 20));
    room.map_err(|e| BenchError::Latency(format!("cannot enlarge a buffer: {e}")))?;
    let wait = socket.set_read_timeout(Some(Duration::from_millis(50)));
    wait.map_err(failed("cannot receive"))?;
    scope.spawn(move || {
        let mut buffer = [0; 2048];
        while !stop.load(Ordering::Relaxed) {
            let _ = socket.recv(&mut buffer);
        }
    });
    Ok(())
}

/// Sends from the wire into the container.
fn send_in(testbed: &LatencyTestbed, class: Class, rate: f64, seconds: f64) {
    let protocol = if class == Class::Icmp { 1 } else { 17 };
    let mut whole = packet(protocol, HERE, PORT, 0);
    call_at_rate(rate, seconds, |n| {
        if protocol == 17 {
            whole[28..32].copy_from_slice(&n.to_be_bytes());
            let _ = testbed.wire.send(&whole);
        } else {
            let _ = testbed.wire.send(&packet(1, HERE, PORT, n as u16));
        }
    });
}
