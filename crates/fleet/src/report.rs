//! Report: from ledgers to a page and its results.

use crate::census::{self, Census};
use crate::engine::Engine;
use crate::error::FleetError;
use crate::figures::{Figures, Results};
use crate::prepare::prepare;
use crate::{find, page, stages};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// File name of the page.
pub const PAGE: &str = "fleet.html";

/// Input and output of a report.
#[derive(Clone, Debug)]
pub struct Request {
    /// Ledgers: files and folders.
    pub ledgers: Vec<PathBuf>,
    /// Host of all ledgers, if it is given.
    pub host: Option<String>,
    /// Folder of the report.
    pub output: PathBuf,
    /// Whether an existing report is replaced.
    pub force: bool,
    /// Memory limit.
    pub memory_bytes: u64,
    /// Threads of the query engine.
    pub threads: usize,
    /// Folder of temporary files.
    pub temporary: PathBuf,
}

/// Finished report.
#[derive(Debug)]
pub struct Report {
    /// Path of the page.
    pub page: PathBuf,
    /// Figures of the page.
    pub figures: Figures,
    /// Census of the ledgers.
    pub census: Census,
    /// Ledgers whose last line is cut off.
    pub cut_off: Vec<PathBuf>,
    /// Duration, seconds.
    pub took_s: f64,
}

/// Makes the report. Calls `progress` at each step.
///
/// # Errors
/// A ledger cannot be used, or the output cannot be written. An output folder that did not exist is
/// then removed.
pub fn make(request: &Request, progress: &dyn Fn(&str)) -> Result<Report, FleetError> {
    let begin = Instant::now();
    let files = [
        PAGE,
        stages::CONTAINERS,
        stages::FLOWS,
        stages::TENANTS,
        stages::HOSTS,
        stages::HOURS,
    ];
    if !request.force && files.iter().any(|name| request.output.join(name).exists()) {
        return Err(FleetError::Exists(request.output.clone()));
    }
    progress("looking for ledgers");
    let found = find::find(&request.ledgers)?;
    let write = |path: &Path| {
        let path = path.to_owned();
        move |source| FleetError::Write { path, source }
    };
    fs::create_dir_all(&request.output).map_err(write(&request.output))?;
    // Stage next to the results, so that a rename completes the work. The folder is removed on
    // every way out.
    let staging = tempfile::Builder::new()
        .prefix(".fleet-")
        .tempdir_in(&request.output)
        .map_err(write(&request.output))?;
    let temporary = tempfile::Builder::new()
        .prefix("cofferdam-fleet-")
        .tempdir_in(&request.temporary)
        .map_err(write(&request.temporary))?;

    progress(&format!("reading {} ledgers", found.len()));
    let prepared = prepare(&found, request.host.as_deref(), temporary.path())?;
    progress("looking for gaps, and for what would count twice");
    let census = census::take(prepared.ledgers)?;
    let engine = Engine::new(request.memory_bytes, request.threads, temporary.path())?;
    let to = |name: &str| staging.path().join(name);
    progress("adding up containers");
    let summed = temporary.path().join("summed.parquet");
    let summed = stages::containers_summed(&engine, &census, request.threads, &summed)?;
    progress("adding up flows");
    let flows = stages::flows(&engine, &census, request.threads, &to(stages::FLOWS))?;
    progress("adding up hours");
    let hours = stages::hours(&engine, &census, request.threads, &to(stages::HOURS))?;
    progress("writing the bill");
    let containers = stages::containers(&engine, summed, &flows, &to(stages::CONTAINERS))?;
    let results = Results {
        tenants: stages::tenants(&engine, &containers, &to(stages::TENANTS))?,
        hosts: stages::hosts(&engine, &census, &containers, &to(stages::HOSTS))?,
        containers,
        flows,
        hours,
    };
    let figures = Figures::take(&engine, &results, &census)?;
    let html = page::html(&figures, &census, &prepared.cut_off)?;
    let path = to(PAGE);
    fs::File::create(&path)
        .and_then(|mut file| file.write_all(html.as_bytes()))
        .map_err(write(&path))?;
    // Rename the page last: if it exists, the rest does too.
    for name in files.iter().rev() {
        let path = request.output.join(name);
        fs::rename(to(name), &path).map_err(write(&path))?;
    }
    Ok(Report {
        page: request.output.join(PAGE),
        figures,
        census,
        cut_off: prepared.cut_off,
        took_s: begin.elapsed().as_secs_f64(),
    })
}
