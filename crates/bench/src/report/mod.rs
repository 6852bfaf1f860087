//! Renders a run from its data alone: one HTML file that needs no network and no script.
//!
//! Rendering is a pure function of the run's data: the same directory gives the same bytes. All
//! text of the data is foreign (container names, kernel strings). It reaches the page only through
//! `maud` or the charts' SVG writer, which both escape it.

mod environment;
pub(crate) mod error;
pub mod finding;
pub mod format;
pub(crate) mod ledger;
mod page;
pub(crate) mod section;
mod verdicts;

pub(crate) use cofferdam_page::{chart, plot};
pub use error::ReportError;

use crate::penalty::report::raw_times;
use crate::run::RunData;
use crate::rundir::owner::Owner;
use maud::Markup;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of the report within its run directory.
pub const FILE_NAME: &str = "report.html";

/// Renders the run in `dir` to `report.html` within it, and returns that path. An older report is
/// replaced completely or not at all.
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
        // No half-written file stays. If removing it fails too, the first error is reported.
        let _kept = fs::remove_file(&temporary);
        ReportError::Write {
            path: path.clone(),
            source,
        }
    })?;
    Ok(path)
}

/// Report of `run` as one HTML document.
pub fn html(run: &RunData) -> Result<String, ReportError> {
    let kind = run.manifest.kind;
    let sections: Vec<Markup> = match &run.result {
        None => vec![raw_times(run)?],
        Some(result) if result.kind() == kind => result.outcome().sections(run)?,
        Some(result) => {
            return Err(ReportError::Mixed {
                dir: run.dir.clone(),
                manifest: kind.label(),
                result: result.kind().label(),
            });
        }
    };
    let lead = match &run.result {
        Some(result) => result.outcome().lead(run)?,
        None => None,
    };
    Ok(page::document(run, lead, &finding::of(run), &sections))
}

#[cfg(test)]
pub(crate) mod tests;
