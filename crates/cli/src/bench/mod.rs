//! `cofferdam bench`, `cofferdam report`, `cofferdam demo`: thin over `cofferdam_bench`.

mod figure;
mod isolation;
mod results;
mod story;

use crate::args::{
    BenchAccountingArgs, BenchAgentArgs, BenchCommand, BenchDataplaneArgs, BenchLatencyArgs,
    BenchReservationArgs, DemoArgs, HostArgs, PenaltyArgs, ReportArgs, RunArgs, WorkerArgs,
};
use crate::exit::{Failure, Outcome, one_line};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use cofferdam_bench::isolation::data::RuntimeKind;
use cofferdam_bench::report::ReportError;
use cofferdam_bench::run::RunData;
use cofferdam_bench::topology::MadeBy;
use cofferdam_bench::{
    BenchError, RunDir, accounting, agent, dataplane, demo, evidence, latency, penalty, report,
    reservation,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs a benchmark, prints its results and renders its report.
pub fn run(command: BenchCommand, interrupt: &Interrupt) -> Outcome {
    let mut progress = Shown::new(interrupt);
    let dir = match command {
        BenchCommand::Penalty(args) => penalty::run(&penalty_options(*args), &mut progress),
        BenchCommand::Latency(args) => latency::run(&latency_options(args), &mut progress),
        BenchCommand::Accounting(args) => accounting::run(&accounting_options(args), &mut progress),
        BenchCommand::Reservation(args) => {
            reservation::run(&reservation_options(args), &mut progress)
        }
        BenchCommand::Agent(args) => agent::run(&agent_options(args), &mut progress),
        BenchCommand::Dataplane(args) => dataplane::run(&dataplane_options(args), &mut progress),
        BenchCommand::Isolation(args) => {
            if args.emit.is_some() {
                return isolation::emit(*args);
            }
            let options = isolation::options(*args)?;
            cofferdam_bench::isolation::run(&options, &mut progress)
        }
        BenchCommand::Compare(args) => return isolation::compare(&args),
    };
    finish(dir, progress, interrupt)
}

/// Runs the demo.
pub fn demo(args: DemoArgs, interrupt: &Interrupt) -> Outcome {
    let mut progress = Shown::new(interrupt);
    let options = demo::Options {
        output: args.output,
        victim_cpu: args.host.victim_cpu,
        peer_cpu: args.host.peer_cpu,
        seed: args.host.seed,
        ..demo::Options::default()
    };
    let dir = demo::run(&options, &mut progress);
    finish(dir, progress, interrupt)
}

/// Renders the report of a run again, or of several parts of one.
pub fn report(args: &ReportArgs) -> Outcome {
    let dir = match (args.dirs.as_slice(), &args.output) {
        ([one], None) => one.clone(),
        (_, None) => {
            return Err(Failure::Usage(
                "merging several directories needs --output".to_owned(),
            ));
        }
        (parts, Some(output)) => cofferdam_bench::isolation::merge::merge(parts, output)
            .map_err(|e| Failure::failed(e.to_string()))?,
    };
    let path = report::render(&dir).map_err(failed_report)?;
    Output::stdout().write(&format!("{}\n", path.display()))
}

/// One part of a benchmark, in a process of its own.
pub fn worker(args: WorkerArgs) -> Outcome {
    let words: Option<Vec<String>> = args
        .words
        .into_iter()
        .map(|word| word.into_string().ok())
        .collect();
    let words = words.ok_or_else(|| Failure::Usage("a worker's words are UTF-8".to_owned()))?;
    match cofferdam_bench::worker::main(&words) {
        0 => Ok(()),
        code => Err(Failure::Answer(u8::try_from(code).unwrap_or(1))),
    }
}

fn finish(
    outcome: Result<RunDir, BenchError>,
    mut progress: Shown,
    interrupt: &Interrupt,
) -> Outcome {
    progress.line.clear();
    let dir = match outcome {
        Ok(dir) => dir.path().to_owned(),
        Err(error) => {
            // What was measured until then is worth a report too; the error stays the answer.
            if let BenchError::Interrupted { dir } = &error {
                let _incomplete = report::render(dir);
            }
            return Err(failed_run(error));
        }
    };
    let path = report::render(&dir).map_err(failed_report)?;
    let run = RunData::load(&dir).map_err(|e| failed_report(e.into()))?;
    let mut output = Output::stdout();
    output.write(&results::text(&run, crate::table::terminal_width()))?;
    output.write(&format!("\nreport: {}\n", path.display()))?;
    if interrupt.raised() {
        return Err(Failure::Interrupted(None));
    }
    answer(&run)
}

/// A verdict is an answer, whatever it is; a run without a figure has none to give.
fn answer(run: &RunData) -> Outcome {
    match evidence::is_measured(run.result.as_ref()) {
        true => Ok(()),
        false => Err(Failure::failed(format!(
            "nothing was measured: the report in {} lists the failures and their reasons",
            run.dir.display()
        ))),
    }
}

pub(super) fn failed_run(error: BenchError) -> Failure {
    match error {
        BenchError::Unsupported(text) => Failure::Unsupported(text),
        BenchError::Usage(text) => Failure::Usage(text),
        BenchError::Interrupted { .. } => Failure::Interrupted(Some(error.to_string())),
        // The text has its cause in it: a chain would say it twice.
        other => Failure::failed(other.to_string()),
    }
}

fn failed_report(error: ReportError) -> Failure {
    Failure::failed(error.to_string())
}

/// Progress of a run on standard error.
struct Shown {
    line: Progress,
    interrupted: Arc<AtomicBool>,
}

impl Shown {
    fn new(interrupt: &Interrupt) -> Shown {
        Shown {
            line: Progress::new(true),
            interrupted: interrupt.flag(),
        }
    }
}

impl cofferdam_bench::Progress for Shown {
    fn step(&mut self, done: usize, total: usize, what: &str) {
        self.line.show(&format!("[{done}/{total}] {what}"));
    }

    fn warn(&mut self, text: &str) {
        // Also without a terminal: the user must learn that noise makes the figures worthless.
        self.line.note(&format!("cofferdam: {}", one_line(text)));
    }

    fn interrupted(&self) -> Option<Arc<AtomicBool>> {
        Some(self.interrupted.clone())
    }
}

fn latency_options(args: BenchLatencyArgs) -> latency::Options {
    latency::Options {
        quick: args.run.quick,
        output: args.run.output,
        rounds: args.pairs,
        experiments: args.experiment,
        seed: args.run.seed,
    }
}

fn penalty_options(args: PenaltyArgs) -> penalty::Options {
    let PenaltyArgs {
        run,
        runtime,
        cell,
        victim,
        interferer,
        direction,
        flows,
        path,
        payload,
        htb,
        victim_time,
        victim_share,
        limit,
        offenders,
        treatments,
        trace,
        no_ledger,
        segmentation_offload,
    } = args;
    let RunArgs {
        quick,
        output,
        pairs,
        host,
    } = run;
    let defaults = penalty::Options::default();
    penalty::Options {
        quick,
        output,
        pairs: pairs.unwrap_or(defaults.pairs),
        victim_seconds: victim_time.map(|time| time.as_secs_f64()),
        victim_cpu: host.victim_cpu,
        peer_cpu: host.peer_cpu,
        seed: host.seed,
        ledger: !no_ledger,
        segmentation_offload,
        made_by: match runtime {
            RuntimeKind::Podman => MadeBy::Podman,
            _ => MadeBy::Ourselves,
        },
        trace,
        treatments,
        filter: penalty::Filter {
            ids: cell,
            victims: victim,
            interferers: interferer,
            directions: direction,
            paths: path,
            flows,
            payloads_bytes: payload,
            htb_gbit_per_s: htb,
            victim_shares_pct: victim_share,
            limits: limit,
            offenders,
        },
    }
}

fn accounting_options(args: BenchAccountingArgs) -> accounting::Options {
    let RunArgs {
        quick,
        output,
        pairs,
        host,
    } = args.run;
    let HostArgs {
        victim_cpu,
        peer_cpu,
        seed,
    } = host;
    let defaults = accounting::Options::default();
    accounting::Options {
        quick,
        output,
        pairs: pairs.unwrap_or(defaults.pairs),
        period_seconds: None,
        victim_cpu,
        peer_cpu,
        seed,
    }
}

fn agent_options(args: BenchAgentArgs) -> agent::Options {
    agent::Options {
        quick: args.run.quick,
        output: args.run.output,
        experiments: args.experiment,
        containers: args.containers,
        rounds: args.rounds,
        period_seconds: None,
        seed: args.run.seed,
    }
}

fn dataplane_options(args: BenchDataplaneArgs) -> dataplane::Options {
    dataplane::Options {
        quick: args.run.quick,
        output: args.run.output,
        rounds: args.rounds,
        experiments: args.experiment,
        seed: args.run.seed,
    }
}

fn reservation_options(args: BenchReservationArgs) -> reservation::Options {
    let defaults = reservation::Options::default();
    reservation::Options {
        quick: args.run.quick,
        output: args.run.output,
        rounds: args.rounds.unwrap_or(defaults.rounds),
        seconds: None,
        cpus: args.cpus,
        threads: args.threads,
        seed: args.run.seed,
        targets: args.target,
        neighbours: args.neighbours,
        limits: args.limit,
        policies: args.policy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_bench::isolation::data::IsolationResult;
    use cofferdam_bench::run::{Kind, RunResult};
    use cofferdam_bench::rundir::About;

    #[test]
    fn a_run_that_measured_nothing_fails() {
        let place = tempfile::tempdir().unwrap();
        let about = About {
            kind: Kind::Isolation,
            quick: true,
            victim_cpu: 0,
            peer_cpu: 1,
            seed: 1,
            warnings: Vec::new(),
            is_busy: false,
        };
        let mut dir = RunDir::create(Some(&place.path().join("run")), &about).unwrap();
        let mut result = IsolationResult::default();
        let why = "no such runtime".to_owned();
        result.unavailable.insert("podman".to_owned(), why);
        dir.result(&RunResult::Isolation(result)).unwrap();
        dir.finish(false).unwrap();
        let run = RunData::load(dir.path()).unwrap();
        let failure = answer(&run).unwrap_err();
        assert_eq!(failure.code(), 1);
        let line = failure.line().unwrap_or_default();
        assert!(line.contains("nothing was measured"), "{line}");
    }
}
