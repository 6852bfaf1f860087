//! `top --batch`: a table or a JSON document an interval, for pipes and files.

use super::{Begun, Source};
use crate::args::TopArgs;
use crate::diagnosis;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::{record, table};
use cofferdam_records::accounting::AccountingRecord;

/// Prints until `--iterations`, a signal, or the reader's end.
pub fn run<S: Source>(
    args: &TopArgs,
    begun: Begun<S>,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Outcome {
    let Begun {
        mut meter,
        selection,
        mut watch,
    } = begun;
    let mut printed = 0;
    while args.iterations.is_none_or(|most| printed < most) {
        let Some(interval) = meter.next(args.interval, interrupt)? else {
            return Err(Failure::Interrupted(None));
        };
        let losses = watch.cut(&meter.containers());
        selection.check_alive(&interval)?;
        let mut shown = AccountingRecord::new(&selection.filter(&interval));
        if args.json {
            shown.diagnosis = losses.map(|losses| diagnosis::record(&losses, &selection));
            output.write(&record::json_line(&shown)?)?;
        } else {
            let all = AccountingRecord::new(&interval);
            let width = table::terminal_width();
            let mut text = format!("{}  {:.2} s\n", all.time, all.interval_s);
            text += &table::ledger(&all, &shown, width);
            if let Some(losses) = losses {
                text += &diagnosis::table(&losses, &selection, width);
            }
            if let Some(why) = watch.why_off().filter(|_| printed == 0) {
                text += &format!("\nno diagnosis: {why}\n");
            }
            output.write(&(text + "\n"))?;
        }
        printed += 1;
    }
    Ok(())
}
