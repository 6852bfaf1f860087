//! `cofferdam top`.

mod batch;
mod clock;
mod draw;
pub(crate) mod fold;
mod help;
mod history;
mod inspection;
mod inspector;
mod list;
mod live;
mod mouse;
pub(crate) mod processes;
mod reading;
mod replay;
pub(crate) mod screen;
mod state;

use crate::args::{Switch, TopArgs};
use crate::diagnosis::{self, Watch};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{Output, json_line};
use crate::progress::Progress;
use crate::selection::Selection;
use crate::source::{self, Either, Meter, Source};
use crate::{headline, table, units};
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_types::ScheduleInterval;
use std::io::{IsTerminal, stdout};
use std::time::Duration;

/// Prints the ledger: live, repeatedly, or once.
pub fn run(args: &TopArgs, interrupt: &Interrupt) -> Outcome {
    let once = (args.once || args.json) && !args.batch;
    if !once && !args.batch {
        check_terminal()?;
    }
    if let Some(time) = args.replay {
        return replay::run(args, time, interrupt);
    }
    let mut progress = Progress::new(true);
    progress.show("loading the accounting programs, or attaching to running ones");
    let source = source::start(&args.agent.path(), &args.containers.containers)?;
    let wanted = args.diagnosis == Switch::On;
    let watch = match &source {
        Either::Agent(_) => Watch::agent(wanted, &args.agent.path()),
        Either::Own(_) | Either::Shared(..) => Watch::start(wanted),
    };
    progress.clear();
    let begun = StartedMeasurement::new(args, source, watch)?;
    match (once, args.batch) {
        (true, _) => print_once(args, begun, &mut Output::stdout(), interrupt),
        (false, true) => batch::run(args, begun, &mut Output::stdout(), interrupt),
        (false, false) => live::run(args, begun, interrupt),
    }
}

/// Fails unless standard output is a terminal with a movable cursor.
fn check_terminal() -> Outcome {
    let why = match std::env::var_os("TERM") {
        _ if !stdout().is_terminal() => "top needs a terminal on standard output",
        Some(term) if term == "dumb" => "top cannot draw on this terminal (TERM=dumb)",
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!(
        "{why}: use 'top --once' or 'top --json' here, or 'top --batch' or 'accounting record' \
         for more than one interval"
    )))
}

/// Measurement that has started.
struct StartedMeasurement<S> {
    meter: Meter<S>,
    selection: Selection,
    watch: Watch,
}

impl<S: Source> StartedMeasurement<S> {
    fn new(args: &TopArgs, source: S, mut watch: Watch) -> Result<StartedMeasurement<S>, Failure> {
        let meter = Meter::new(source)?;
        let selection = Selection::new(&args.containers.containers, &meter.containers())?
            .with_host_cgroups(args.all);
        watch.cut(&meter.containers());
        Ok(StartedMeasurement {
            meter,
            selection,
            watch,
        })
    }

    /// Measures one interval; `None` if a signal ended it.
    fn measure(
        &mut self,
        length: Duration,
        interrupt: &Interrupt,
    ) -> Result<Option<MeasuredInterval>, Failure> {
        let Some(interval) = self.meter.next(length, interrupt)? else {
            return Ok(None);
        };
        let losses = self.watch.cut(&self.meter.containers());
        self.selection.check_alive(&interval)?;
        let mut shown = AccountingRecord::new(&self.selection.filter(&interval));
        shown.diagnosis = losses
            .as_ref()
            .map(|losses| diagnosis::record(losses, &self.selection));
        let mut all = AccountingRecord::new(&interval);
        let everything = Selection::default().with_host_cgroups(true);
        all.diagnosis = losses
            .as_ref()
            .map(|losses| diagnosis::record(losses, &everything));
        Ok(Some(MeasuredInterval {
            headline: headline::of(std::slice::from_ref(&all), &self.watch.agent_state()),
            all,
            shown,
            losses,
        }))
    }

    /// Tables of one interval.
    fn tables(&self, measured: &MeasuredInterval) -> String {
        let width = table::terminal_width();
        let mut text = table::ledger(&measured.headline, &measured.all, &measured.shown, width);
        if let Some(losses) = &measured.losses {
            text += &diagnosis::table(losses, &self.selection, width);
        }
        text
    }

    /// Reason for a missing diagnosis, as a line below the tables; empty with a diagnosis.
    fn without_diagnosis(&self) -> String {
        let why = self.watch.why_off();
        why.map_or_else(String::new, |why| format!("\nno diagnosis: {why}\n"))
    }
}

/// Measurement of one interval.
struct MeasuredInterval {
    /// Largest harm, as `explain` has it.
    headline: String,
    /// Record of the whole host.
    all: AccountingRecord,
    /// Record of the selected containers, with their losses.
    shown: AccountingRecord,
    losses: Option<ScheduleInterval>,
}

fn print_once<S: Source>(
    args: &TopArgs,
    mut begun: StartedMeasurement<S>,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Outcome {
    let mut progress = Progress::new(true);
    progress.show(&format!("measuring for {}", units::duration(args.interval)));
    let Some(measured) = begun.measure(args.interval, interrupt)? else {
        return Err(Failure::Interrupted(None));
    };
    progress.clear();
    if args.json {
        return output.write(&json_line(&measured.shown)?);
    }
    output.write(&(begun.tables(&measured) + &begun.without_diagnosis()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fake, quiet};
    use clap::Parser;

    fn printed(words: &str, fake: Fake) -> (Outcome, String) {
        let line = format!("cofferdam top --interval 1s {words}");
        let cli = crate::args::Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Some(crate::args::Command::Top(args)) = cli.command else {
            panic!("not top");
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let outcome = {
            let mut output = Output::open(Some(&path), false).unwrap();
            StartedMeasurement::new(&args, fake, Watch::off(None)).and_then(|begun| {
                match args.batch {
                    true => batch::run(&args, begun, &mut output, &quiet()),
                    false => print_once(&args, begun, &mut output, &quiet()),
                }
            })
        };
        (outcome, std::fs::read_to_string(path).unwrap_or_default())
    }

    #[test]
    fn once_is_a_table() {
        let (outcome, text) = printed("--once", Fake::seconds(1));
        assert!(outcome.is_ok(), "{outcome:?}");
        assert!(
            text.starts_with("web-3 takes 0.31 CPUs from db-1"),
            "{text}"
        );
        assert!(text.contains("\nweb-3 "), "{text}");
    }

    /// Promise 78.
    #[test]
    fn json_is_one_document() {
        let (outcome, text) = printed("--json", Fake::seconds(1));
        assert!(outcome.is_ok(), "{outcome:?}");
        let record: AccountingRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(record.containers.len(), 3);
    }

    #[test]
    fn a_filter_does_not_change_the_sentence() {
        let (outcome, text) = printed("--once --container cache", Fake::seconds(1));
        assert!(outcome.is_ok(), "{outcome:?}");
        assert!(text.starts_with("web-3 takes 0.31 CPUs"), "{text}");
        assert!(
            !text.contains("\nweb-3 ") && text.contains("\ncache "),
            "{text}"
        );
    }

    #[test]
    fn a_signal_prints_nothing() {
        let mut fake = Fake::seconds(1);
        fake.waits = 0;
        let (outcome, text) = printed("--once", fake);
        assert_eq!(outcome.unwrap_err().code(), 130);
        assert_eq!(text, "");
    }

    /// Promise 76.
    #[test]
    fn an_unknown_container_is_named() {
        let (outcome, _) = printed("--once --container wbe-3", Fake::seconds(1));
        let line = outcome.unwrap_err().line().unwrap();
        assert!(line.starts_with("no container 'wbe-3'"), "{line}");
    }

    /// Promise 13.
    #[test]
    fn a_batch_is_one_table_an_interval() {
        let (outcome, text) = printed("--batch --iterations 3", Fake::seconds(5));
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(text.matches("\nweb-3  ").count(), 3, "{text}");
        assert_eq!(text.matches("web-3 takes 0.31 CPUs").count(), 3, "{text}");
        assert!(
            text.lines()
                .next()
                .is_some_and(|l| l.ends_with("Z  1.00 s")),
            "{text}"
        );
        let (outcome, text) = printed("--batch --json --iterations 2", Fake::seconds(5));
        assert!(outcome.is_ok(), "{outcome:?}");
        let records: Vec<AccountingRecord> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(records.len(), 2);
        // Without a number the batch continues until a signal.
        let mut fake = Fake::seconds(9);
        fake.waits = 4;
        let (outcome, text) = printed("--batch", fake);
        assert_eq!(outcome.unwrap_err().code(), 130);
        assert_eq!(text.matches("\nweb-3  ").count(), 4, "{text}");
    }
}
