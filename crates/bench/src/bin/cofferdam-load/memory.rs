//! Memory load: a working set that is filled and then walked at a given rate.
//!
//! It runs in a child: above its limit the kernel kills it, and the parent starts it again and
//! counts that, as a supervised service would.

use crate::Failure;
use crate::meter::Meter;
use crate::pace::{GIVE_UP, Pace};
use crate::params::Params;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Walked in one operation.
const CHUNK: usize = 1 << 20;
/// The child reports at least as often.
const REPORT: Duration = Duration::from_millis(20);
/// Rest before a killed child is started again.
const REST: Duration = Duration::from_millis(20);

/// `bytes=N rate=R`: working set, and bytes walked a second (0: as fast as possible).
pub struct Memory {
    bytes: u64,
    rate: f64,
}

impl Memory {
    pub fn prepare(mut params: Params) -> Result<Memory, Failure> {
        let bytes = params.need("bytes")?;
        let rate = params.need("rate")?;
        params.finish()?;
        if bytes < CHUNK as u64 {
            return Err(format!("bytes={bytes} is less than {CHUNK}"));
        }
        Ok(Memory { bytes, rate })
    }

    pub fn start(&self, meter: &Arc<Meter>) -> Vec<JoinHandle<()>> {
        let (bytes, rate, meter) = (self.bytes, self.rate, meter.clone());
        vec![std::thread::spawn(move || supervise(bytes, rate, &meter))]
    }
}

fn supervise(bytes: u64, rate: f64, meter: &Meter) {
    while !meter.ended() {
        let child = Command::new("/proc/self/exe")
            .args([
                "memory-child",
                &format!("bytes={bytes}"),
                &format!("rate={rate}"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            // Not even a small process fits: as good as killed.
            meter.restart();
            std::thread::sleep(REST);
            continue;
        };
        if let Some(lines) = child.stdout.take() {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                note(&line, meter);
                if meter.ended() {
                    break;
                }
            }
        }
        // Fails only when it is gone already.
        let _gone = child.kill();
        let _reaped = child.wait();
        if !meter.ended() {
            meter.restart();
            std::thread::sleep(REST);
        }
    }
}

/// `BYTES LOST LATENCY_US…`
fn note(line: &str, meter: &Meter) {
    let mut numbers = line.split(' ').map_while(|word| word.parse::<u64>().ok());
    let (Some(bytes), Some(lost)) = (numbers.next(), numbers.next()) else {
        return;
    };
    meter.count(bytes / CHUNK as u64, bytes);
    meter.lose(lost);
    for us in numbers {
        meter.latency(Duration::from_micros(us));
    }
}

/// The child: fills, then walks, until it is killed or its parent has gone.
pub fn child(words: &[&str]) {
    let parsed = Params::parse(words).and_then(Memory::prepare);
    let Ok(memory) = parsed else {
        std::process::exit(2);
    };
    // The end of the input is the parent's end.
    std::thread::spawn(|| {
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|n| n > 0) {}
        std::process::exit(0);
    });
    let chunks = (memory.bytes as usize / CHUNK).max(1);
    let mut set: Vec<Vec<u64>> = Vec::with_capacity(chunks);
    let mut report = Report::new();
    for i in 0..chunks {
        let began = Instant::now();
        // Written, not zeroed: the kernel then has to give a page for each.
        set.push((0..(CHUNK / 8) as u64).map(|j| j ^ i as u64).collect());
        report.chunk(began.elapsed());
    }
    let pace = Pace::new(memory.rate / CHUNK as f64);
    let started = Instant::now();
    let mut index = 0_u64;
    loop {
        let due = match pace {
            None => started.elapsed(),
            Some(pace) => {
                let first = pace.first_in_time(started.elapsed());
                report.lost += first.saturating_sub(index);
                index = index.max(first);
                let due = pace.due(index);
                if let Some(early) = due.checked_sub(started.elapsed()) {
                    std::thread::sleep(early.min(GIVE_UP));
                }
                due
            }
        };
        walk(&mut set[index as usize % chunks]);
        report.chunk(started.elapsed().saturating_sub(due));
        index += 1;
    }
}

/// Reads and writes every word.
fn walk(chunk: &mut [u64]) {
    let mut sum = 0_u64;
    for word in chunk.iter_mut() {
        sum = sum.wrapping_add(*word);
        *word = word.rotate_left(7) ^ sum;
    }
}

struct Report {
    since: Instant,
    bytes: usize,
    lost: u64,
    latencies: String,
}

impl Report {
    fn new() -> Report {
        Report {
            since: Instant::now(),
            bytes: 0,
            lost: 0,
            latencies: String::new(),
        }
    }

    fn chunk(&mut self, took: Duration) {
        use std::fmt::Write as _;
        self.bytes += CHUNK;
        // Writing to a String cannot fail.
        let _infallible = write!(self.latencies, " {}", took.as_micros());
        if self.since.elapsed() < REPORT {
            return;
        }
        let line = format!("{} {}{}\n", self.bytes, self.lost, self.latencies);
        let mut out = std::io::stdout().lock();
        if out
            .write_all(line.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            std::process::exit(0);
        }
        *self = Report::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_childs_line_is_counted_and_nonsense_is_not() {
        let meter = Meter::new();
        meter.record(true);
        note("3145728 2 40 41 42", &meter);
        note("", &meter);
        note("x y z", &meter);
        let counts = meter.counts();
        assert_eq!((counts.ops, counts.bytes, counts.lost), (3, 3 << 20, 2));
        assert!(
            meter
                .quantile_us(0.5)
                .is_some_and(|us| (40..=44).contains(&us))
        );
    }

    #[test]
    fn a_walk_changes_every_word() {
        let mut chunk = vec![1_u64; 64];
        walk(&mut chunk);
        assert!(chunk.iter().all(|word| *word != 1));
    }
}
