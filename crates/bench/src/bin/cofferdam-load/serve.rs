//! Protocol with the driver.

use crate::Failure;
use crate::cache::Cache;
use crate::cpu::Cpu;
use crate::disk::Disk;
use crate::memory::Memory;
use crate::meter::{Counts, Meter};
use crate::network::{Sink, Source};
use crate::params::Params;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two `@tick` lines.
const TICK: Duration = Duration::from_millis(100);
/// Longest load, whatever the driver asks for.
const LIMIT: Duration = Duration::from_secs(2 * 3600);

enum Load {
    Cpu(Cpu),
    Cache(Cache),
    Memory(Memory),
    Disk(Disk),
    Source(Source),
    Sink(Sink),
}

impl Load {
    fn prepare(words: &[&str]) -> Result<Load, Failure> {
        let (kind, rest) = words.split_first().ok_or("prepare what?")?;
        let params = Params::parse(rest)?;
        Ok(match *kind {
            "cpu" => Load::Cpu(Cpu::prepare(params)?),
            "cache" => Load::Cache(Cache::prepare(params)?),
            "memory" => Load::Memory(Memory::prepare(params)?.fill()),
            "disk" => Load::Disk(Disk::prepare(params)?),
            "source" => Load::Source(Source::prepare(params)?),
            "sink" => Load::Sink(Sink::prepare(params)?),
            other => return Err(format!("unknown kind '{other}'")),
        })
    }

    fn start(&self, meter: &Arc<Meter>) -> Vec<JoinHandle<()>> {
        match self {
            Load::Cpu(load) => load.start(meter),
            Load::Cache(load) => load.start(meter),
            Load::Memory(load) => load.start(meter),
            Load::Disk(load) => load.start(meter),
            Load::Source(load) => load.start(meter),
            Load::Sink(load) => load.start(meter),
        }
    }
}

/// Serves the driver until the input ends.
pub fn serve() {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    say("@ready");
    let mut prepared = None;
    while let Ok(line) = lines.recv() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] | ["stop"] => {}
            ["quit"] => break,
            ["prepare", rest @ ..] => {
                // The resources of the last load (a port, a file) must be free for this one.
                prepared = None;
                match Load::prepare(rest) {
                    Ok(load) => {
                        prepared = Some(load);
                        say("@prepared");
                    }
                    Err(reason) => say(&format!("@error {reason}")),
                }
            }
            ["go", rest @ ..] => match (&prepared, window(rest)) {
                (Some(load), Ok((warmup, measure))) => {
                    if run(load, warmup, measure, &lines).is_none() {
                        break;
                    }
                }
                (None, _) => say("@error nothing is prepared"),
                (_, Err(reason)) => say(&format!("@error {reason}")),
            },
            _ => say(&format!("@error cannot understand '{line}'")),
        }
    }
}

fn window(words: &[&str]) -> Result<(Duration, Duration), Failure> {
    let mut params = Params::parse(words)?;
    let warmup = Duration::from_millis(params.need("warmup_ms")?);
    let measure = Duration::from_millis(params.need("measure_ms")?);
    params.finish()?;
    if warmup + measure > LIMIT {
        return Err("the window is too long".to_owned());
    }
    Ok((warmup, measure))
}

/// Runs a load for its window; `None` if the driver has gone.
fn run(load: &Load, warmup: Duration, measure: Duration, lines: &Receiver<String>) -> Option<()> {
    let meter = Arc::new(Meter::new());
    let threads = load.start(&meter);
    let mut first = None;
    let mut next = TICK;
    let mut alive = Some(());
    let last = loop {
        let now = meter.elapsed();
        if first.is_none() && now >= warmup {
            meter.record(true);
            first = Some(meter.counts());
        }
        if now >= warmup + measure {
            break meter.counts();
        }
        if now >= next {
            let counts = meter.counts();
            say(&format!("@tick {} {}", counts.ops, counts.bytes));
            next = now + TICK;
        }
        let ends = if first.is_none() {
            warmup
        } else {
            warmup + measure
        };
        let until = next.min(ends).saturating_sub(meter.elapsed());
        match lines.recv_timeout(until) {
            Ok(line) if line.trim() == "stop" => break meter.counts(),
            Ok(line) if line.trim() == "quit" => {
                alive = None;
                break meter.counts();
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                alive = None;
                break meter.counts();
            }
        }
    };
    meter.record(false);
    meter.end();
    for thread in threads {
        // A panic of the thread is already on stderr.
        let _told = thread.join();
    }
    say(&done_line(&meter, &first.unwrap_or(last), &last));
    alive
}

fn done_line(meter: &Meter, first: &Counts, last: &Counts) -> String {
    let window = last.at.saturating_sub(first.at);
    let mut line = format!(
        "@done window_us={} ops={} bytes={} lost={} restarts={}",
        window.as_micros(),
        last.ops - first.ops,
        last.bytes - first.bytes,
        last.lost - first.lost,
        last.restarts - first.restarts
    );
    for (name, q) in [("p50_us", 0.5), ("p99_us", 0.99), ("max_us", 1.0)] {
        if let Some(us) = meter.quantile_us(q) {
            line += &format!(" {name}={us}");
        }
    }
    line
}

/// Prints one line. Errors are ignored: without a driver the input ends too.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _nobody = out
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| out.flush());
}
