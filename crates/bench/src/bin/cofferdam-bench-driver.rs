//! Bare driver for this crate's tests and for work on the crate: runs the cells with the given ids
//! and prints a line for each. It is its own worker. Users call `cofferdam bench penalty`.
#![forbid(unsafe_code)]

use cofferdam_bench::dataplane::data::DataplaneExperiment;
use cofferdam_bench::report::format::estimate;
use cofferdam_bench::run::{RunData, RunResult};
use cofferdam_bench::{BenchError, Progress, RunDir, accounting, dataplane, penalty, report};

struct StderrProgress;

impl Progress for StderrProgress {
    fn step(&mut self, done: usize, total: usize, what: &str) {
        eprintln!("{done}/{total} {what}");
    }

    fn warn(&mut self, text: &str) {
        eprintln!("warning: {text}");
    }
}

/// Arguments:
///
/// - `DIR PAIRS SECONDS CELL_ID…`: penalty; without ids the quick grid.
/// - `DIR PAIRS SECONDS accounting`: the accounting's cost and accuracy, as in `result.json`.
/// - `DIR ROUNDS 0 dataplane EXPERIMENT…`: the dataplane's quick runs, of these experiments or of
///   all.
/// - `DIR 0 0 report`: renders the report of a run again.
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "bench-worker") {
        std::process::exit(cofferdam_bench::worker::main(&args[1..]));
    }
    let [dir, pairs, seconds, cells @ ..] = &args[..] else {
        eprintln!("usage: cofferdam-bench-driver DIR PAIRS SECONDS CELL_ID…");
        std::process::exit(2);
    };
    let (output, pairs, seconds) = (
        Some(dir.into()),
        pairs.parse().unwrap_or(0),
        seconds.parse(),
    );
    if cells.first().is_some_and(|first| first == "accounting") {
        let options = accounting::Options {
            output,
            pairs,
            period_seconds: seconds.ok(),
            ..accounting::Options::default()
        };
        return end(accounting::run(&options, &mut StderrProgress));
    }
    if cells.first().is_some_and(|first| first == "report") {
        match report::render(dir.as_ref()) {
            Ok(path) => println!("{}", path.display()),
            Err(e) => {
                eprintln!("{e}");
                std::process::exit(1);
            }
        }
        return;
    }
    if cells.first().is_some_and(|first| first == "dataplane") {
        let options = dataplane::Options {
            quick: true,
            output,
            rounds: Some(pairs),
            experiments: DataplaneExperiment::ALL
                .iter()
                .copied()
                .filter(|e| cells.iter().any(|name| name == e.label()))
                .collect(),
            ..dataplane::Options::default()
        };
        return end(dataplane::run(&options, &mut StderrProgress));
    }
    let options = penalty::Options {
        quick: cells.is_empty(),
        output,
        pairs,
        victim_seconds: seconds.ok(),
        filter: penalty::Filter {
            ids: cells.to_vec(),
            ..penalty::Filter::default()
        },
        ..penalty::Options::default()
    };
    end(penalty::run(&options, &mut StderrProgress));
}

fn end(outcome: Result<RunDir, BenchError>) {
    match outcome {
        Ok(dir) => print(dir.path()),
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(e.exit_code());
        }
    }
}

fn print(dir: &std::path::Path) {
    let result = match RunData::load(dir).map(|data| data.result) {
        Ok(Some(RunResult::Penalty(result))) => result,
        Ok(Some(other)) => return println!("{other:#?}"),
        _ => return,
    };
    for c in result.cells {
        println!(
            "{}: penalty {}, softirq {:?}, predicted {:?}, offered {:?}, received {:?}, baseline \
             {:.2}, test {:.2}",
            c.cell.id,
            estimate(&c.penalty),
            c.softirq_fraction,
            c.predicted,
            c.offered,
            c.received,
            c.baseline.median,
            c.test.median
        );
    }
}
