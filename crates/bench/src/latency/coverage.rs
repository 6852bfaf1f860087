//! Reports ÷ packets, by protocol, direction and rate.

use super::scene::Scene;
use super::wire::packet;
use super::{Options, failed, load, lost};
use crate::data::{CoverageRow, LatencyResult};
use crate::error::BenchError;
use crate::experiment::Rig;
use cofferdam_latency::{Class, Direction, Filter, Miss, Start};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HERE: Ipv4Addr = Ipv4Addr::new(10, 97, 1, 2);
const PORT: u16 = 9000;
/// Packets between two looks at the clock.
const BURST: u32 = 16;

/// Every rate, UDP and ICMP, out and in.
pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    scene: &Scene,
    result: &mut LatencyResult,
) -> Result<(), BenchError> {
    let seconds = if options.quick { 1.0 } else { 2.0 };
    for class in [Class::Udp, Class::Icmp] {
        for rate in [20_000.0, 100_000.0, 200_000.0] {
            for direction in Direction::ALL {
                let row = cell(scene, class, direction, rate, seconds)?;
                result.coverage.push(row);
                rig.check()?;
            }
        }
    }
    Ok(())
}

fn cell(
    scene: &Scene,
    class: Class,
    direction: Direction,
    rate: f64,
    seconds: f64,
) -> Result<CoverageRow, BenchError> {
    let mut meter = load(Start::Queue)?;
    meter.on(scene.netns, &Filter::default()).map_err(lost)?;
    let mut reader = meter.reader().map_err(lost)?;
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    std::thread::scope(|scope| -> Result<(), BenchError> {
        let reading = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                reader.take(|_| {});
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let sent = match direction {
            Direction::Egress => scene.inside(|| send_out(class, rate, seconds))?,
            Direction::Ingress => send_in(scene, class, rate, seconds, &stop, scope),
        };
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        let _ = reading.join();
        sent
    })?;
    let length = begin.elapsed().as_secs_f64() - 0.1;
    let counts = meter.counts(scene.netns).map_err(lost)?;
    let (d, c) = (direction as usize, class as usize);
    let (packets, reports) = (counts.packets[d][c], counts.reports[d][c]);
    Ok(CoverageRow {
        protocol: class.label().to_owned(),
        direction: direction.label().to_owned(),
        asked_per_s: Some(rate),
        packets_per_s: packets as f64 / length,
        packets,
        reports,
        coverage_pct: reports as f64 / packets.max(1) as f64 * 100.0,
        misses: Miss::ALL
            .iter()
            .zip(counts.misses[d])
            .filter(|(_, count)| *count > 0)
            .map(|(miss, count)| (miss.label().to_owned(), count))
            .collect(),
        lost: reader.totals().lost,
    })
}

/// Calls `one` at `rate` until the time is over.
fn paced(rate: f64, seconds: f64, mut one: impl FnMut(u32)) {
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

/// From the container to the wire.
fn send_out(class: Class, rate: f64, seconds: f64) -> Result<(), BenchError> {
    match class {
        Class::Icmp => {
            let fd = raw_socket()?;
            // Replies are answered by nobody: the wire turns requests only.
            paced(rate, seconds, |n| {
                let whole = packet(1, super::scene::FAR, 77, n as u16);
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
            let to = SocketAddr::from((super::scene::FAR, PORT));
            socket.connect(to).map_err(failed("cannot send"))?;
            paced(rate, seconds, |n| {
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

/// From the wire into the container, where a socket reads.
fn send_in<'a>(
    scene: &'a Scene,
    class: Class,
    rate: f64,
    seconds: f64,
    stop: &'a AtomicBool,
    scope: &'a std::thread::Scope<'a, '_>,
) -> Result<(), BenchError> {
    let socket = scene.inside(|| -> Result<UdpSocket, BenchError> {
        match class {
            // SAFETY: a descriptor of our own, given away; a raw socket receives as UDP's does.
            Class::Icmp => Ok(unsafe { UdpSocket::from_raw_fd(raw_socket()?.into_raw_fd()) }),
            _ => UdpSocket::bind((HERE, PORT)).map_err(failed("cannot receive")),
        }
    })??;
    let wait = socket.set_read_timeout(Some(Duration::from_millis(50)));
    wait.map_err(failed("cannot receive"))?;
    scope.spawn(move || {
        let mut buffer = [0; 2048];
        while !stop.load(Ordering::Relaxed) {
            let _ = socket.recv(&mut buffer);
        }
    });
    let protocol = if class == Class::Icmp { 1 } else { 17 };
    let mut whole = packet(protocol, HERE, PORT, 0);
    paced(rate, seconds, |n| {
        if protocol == 17 {
            whole[28..32].copy_from_slice(&n.to_be_bytes());
            let _ = scene.wire.send(&whole);
        } else {
            let _ = scene.wire.send(&packet(1, HERE, PORT, n as u16));
        }
    });
    Ok(())
}
