//! `top --batch`: a table or a JSON document for each interval, for pipes and files.

use super::{Source, StartedMeasurement};
use crate::args::TopArgs;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{Output, json_line};

/// Prints until `--iterations`, a signal, or the end of the reader.
pub fn run<S: Source>(
    args: &TopArgs,
    mut begun: StartedMeasurement<S>,
    output: &mut Output,
    interrupt: &Interrupt,
) -> Outcome {
    let mut printed = 0;
    while args.iterations.is_none_or(|most| printed < most) {
        let Some(measured) = begun.measure(args.interval, interrupt)? else {
            return Err(Failure::Interrupted(None));
        };
        if args.json {
            output.write(&json_line(&measured.shown)?)?;
        } else {
            let all = &measured.all;
            let mut text = format!("{}  {:.2} s\n", all.time, all.interval_s);
            text += &begun.tables(&measured);
            if printed == 0 {
                text += &begun.without_diagnosis();
            }
            output.write(&(text + "\n"))?;
        }
        printed += 1;
    }
    Ok(())
}
