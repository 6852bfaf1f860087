//! `cofferdam export`: writes a part of the history to a file.

mod csv;
mod target;

use crate::args::{ExportArgs, ExportFormat};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::json_line;
use crate::progress::Progress;
use crate::selection::Selection;
use crate::{history_file, units};
use cofferdam_records::accounting::AccountingRecord;
use std::ops::ControlFlow;
use target::Target;

/// Writes the part that `args` select.
pub fn run(args: &ExportArgs, interrupt: &Interrupt) -> Outcome {
    if args.from >= args.to {
        return Err(Failure::Usage(format!(
            "--from ({}) is not before --to ({}): give an earlier one",
            cofferdam_records::time(args.from),
            cofferdam_records::time(args.to),
        )));
    }
    let mut reader = history_file::open(&args.source)?;
    let selection = selection(args)?;
    let mut target = Target::open(args)?;
    let mut progress = Progress::new(args.output.is_some());
    let (mut frames, mut failure, mut found) = (0_u64, None, selection.has_no_selectors());
    let read = reader.each(args.from, args.to, args.resolution, |frame| {
        if interrupt.raised() {
            failure = Some(Failure::Interrupted(None));
            return ControlFlow::Break(());
        }
        let record = shown(frame.record, &selection);
        found |= !record.containers.is_empty();
        if let Err(why) = target.write(&record) {
            failure = Some(why);
            return ControlFlow::Break(());
        }
        frames += 1;
        progress.show(&format!("{}: {frames} intervals", record.time));
        ControlFlow::Continue(())
    });
    progress.clear();
    read.map_err(|e| Failure::failed(e.to_string()))?;
    history_file::report_damage(&reader);
    if let Some(failure) = failure {
        return Err(failure);
    }
    if frames == 0 {
        return Err(Failure::failed(nothing(&reader)));
    }
    if !found {
        let names: Vec<_> = args
            .containers
            .containers
            .iter()
            .map(ToString::to_string)
            .collect();
        return Err(Failure::failed(format!(
            "no container '{}' is in that part of the history",
            names.join("', '")
        )));
    }
    target.finish()?;
    if let Some(path) = &args.output {
        let count = units::count(frames as f64);
        eprintln!("{count} intervals in {}", path.display());
    }
    Ok(())
}

/// Selection for the past, where selectors of processes have no meaning.
fn selection(args: &ExportArgs) -> Result<Selection, Failure> {
    Ok(Selection::for_history(&args.containers.containers)?.with_host_cgroups(args.all))
}

/// `record` with only the selected containers.
pub fn shown(mut record: AccountingRecord, selection: &Selection) -> AccountingRecord {
    let selected: Vec<_> = selection.of_record(&record).cloned().collect();
    if let Some(diagnosis) = &mut record.diagnosis {
        let is_selected = |id| selected.iter().any(|c| c.cgroup_id == id);
        diagnosis.containers.retain(|c| is_selected(c.cgroup_id));
    }
    record.containers = selected;
    record
}

/// Sentence that explains an empty export.
pub fn nothing(reader: &cofferdam_history::Reader) -> String {
    let path = reader.path().display();
    match reader.extent() {
        Ok(Some((from, to))) => format!(
            "nothing was recorded then: {path} has {} to {}, maybe with gaps",
            cofferdam_records::time(from),
            cofferdam_records::time(to)
        ),
        _ => format!("nothing was recorded: {path} is empty"),
    }
}

/// Line of `accounting record` for `record`.
fn line(record: &AccountingRecord) -> Result<String, Failure> {
    json_line(record)
}

impl ExportFormat {
    fn is_text(self) -> bool {
        self != ExportFormat::Parquet
    }
}
