//! Memory load: fills a working set and then walks it at a given rate.
//!
//! The load runs in a child process. Above its memory limit the kernel kills the child; the parent
//! counts that and restarts it, as a supervisor restarts a service.

use crate::Failure;
use crate::meter::Meter;
use crate::pace::{GIVE_UP, Pace};
use crate::params::Params;
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes walked in one operation.
const CHUNK: usize = 1 << 20;
/// Longest time between two reports of the child.
const REPORT: Duration = Duration::from_millis(20);
/// Line of a child whose set is filled.
const FILLED: &str = "filled";
/// Pause before a killed child is restarted.
const REST: Duration = Duration::from_millis(20);

/// `bytes=N rate=R`: working set, and bytes walked a second (0: as fast as possible).
pub struct Memory {
    bytes: u64,
    rate: f64,
    /// First child, if it survived filling its set.
    first: RefCell<Option<Walker>>,
}

/// Running child.
struct Walker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Walker {
    fn start(bytes: u64, rate: f64) -> Option<Walker> {
        let mut child = Command::new("/proc/self/exe")
            .args([
                "memory-child",
                &format!("bytes={bytes}"),
                &format!("rate={rate}"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let lines = BufReader::new(child.stdout.take()?).lines();
        Some(Walker { child, lines })
    }

    /// Waits until the child has filled its set; `None` if it was killed before that.
    fn await_filled(mut self) -> Option<Walker> {
        loop {
            if self.lines.next()?.ok()? == FILLED {
                return Some(self);
            }
        }
    }

    /// Lets the child walk; a child that still fills begins after that.
    fn go(&mut self) {
        // Fails if the child is dead: its output says why.
        let _dead = self.child.stdin.as_mut().map(|to| writeln!(to, "go"));
    }
}

impl Drop for Walker {
    fn drop(&mut self) {
        // Fails only if it has already ended.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Memory {
    pub fn prepare(mut params: Params) -> Result<Memory, Failure> {
        let bytes = params.need("bytes")?;
        let rate = params.need("rate")?;
        params.finish()?;
        if bytes < CHUNK as u64 {
            return Err(format!("bytes={bytes} is less than {CHUNK}"));
        }
        Ok(Memory {
            bytes,
            rate,
            first: RefCell::new(None),
        })
    }

    /// Fills the working set, so that the measurement shows walking and not filling. Above the
    /// limit the first child is killed here.
    pub fn fill(self) -> Memory {
        let walker = Walker::start(self.bytes, self.rate).and_then(Walker::await_filled);
        self.first.replace(walker);
        self
    }

    pub fn start(&self, meter: &Arc<Meter>) -> Vec<JoinHandle<()>> {
        let (bytes, rate, meter) = (self.bytes, self.rate, meter.clone());
        let first = self.first.take();
        vec![std::thread::spawn(move || {
            supervise(first, bytes, rate, &meter);
        })]
    }
}

fn supervise(first: Option<Walker>, bytes: u64, rate: f64, meter: &Meter) {
    let mut walker = first;
    while !meter.ended() {
        let Some(mut now) = walker.take().or_else(|| Walker::start(bytes, rate)) else {
            // Not even a small process fits: the same as killed.
            meter.restart();
            std::thread::sleep(REST);
            continue;
        };
        now.go();
        for line in now.lines.by_ref().map_while(Result::ok) {
            note(&line, meter);
            if meter.ended() {
                break;
            }
        }
        drop(now);
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

/// Child process: fills its set, then walks it, until it is killed or its parent ends.
pub fn child(words: &[&str]) {
    let parsed = Params::parse(words).and_then(Memory::prepare);
    let Ok(memory) = parsed else {
        std::process::exit(2);
    };
    // The first line is the start signal; the end of the input is the parent's end.
    let (sender, word) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|n| n > 0) {
            // A second line has no receiver.
            let _once = sender.send(());
        }
        std::process::exit(0);
    });
    let chunks = (memory.bytes as usize / CHUNK).max(1);
    let mut set: Vec<Vec<u64>> = Vec::with_capacity(chunks);
    let mut report = Report::new();
    for i in 0..chunks {
        let began = Instant::now();
        // Written, not zeroed: the kernel must allocate a page for each.
        set.push((0..(CHUNK / 8) as u64).map(|j| j ^ i as u64).collect());
        report.chunk(began.elapsed());
    }
    report.send(FILLED);
    if word.recv().is_err() {
        return;
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
        self.send("");
    }

    /// Prints the report, then `last`.
    fn send(&mut self, last: &str) {
        let last = match last {
            "" => String::new(),
            word => format!("{word}\n"),
        };
        let line = format!("{} {}{}\n{last}", self.bytes, self.lost, self.latencies);
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
