//! `cofferdam simulate`.

mod text;

use crate::args::SimulateArgs;
use crate::bench::failed_run;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{Output, json};
use crate::progress::Progress;
use cofferdam_bench::simulation::this_host;
use cofferdam_paths::{FileError, read_text};
use cofferdam_simulate::{Host, Policy, Scenario, Tenants, input, report, simulate_while};
use std::path::Path;

/// Largest file that is read, bytes.
const LARGEST_FILE_BYTES: u64 = 64 << 20;

/// Simulates every policy and prints the CPU time of each tenant.
pub fn run(args: &SimulateArgs, interrupt: &Interrupt) -> Outcome {
    if args.write_host {
        let text = input::host_json(&this_host().map_err(failed_run)?);
        return Output::stdout().write(&text);
    }
    let host = host(args.host.as_deref())?;
    let Some(path) = &args.tenants else {
        return Err(Failure::Usage("--tenants is missing".to_owned()));
    };
    let tenants = input::tenants(&read(path)?, &host).map_err(|e| refused(path, &e))?;
    let mut progress = Progress::new(true);
    let mut outcomes = Vec::new();
    for policy in policies(args, &tenants) {
        progress.show(&format!("simulating {}", policy.label()));
        let scenario = Scenario {
            host: &host,
            tenants: &tenants,
            policy,
            duration: args.duration,
            seed: args.seed,
            keep_cpus: args.keep_cpus,
        };
        match simulate_while(&scenario, &|| !interrupt.raised()) {
            Some(outcome) => outcomes.push(outcome),
            None => return Err(Failure::Interrupted(None)),
        }
    }
    progress.clear();
    let document = report(&tenants, &outcomes, args.seed);
    let text = match args.json {
        true => json(&document)?,
        false => text::text(&document, crate::table::terminal_width()),
    };
    Output::stdout().write(&text)
}

fn policies(args: &SimulateArgs, tenants: &Tenants) -> Vec<Policy> {
    if args.policy.is_empty() {
        return match tenants.tenants.iter().any(|t| t.reserved.is_some()) {
            true => Policy::ALL.to_vec(),
            false => vec![Policy::Standard],
        };
    }
    let asked: Vec<Policy> = args.policy.iter().map(|p| (*p).into()).collect();
    let all = Policy::ALL.into_iter();
    all.filter(|p| asked.contains(p)).collect()
}

fn host(path: Option<&Path>) -> Result<Host, Failure> {
    match path {
        Some(path) => input::host(&read(path)?).map_err(|e| refused(path, &e)),
        None => this_host().map_err(failed_run),
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    read_text(path, LARGEST_FILE_BYTES).map_err(|why| match why {
        FileError::TooLarge { .. } => Failure::failed(format!(
            "{} is larger than 64 MiB: simulate fewer tenants",
            path.display()
        )),
        why => Failure::failed(format!("cannot read {}: {why}", path.display())),
    })
}

fn refused(path: &Path, error: &input::InputError) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}
