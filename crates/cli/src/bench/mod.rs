//! `cofferdam bench`, `cofferdam report`, `cofferdam demo`: a thin layer over `cofferdam_bench`.

mod compare;
mod results;

use crate::args::{BenchCommand, DemoArgs, ReportArgs, ReportCommand, WorkerArgs};
use crate::exit::{Failure, Outcome, one_line};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use cofferdam_bench::report::ReportError;
use cofferdam_bench::run::RunData;
use cofferdam_bench::run::command::Answer;
use cofferdam_bench::{BenchError, RunDir, demo, evidence, report};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs a benchmark, prints its results and renders its report.
pub fn run(command: BenchCommand, interrupt: &Interrupt) -> Outcome {
    let experiment = match command {
        BenchCommand::Experiment(experiment) => experiment,
        BenchCommand::Compare(args) => return compare::compare(&args),
    };
    let mut progress = TerminalProgress::new(interrupt);
    match experiment.run(&mut progress) {
        Ok(Answer::Text(text)) => Output::stdout().write(&text),
        Ok(Answer::Run(dir)) => finish(Ok(*dir), progress, interrupt),
        Err(error) => finish(Err(error), progress, interrupt),
    }
}

/// Runs the demo.
pub fn demo(args: DemoArgs, interrupt: &Interrupt) -> Outcome {
    let mut progress = TerminalProgress::new(interrupt);
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

/// Renders the report of a run again, or of several parts of one run.
pub fn report(args: &ReportArgs) -> Outcome {
    if let Some(ReportCommand::Fleet(args)) = &args.of {
        return crate::fleet::report(args);
    }
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

/// Runs one part of a benchmark in a process of its own.
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
    mut progress: TerminalProgress,
    interrupt: &Interrupt,
) -> Outcome {
    progress.line.clear();
    let dir = match outcome {
        Ok(dir) => dir.path().to_owned(),
        Err(error) => {
            // The data so far are worth a report too; the error stays the answer.
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

/// Any verdict is an answer; a run without a figure has none.
fn answer(run: &RunData) -> Outcome {
    match evidence::is_measured(run.result.as_ref()) {
        true => Ok(()),
        false => Err(Failure::failed(format!(
            "nothing was measured: the report in {} lists the failures and their reasons",
            run.dir.display()
        ))),
    }
}

pub(crate) fn failed_run(error: BenchError) -> Failure {
    match error {
        BenchError::Unsupported(text) => Failure::Unsupported(text),
        BenchError::Usage(text) => Failure::Usage(text),
        BenchError::Interrupted { .. } => Failure::Interrupted(Some(error.to_string())),
        // The text includes its cause: a chain would repeat it.
        other => Failure::failed(other.to_string()),
    }
}

fn failed_report(error: ReportError) -> Failure {
    Failure::failed(error.to_string())
}

/// Progress of a run on standard error.
struct TerminalProgress {
    line: Progress,
    interrupted: Arc<AtomicBool>,
}

impl TerminalProgress {
    fn new(interrupt: &Interrupt) -> TerminalProgress {
        TerminalProgress {
            line: Progress::new(true),
            interrupted: interrupt.flag(),
        }
    }
}

impl cofferdam_bench::Progress for TerminalProgress {
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

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_bench::isolation::data::IsolationResult;
    use cofferdam_bench::run::{Kind, RunResult};
    use cofferdam_bench::rundir::About;

    /// Promise 41.
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
