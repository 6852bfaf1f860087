//! Renders a run from its data alone: one HTML file that needs no network and no script.
//!
//! Rendering is a pure function of the run's data: the same directory gives the same bytes.
//! All text of the data is foreign (container names, kernel strings) and reaches the page
//! only through `maud`, which escapes it, or through the charts' SVG writer, which does too.

mod accounting;
mod agent;
mod chart;
pub mod dataplane;
mod environment;
pub mod finding;
pub mod format;
pub mod isolation;
mod latency;
mod ledger;
mod page;
mod penalty;
mod plot;
pub mod reservation;
mod section;
mod verdicts;

use crate::data::{DataError, Kind, RunData, RunResult};
use crate::rundir::owner::Owner;
use maud::Markup;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the report within its run directory.
pub const FILE_NAME: &str = "report.html";

/// A report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The run's data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The documents of the directory contradict each other.
    #[error(
        "{dir}: manifest.json is of a {manifest} run, result.json of a {result} run: the files come from different runs; render another directory"
    )]
    Mixed {
        /// The directory.
        dir: PathBuf,
        /// Kind in the manifest.
        manifest: &'static str,
        /// Kind in the result.
        result: &'static str,
    },
    /// A chart could not be drawn.
    #[error("a chart could not be drawn: {0}: the run's data is kept; please report this")]
    Chart(String),
    /// The file could not be written.
    #[error("cannot write {path}: {source}: the directory must be writable and have space left")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Renders the run in `dir` to `report.html` within it; returns that path. An older report is
/// replaced as a whole or not at all.
pub fn render(dir: &Path) -> Result<PathBuf, ReportError> {
    let run = RunData::load(dir)?;
    let html = html(&run)?;
    let path = dir.join(FILE_NAME);
    let temporary = dir.join("report.html.tmp");
    let written = File::create(&temporary)
        .and_then(|mut file| {
            if let Some(owner) = Owner::of(&path) {
                owner.take(&file)?;
            }
            file.write_all(html.as_bytes())
        })
        .and_then(|()| fs::rename(&temporary, &path));
    written.map_err(|source| {
        // Nothing half-written stays; when even that fails, the first error is the one to tell.
        let _kept = fs::remove_file(&temporary);
        ReportError::Write {
            path: path.clone(),
            source,
        }
    })?;
    Ok(path)
}

/// The report of `run` as one HTML document.
pub fn html(run: &RunData) -> Result<String, ReportError> {
    let kind = run.manifest.kind;
    let sections: Vec<Markup> = match &run.result {
        None => vec![penalty::raw_times(run)?],
        Some(RunResult::Penalty(result)) if kind == Kind::Penalty => {
            penalty::sections(run, &result.cells, &result.failed)?
        }
        Some(RunResult::Demo(result)) if kind == Kind::Demo => {
            let cells = std::slice::from_ref(&result.cell);
            let mut sections = penalty::sections(run, cells, &Default::default())?;
            if let Some(cell) = &result.reservation {
                sections.push(reservation::one(cell)?);
            }
            sections
        }
        Some(RunResult::Accounting(result)) if kind == Kind::Accounting => {
            accounting::sections(result)?
        }
        Some(RunResult::Reservation(result)) if kind == Kind::Reservation => {
            reservation::sections(result)?
        }
        Some(RunResult::Dataplane(result)) if kind == Kind::Dataplane => {
            dataplane::sections(result)?
        }
        Some(RunResult::Isolation(result)) if kind == Kind::Isolation => {
            isolation::sections(run, result)?
        }
        Some(RunResult::Latency(result)) if kind == Kind::Latency => latency::sections(result)?,
        Some(RunResult::Agent(result)) if kind == Kind::Agent => agent::sections(result)?,
        Some(other) => {
            let result = match other {
                RunResult::Penalty(_) => Kind::Penalty,
                RunResult::Accounting(_) => Kind::Accounting,
                RunResult::Latency(_) => Kind::Latency,
                RunResult::Demo(_) => Kind::Demo,
                RunResult::Reservation(_) => Kind::Reservation,
                RunResult::Dataplane(_) => Kind::Dataplane,
                RunResult::Isolation(_) => Kind::Isolation,
                RunResult::Agent(_) => Kind::Agent,
            };
            return Err(ReportError::Mixed {
                dir: run.dir.clone(),
                manifest: kind.label(),
                result: result.label(),
            });
        }
    };
    Ok(page::document(run, &finding::of(run), &sections))
}

#[cfg(test)]
mod tests;
