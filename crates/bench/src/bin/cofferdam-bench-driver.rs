//! A bare driver for this crate's tests and for work on it: runs the cells whose ids are given
//! and prints a line for each. It is its own worker. People use `cofferdam bench penalty`.
#![forbid(unsafe_code)]

use cofferdam_bench::data::{RunData, RunResult};
use cofferdam_bench::{Progress, penalty};

struct Plain;

impl Progress for Plain {
    fn step(&mut self, done: usize, total: usize, what: &str) {
        eprintln!("{done}/{total} {what}");
    }

    fn warn(&mut self, text: &str) {
        eprintln!("warning: {text}");
    }
}

/// `DIR PAIRS SECONDS CELL_ID…`; without ids the quick grid.
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "bench-worker") {
        std::process::exit(cofferdam_bench::worker::main(&args[1..]));
    }
    let [dir, pairs, seconds, cells @ ..] = &args[..] else {
        eprintln!("usage: cofferdam-bench-driver DIR PAIRS SECONDS CELL_ID…");
        std::process::exit(2);
    };
    let options = penalty::Options {
        quick: cells.is_empty(),
        output: Some(dir.into()),
        pairs: pairs.parse().unwrap_or(0),
        victim_seconds: seconds.parse().ok(),
        filter: penalty::Filter {
            ids: cells.to_vec(),
            ..penalty::Filter::default()
        },
        ..penalty::Options::default()
    };
    match penalty::run(&options, &mut Plain) {
        Ok(dir) => print(dir.path()),
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(e.exit_code());
        }
    }
}

fn print(dir: &std::path::Path) {
    let Ok(Some(RunResult::Penalty(result))) = RunData::load(dir).map(|d| d.result) else {
        return;
    };
    for c in result.cells {
        println!(
            "{}: penalty {:.2} ({:.2} to {:.2}), softirq {:?}, predicted {:?}, offered {:?}, received {:?}, baseline {:.2}, test {:.2}",
            c.cell.id,
            c.penalty.median,
            c.penalty.low,
            c.penalty.high,
            c.softirq_fraction,
            c.predicted,
            c.offered,
            c.received,
            c.baseline.median,
            c.test.median
        );
    }
}
