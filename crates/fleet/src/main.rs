//! The `cofferdam-fleet` binary; `cofferdam report fleet` runs it.

use anyhow::{Context, Result};
use clap::Parser;
use cofferdam_fleet::report::{self, Report, Request};
use cofferdam_fleet::{model, pairs};
use cofferdam_fleet_args::{CheckArgs, Cli, Command, ReportArgs, error_chain};
use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;
use std::thread;

/// Default limit on the threads: each holds a row group in memory.
const MOST_THREADS: usize = 8;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Report(args) => report(args),
        Command::CheckModel(args) => check_model(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cofferdam-fleet: {}", error_chain(&*error));
            ExitCode::FAILURE
        }
    }
}

fn report(args: ReportArgs) -> Result<()> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let request = Request {
        ledgers: args.ledgers,
        host: args.host,
        output: args.output,
        force: args.force,
        memory_bytes: args.memory.into(),
        threads: args.threads.map_or(cpus.min(MOST_THREADS), usize::from),
        temporary: args.temporary.unwrap_or_else(std::env::temp_dir),
    };
    let is_terminal = stderr().is_terminal();
    let progress = |what: &str| {
        if is_terminal {
            eprint!("\r\x1b[K{what} …");
        }
    };
    let finished = report::make(&request, &progress);
    if is_terminal {
        eprint!("\r\x1b[K");
    }
    print_result(&finished?).context("cannot write to stdout")
}

fn print_result(finished: &Report) -> std::io::Result<()> {
    for (copy, first) in &finished.census.copies {
        eprintln!(
            "cofferdam-fleet: {} holds the same records as {}: counted once",
            copy.display(),
            first.display()
        );
    }
    for path in &finished.cut_off {
        eprintln!(
            "cofferdam-fleet: the last line of {} is cut off: left out",
            path.display()
        );
    }
    let records: u64 = finished.census.hosts.values().map(|f| f.records).sum();
    let hosts = finished.census.hosts.len();
    let many = if hosts == 1 { "" } else { "s" };
    eprintln!(
        "{hosts} host{many}, {records} records in {:.1} s",
        finished.took_s
    );
    writeln!(stdout(), "{}", finished.page.display())
}

fn check_model(args: &CheckArgs) -> Result<()> {
    let mut all = Vec::new();
    for run in &args.runs {
        all.extend(pairs::read(run)?);
    }
    if args.runs.is_empty() {
        all = model::recorded().to_vec();
    }
    let mut out = stdout().lock();
    for pair in &all {
        if args.json {
            writeln!(out, "{}", serde_json::to_string(pair)?)?;
        } else {
            writeln!(
                out,
                "{:<50} model {:>7.3} s  measured {:>7.3} s",
                pair.cell,
                pair.predicted_s(),
                pair.measured_s()
            )?;
        }
    }
    if let (false, Some(check)) = (args.json, model::check(&all)) {
        let [least, middle, most] = check.factor;
        writeln!(
            out,
            "measured ÷ model: {middle:.2} ({least:.2} to {most:.2}); at least 1 in {} of {} pairs",
            check.confirmed, check.pairs
        )?;
        let [least, middle, most] = check.small.map(|s| s * 100.0);
        writeln!(
            out,
            "returned in {} pairs below the model's limit: {middle:.1}% of the bill \
             ({least:.1} to {most:.1})",
            check.small_pairs
        )?;
    }
    Ok(())
}
