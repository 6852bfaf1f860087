//! Linux client that polls, with one request at a time.

use super::{Args, Control, Failure, LoadReport, report};
use crate::worker::tcp;
use crate::worker::waker::{histogram, latency};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends at most R requests a second; 0: without pause. Arguments: `--to IP --port P --size S
/// --warm W --seconds T --rate R`.
pub(super) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let to: Ipv4Addr = args.need("to")?;
    let port: u16 = args.need("port")?;
    let size: usize = args.need("size")?;
    let warm = Duration::from_secs_f64(args.need("warm")?);
    let length = Duration::from_secs_f64(args.need("seconds")?);
    let rate: f64 = args.need("rate")?;
    args.finish()?;
    control.start()?;
    let message = vec![0x61; size];
    let mut answer = vec![0; size];
    let mut flow = open(to, port)?;
    let start = Instant::now();
    let mut times = histogram()?;
    let mut from = None;
    let gap = (rate > 0.0).then(|| Duration::from_secs_f64(1.0 / rate));
    while from.is_none_or(|f: Instant| f.elapsed() < length) && !control.done() {
        let now = Instant::now();
        if from.is_none() && now - start >= warm {
            from = Some(now);
        }
        round_trip(&mut flow, &message, &mut answer, now)?;
        if from.is_some() {
            times.saturating_record(now.elapsed().as_nanos() as u64);
        }
        while gap.is_some_and(|gap| now.elapsed() < gap) {
            std::hint::spin_loop();
        }
    }
    let elapsed = from.map_or(length, |f| f.elapsed());
    report(&LoadReport {
        requests_per_s: times.len() as f64 / elapsed.as_secs_f64(),
        latency: latency(&times, 0),
        busy: None,
    })
}

fn open(to: Ipv4Addr, port: u16) -> Result<TcpStream, Failure> {
    let flow = tcp::connect(to, port)?;
    let set = flow
        .set_nodelay(true)
        .and_then(|()| flow.set_nonblocking(true));
    set.map_err(|e| format!("cannot set up a connection: {e}"))?;
    Ok(flow)
}

fn round_trip(
    flow: &mut TcpStream,
    message: &[u8],
    answer: &mut [u8],
    start: Instant,
) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| format!("the echo server failed: {e}");
    let (mut sent, mut got) = (0, 0);
    while got < answer.len() {
        if sent < message.len() {
            match flow.write(&message[sent..]) {
                Ok(len) => sent += len,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(failed(&e)),
            }
        }
        match flow.read(&mut answer[got..]) {
            Ok(0) => return Err(failed(&"it closed the connection")),
            Ok(len) => got += len,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if start.elapsed() > PATIENCE {
                    return Err(failed(&"no answer for 5 s"));
                }
            }
            Err(e) => return Err(failed(&e)),
        }
    }
    Ok(())
}
