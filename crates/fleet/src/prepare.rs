//! Conversion of every ledger to Parquet: JSON Lines and histories become temporary files, so that
//! the queries read one format.

use crate::census::Ledger;
use crate::error::FleetError;
use crate::find::{self, Format, LedgerFile};
use crate::lines::{Line, Lines};
use cofferdam_columnar::{Reader, WriteError, Writer};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Length of the frames that are read from a history.
const MINUTE: Duration = Duration::from_secs(60);

/// Ledgers to read, and their incomplete files.
#[derive(Debug, Default)]
pub struct PreparedLedgers {
    /// All ledgers as Parquet.
    pub ledgers: Vec<Ledger>,
    /// Files whose last line is cut off.
    pub cut_off: Vec<PathBuf>,
}

/// Opens each of `found`, and converts it in `temporary` unless it is Parquet. `host` is the host
/// of all of them; without it, each file names its own.
///
/// # Errors
/// A file cannot be read or written, or `host` is given and the files name several hosts.
pub fn prepare(
    found: &[LedgerFile],
    host: Option<&str>,
    temporary: &Path,
) -> Result<PreparedLedgers, FleetError> {
    let mut prepared = PreparedLedgers::default();
    let mut named_host: Option<String> = None;
    for (number, file) in found.iter().enumerate() {
        let own = match file.format {
            Format::Columns => Reader::open(&file.path)?.host().to_owned(),
            Format::Lines | Format::Gzip | Format::History => find::host_of(&file.path),
        };
        // Two files may have different names and belong to one host. Two Parquet files that name
        // hosts may not.
        if host.is_some() && file.format == Format::Columns {
            match &named_host {
                Some(other) if *other != own => return Err(FleetError::Hosts(other.clone(), own)),
                _ => named_host = Some(own.clone()),
            }
        }
        let host = host.map_or(own, str::to_owned);
        let path = match file.format {
            Format::Columns => file.path.clone(),
            Format::History => {
                let path = temporary.join(format!("history-{number}.parquet"));
                history(file, &host, &path)?;
                path
            }
            Format::Lines | Format::Gzip => {
                let path = temporary.join(format!("ledger-{number}.parquet"));
                if convert(file, &host, &path)? {
                    prepared.cut_off.push(file.path.clone());
                }
                path
            }
        };
        prepared.ledgers.push(Ledger {
            named: file.path.clone(),
            path,
            host,
        });
    }
    Ok(prepared)
}

/// Writes the records of lines as columns. Returns whether the last one is cut off.
fn convert(file: &LedgerFile, host: &str, to: &Path) -> Result<bool, FleetError> {
    let mut lines = Lines::open(file)?;
    let mut writer = Writer::create(to, host)?;
    let mut is_cut_off = false;
    while let Some(line) = lines.next() {
        match line? {
            Line::Record(record) => writer.write(&record).map_err(|error| match error {
                WriteError::Row(row) => lines.wrong(row.to_string()),
                other => other.into(),
            })?,
            Line::CutOff => is_cut_off = true,
        }
    }
    match writer.finish()? {
        0 => Err(FleetError::Empty(file.path.clone())),
        _ => Ok(is_cut_off),
    }
}

/// Writes the frames of an agent's history as columns: minutes, if it has them.
fn history(file: &LedgerFile, host: &str, to: &Path) -> Result<(), FleetError> {
    let unreadable = |e: &dyn std::error::Error| FleetError::History {
        path: file.path.clone(),
        reason: e.to_string(),
    };
    let mut reader = cofferdam_history::Reader::open(&file.path).map_err(|e| unreadable(&e))?;
    let mut writer = Writer::create(to, host)?;
    let extent = reader.extent().map_err(|e| unreadable(&e))?;
    let (from, end) = extent.ok_or_else(|| FleetError::Empty(file.path.clone()))?;
    let mut failed = None;
    let take = |frame: cofferdam_history::Frame| match writer.write(&frame.record) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    };
    (reader.each(from, end, MINUTE, take)).map_err(|e| unreadable(&e))?;
    match failed {
        Some(error) => Err(error.into()),
        None => writer.finish().map(drop).map_err(FleetError::from),
    }
}
