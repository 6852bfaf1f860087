//! Request-response server and its low-rate client: the victim that is judged by its p99.

use super::victim::cpu::mix;
use super::{Args, Control, Failure, control, tcp};
use crate::data::Latency;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Size of a request and of its answer: sequence number and padding.
const MESSAGE_BYTES: usize = 64;
/// Time after which an unanswered request counts as lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// Last line of the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RpcReport {
    /// Time from the first request to the last answer.
    pub elapsed_s: f64,
    /// Round-trip times.
    pub latency: Latency,
    /// Sum over all answers, hexadecimal.
    pub checksum: String,
}

/// Answers each request after ROUNDS rounds of integer work on it. Arguments: `--port P --work
/// ROUNDS`.
pub(crate) fn serve(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let port: u16 = args.need("port")?;
    let rounds: u64 = args.need("work")?;
    args.finish()?;
    let listener = tcp::listen(port)?;
    control.start()?;
    while !control.done() {
        let mut flow = match listener.accept() {
            Ok((flow, _)) => flow,
            Err(_) => {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
        };
        let failed = |e: std::io::Error| format!("cannot set up a connection: {e}");
        flow.set_nonblocking(false).map_err(failed)?;
        flow.set_nodelay(true).map_err(failed)?;
        flow.set_read_timeout(Some(Duration::from_millis(50)))
            .map_err(failed)?;
        let mut message = [0_u8; MESSAGE_BYTES];
        let mut filled = 0;
        while !control.done() {
            match flow.read(&mut message[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(e) if would_wait(&e) => continue,
                Err(_) => break,
            }
            if filled == MESSAGE_BYTES {
                filled = 0;
                let answer = mix(word(&message, 0), rounds);
                message[8..16].copy_from_slice(&answer.to_le_bytes());
                if flow.write_all(&message).is_err() {
                    break;
                }
                control.count(1, MESSAGE_BYTES as u64);
            }
        }
    }
    control.report()
}

/// Sends requests in an open loop. Each request has its due time, and its round trip counts from
/// then, so a stalled server does not get fewer requests. Arguments: `--to IP --port P --rate R
/// --requests N`.
pub(crate) fn ask(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let to: Ipv4Addr = args.need("to")?;
    let port: u16 = args.need("port")?;
    let rate: f64 = args.need("rate")?;
    let requests: u64 = args.need("requests")?;
    args.finish()?;
    let failed = |e: std::io::Error| format!("cannot talk to {to} port {port}: {e}");
    let mut flow = tcp::connect(to, port)?;
    flow.set_nodelay(true).map_err(failed)?;
    let mut reader = flow.try_clone().map_err(failed)?;
    reader
        .set_read_timeout(Some(Duration::from_millis(50)))
        .map_err(failed)?;
    control.start()?;
    let start = Instant::now();
    let due = move |i: u64| start + Duration::from_secs_f64(i as f64 / rate);
    let give_up = due(requests) + PATIENCE;
    // One thread sends at the due times, the other reads: a late answer must not delay the next
    // request.
    let answers = std::thread::spawn(move || {
        let mut histogram = new_histogram();
        let (mut checksum, mut answered, mut filled) = (0_u64, 0, 0);
        let mut message = [0_u8; MESSAGE_BYTES];
        while answered < requests && Instant::now() < give_up {
            match reader.read(&mut message[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(e) if would_wait(&e) => continue,
                Err(_) => break,
            }
            if filled == MESSAGE_BYTES {
                filled = 0;
                answered += 1;
                checksum = checksum.wrapping_add(word(&message, 8));
                let late = Instant::now().saturating_duration_since(due(word(&message, 0)));
                histogram.saturating_record(late.as_nanos() as u64);
            }
        }
        (histogram, checksum, answered, start.elapsed())
    });
    let mut message = [0_u8; MESSAGE_BYTES];
    for i in 0..requests {
        if control.done() {
            break;
        }
        std::thread::sleep(due(i).saturating_duration_since(Instant::now()));
        message[..8].copy_from_slice(&i.to_le_bytes());
        flow.write_all(&message).map_err(failed)?;
        control.count(1, MESSAGE_BYTES as u64);
    }
    let (histogram, checksum, answered, elapsed) = answers
        .join()
        .map_err(|_| "the reading thread failed".to_owned())?;
    control::say_json(&RpcReport {
        elapsed_s: elapsed.as_secs_f64(),
        latency: summary(&histogram, answered, requests - answered),
        checksum: format!("{checksum:016x}"),
    })
}

/// Histogram from 1 µs to 1 min, three digits.
fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 60_000_000_000, 3).expect("1 µs is below 1 min")
}

fn summary(histogram: &Histogram<u64>, requests: u64, lost: u64) -> Latency {
    let us = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Latency {
        requests,
        lost,
        p50_us: us(0.5),
        p90_us: us(0.9),
        p99_us: us(0.99),
        p999_us: us(0.999),
        max_us: histogram.max() as f64 / 1e3,
    }
}

fn word(message: &[u8; MESSAGE_BYTES], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&message[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn would_wait(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
