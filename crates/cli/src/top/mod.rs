//! `cofferdam top`.

mod clock;
mod draw;
pub(crate) mod fold;
mod help;
mod history;
mod replay;
pub(crate) mod screen;
mod state;

use crate::args::{Switch, TopArgs};
use crate::diagnosis::{self, Watch};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::selection::Selection;
use crate::source::{self, Either, Meter, Source};
use crate::{record, table, units};
use clock::Clock;
use cofferdam_records::accounting::AccountingRecord;
use screen::Screen;
use state::{Effect, State};
use std::io::{IsTerminal, stdout};
use std::time::Instant;

/// Shows the ledger: live, or once.
pub fn run(args: &TopArgs, interrupt: &Interrupt) -> Outcome {
    let once = args.once || args.json;
    if let (Some(time), true) = (args.replay, once) {
        return replay::run(args, time, interrupt);
    }
    if !once && !stdout().is_terminal() {
        return Err(Failure::Usage(
            "top needs a terminal on standard output: use 'top --once' or 'top --json' here, or \
             'accounting record' for more than one interval"
                .to_owned(),
        ));
    }
    if let Some(time) = args.replay {
        return replay::run(args, time, interrupt);
    }
    let mut progress = Progress::new(true);
    progress.show("loading the accounting programs, or attaching to running ones");
    let source = source::start(&args.agent.socket, &args.containers.containers)?;
    let wanted = args.diagnosis == Switch::On;
    let watch = match &source {
        Either::Agent(_) => Watch::agent(wanted, &args.agent.socket),
        Either::Own(_) | Either::Beside(..) => Watch::start(wanted),
    };
    progress.clear();
    if once {
        print_once(args, source, watch, &mut Output::stdout(), interrupt)
    } else {
        live(args, source, watch, interrupt)
    }
}

fn begin<S: Source>(args: &TopArgs, source: S) -> Result<(Meter<S>, Selection), Failure> {
    let meter = Meter::new(source)?;
    let selection =
        Selection::new(&args.containers.containers, &meter.containers())?.and_hosts(args.all);
    Ok((meter, selection))
}

fn print_once(
    args: &TopArgs,
    source: impl Source,
    mut watch: Watch,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Outcome {
    let (mut meter, selection) = begin(args, source)?;
    watch.cut(&meter.containers());
    let mut progress = Progress::new(true);
    progress.show(&format!("measuring for {}", units::duration(args.interval)));
    let Some(interval) = meter.next(args.interval, interrupt)? else {
        return Err(Failure::Interrupted(None));
    };
    let losses = watch.cut(&meter.containers());
    selection.check_alive(&interval)?;
    progress.clear();
    let shown = selection.filter(&interval);
    if args.json {
        let mut ledger = AccountingRecord::new(&shown);
        ledger.diagnosis = losses.map(|losses| diagnosis::record(&losses, &selection));
        return output.write(&record::json_line(&ledger)?);
    }
    let width = table::terminal_width();
    let mut text = table::ledger(
        &AccountingRecord::new(&interval),
        &AccountingRecord::new(&shown),
        width,
    );
    if let Some(losses) = losses {
        text += &diagnosis::table(&losses, &selection, width);
    }
    if let Some(why) = watch.why_off() {
        text += &format!("\nno diagnosis: {why}\n");
    }
    output.write(&text)
}

fn live(args: &TopArgs, source: impl Source, mut watch: Watch, interrupt: &Interrupt) -> Outcome {
    let (mut meter, selection) = begin(args, source)?;
    watch.cut(&meter.containers());
    let mut state = State::new(
        Clock::Live {
            interval: args.interval,
        },
        selection,
    );
    let mut screen = Screen::open(interrupt)?;
    let everything = Selection::default().and_hosts(true);
    let mut last = Instant::now();
    loop {
        screen.draw(|frame| draw::all(frame, &state))?;
        meter.follow(last + state.clock.interval(), screen.wake())?;
        if interrupt.raised() {
            return Err(Failure::Interrupted(None));
        }
        for key in screen.keys()? {
            match state.key(key) {
                Effect::Quit => return Ok(()),
                Effect::Interrupt => return Err(Failure::Interrupted(None)),
                Effect::Redraw | Effect::IntervalChanged => {}
            }
        }
        if last.elapsed() >= state.clock.interval() {
            last = Instant::now();
            let interval = meter.cut()?;
            let losses = watch.cut(&meter.containers());
            let mut record = AccountingRecord::new(&interval);
            record.diagnosis = losses.map(|losses| diagnosis::record(&losses, &everything));
            state.take(record, watch.why_off());
        }
    }
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
            print_once(&args, fake, Watch::off(None), &mut output, &quiet())
        };
        (outcome, std::fs::read_to_string(path).unwrap_or_default())
    }

    #[test]
    fn once_is_a_table() {
        let (outcome, text) = printed("--once", Fake::seconds(1));
        assert!(outcome.is_ok(), "{outcome:?}");
        assert!(text.starts_with("`web-3` caused 43% of CPU 0"), "{text}");
        assert!(text.contains("\nweb-3 "), "{text}");
    }

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
        assert!(text.starts_with("`web-3` caused 43%"), "{text}");
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

    #[test]
    fn an_unknown_container_is_named() {
        let (outcome, _) = printed("--once --container wbe-3", Fake::seconds(1));
        let line = outcome.unwrap_err().line().unwrap();
        assert!(line.starts_with("no container 'wbe-3'"), "{line}");
    }
}
