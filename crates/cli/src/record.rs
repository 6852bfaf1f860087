//! `cofferdam accounting record`.

use crate::args::{RecordArgs, RecordFormat};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{Output, json_line};
use crate::progress::Progress;
use crate::selection::Selection;
use crate::source::{self, Meter, Source};
use crate::{headline, table, units};
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::explain::Agent;
use cofferdam_types::Interval;
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

/// Records the ledger of this host.
pub fn run(args: &RecordArgs, interrupt: &Interrupt) -> Outcome {
    // The output is opened first: a mistyped path is reported at once, not after ten minutes.
    let mut output = Output::open(args.output.as_deref(), args.force)?;
    record(
        args,
        source::start(&args.agent.path(), &args.containers.containers)?,
        &mut output,
        interrupt,
    )
}

fn record(
    args: &RecordArgs,
    source: impl Source,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Outcome {
    let mut meter = Meter::new(source)?;
    let first = meter.last().clone();
    let selection = Selection::new(&args.containers.containers, &meter.containers())?
        .with_host_cgroups(args.all);
    let writer = Writer {
        selection,
        format: args.format,
        width: width(args),
    };
    let mut progress = Progress::new(args.output.is_some() || !stdout().is_terminal());
    let begin = Instant::now();
    let mut left = args.duration;
    let mut intervals = 0_u32;
    while !left.is_zero() {
        let length = args.interval.min(left);
        progress.show(&format!(
            "recording: {} of {}",
            units::duration(Duration::from_secs(begin.elapsed().as_secs())),
            units::duration(args.duration)
        ));
        let Some(interval) = meter.next(length, interrupt)? else {
            // The part since the last line is data too.
            writer.interval(&meter.cut()?, output)?;
            return Err(Failure::Interrupted(None));
        };
        writer.selection.check_alive(&interval)?;
        progress.clear();
        writer.interval(&interval, output)?;
        left -= length;
        intervals += 1;
    }
    if intervals > 1 && args.format == RecordFormat::Table {
        writer.total(&meter.last().since(&first), output)?;
    }
    Ok(())
}

fn width(args: &RecordArgs) -> Option<u16> {
    if args.output.is_some() {
        None
    } else {
        table::terminal_width()
    }
}

struct Writer {
    selection: Selection,
    format: RecordFormat,
    width: Option<u16>,
}

impl Writer {
    fn interval(&self, all: &Interval, output: &mut Output) -> Outcome {
        let shown = self.selection.filter(all);
        match self.format {
            RecordFormat::Jsonl => output.write(&json_line(&AccountingRecord::new(&shown))?),
            RecordFormat::Table => self.block("interval", all, &shown, output),
        }
    }

    fn total(&self, all: &Interval, output: &mut Output) -> Outcome {
        self.block("total", all, &self.selection.filter(all), output)
    }

    fn block(&self, word: &str, all: &Interval, shown: &Interval, output: &mut Output) -> Outcome {
        let heading = format!(
            "{}  {word} {:.2} s",
            cofferdam_records::time(all.time),
            all.length.as_secs_f64()
        );
        let (all, shown) = (AccountingRecord::new(all), AccountingRecord::new(shown));
        let headline = headline::of(std::slice::from_ref(&all), &Agent::NotPermitted);
        let text = table::ledger(&headline, &all, &shown, self.width);
        output.write(&format!("{heading}\n{text}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fake, quiet};
    use clap::Parser;
    use cofferdam_accounting::ReadError;
    use std::path::Path;

    fn args(words: &str) -> RecordArgs {
        let line = format!("cofferdam accounting record {words}");
        let cli = crate::args::Cli::try_parse_from(line.split_whitespace()).unwrap();
        match cli.command {
            Some(crate::args::Command::Accounting(crate::args::AccountingCommand::Record(a))) => a,
            other => panic!("{other:?}"),
        }
    }

    fn recorded(words: &str, fake: Fake) -> (Outcome, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let outcome = {
            let mut output = Output::open(Some(&path), false).unwrap();
            record(&args(words), fake, &mut output, &quiet())
        };
        (outcome, read(&path))
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Promise 78.
    #[test]
    fn jsonl_has_one_object_an_interval() {
        let (outcome, text) = recorded("--duration 3s --format jsonl", Fake::seconds(3));
        assert!(outcome.is_ok(), "{outcome:?}");
        let records: Vec<AccountingRecord> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(records.len(), 3);
        for record in &records {
            assert_eq!(record.schema, cofferdam_records::accounting::ACCOUNTING);
            assert_eq!(record.interval_s, 1.0);
            assert_eq!(record.containers[0].name, "web-3");
            assert_eq!(record.containers[0].owed_ns, 330_000_000);
            assert_eq!(record.unattributed_ns["timer_softirq"], 36_000_000);
        }
        assert_eq!(records[2].time, "2027-01-15T08:00:03.000Z");
    }

    #[test]
    fn a_table_ends_with_the_total() {
        let (outcome, text) = recorded("--duration 2s", Fake::seconds(2));
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(text.matches("  interval 1.00 s\n").count(), 2, "{text}");
        assert_eq!(text.matches("  total 2.00 s\n").count(), 1, "{text}");
    }

    #[test]
    fn a_last_interval_may_be_shorter() {
        let fake = Fake::seconds(2);
        let (outcome, text) = recorded("--duration 1500ms --format jsonl", fake);
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(text.lines().count(), 2);
    }

    /// Promise 67.
    #[test]
    fn a_signal_does_not_lose_the_last_part() {
        let mut fake = Fake::seconds(5);
        fake.waits = 1;
        let (outcome, text) = recorded("--duration 5s --format jsonl", fake);
        assert_eq!(outcome.unwrap_err().code(), 130);
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn a_failed_reading_ends_with_its_reason() {
        let mut fake = Fake::seconds(1);
        fake.readings
            .push_back(Err(ReadError("map gone".to_owned())));
        let (outcome, text) = recorded("--duration 3s --format jsonl", fake);
        assert_eq!(
            outcome.unwrap_err().line().as_deref(),
            Some("the accounting could not be read: map gone")
        );
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn an_unknown_container_leaves_no_file() {
        let (outcome, text) = recorded("--container nobody", Fake::seconds(1));
        assert_eq!(outcome.unwrap_err().code(), 1);
        assert_eq!(text, "");
    }

    #[test]
    fn only_the_selected_containers_are_written() {
        let (outcome, text) = recorded(
            "--container db-* --duration 1s --format jsonl",
            Fake::seconds(1),
        );
        assert!(outcome.is_ok(), "{outcome:?}");
        let record: AccountingRecord = serde_json::from_str(&text).unwrap();
        let names: Vec<_> = record.containers.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["db-1"]);
        assert_eq!(record.cpus.len(), 2);
    }
}
