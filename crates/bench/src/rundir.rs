//! Run directory while a run writes it.
//!
//! Documents are written to a temporary file and renamed. Lines are appended and flushed one by
//! one, so that an interrupted run keeps every finished sample.

use crate::build_commit;
use crate::data::{LedgerRecord, SCHEMA};
use crate::error::BenchError;
use crate::evidence;
use crate::host_facts;
use crate::isolation::data::EXPERIMENT;
use crate::penalty::plan::PLAN;
use crate::run::samples::{LEDGERS, SAMPLES};
use crate::run::{Kind, Manifest, ResultFile, RunResult};
use nix::fcntl::{Flock, FlockArg};
use owner::Owner;
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub(crate) mod owner;

/// Name of the manifest's file within a run directory.
pub(crate) const MANIFEST: &str = "manifest.json";

/// A run directory. Its data is read back with [`crate::run::RunData::load`].
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    manifest: Manifest,
    /// Locked while it is open: two runs in one directory would mix their samples.
    samples: Flock<File>,
    ledgers: File,
    made: bool,
    owner: Option<Owner>,
    has_samples: bool,
}

/// Facts of a run for the manifest, besides those of the host.
#[derive(Clone, Debug)]
pub struct About {
    /// Kind of experiment.
    pub kind: Kind,
    /// Whether the run uses the short grid.
    pub quick: bool,
    /// CPU of victim, competitor and softirq.
    pub victim_cpu: u32,
    /// CPU of the peer.
    pub peer_cpu: u32,
    /// Seed of orders, corpora and bootstrap.
    pub seed: u64,
    /// Warnings about noise.
    pub warnings: Vec<String>,
    /// Whether the noise is so high that nothing can be judged.
    pub is_busy: bool,
}

impl RunDir {
    /// Makes `output`, or `runs/<UTC time>-<kind>` below the working directory, and writes the
    /// manifest.
    ///
    /// # Errors
    /// The directory is not empty, or cannot be written.
    pub fn create(output: Option<&Path>, about: &About) -> Result<RunDir, BenchError> {
        let started = now();
        let path = match output {
            Some(path) => path.to_owned(),
            None => {
                let stamp = started
                    .replace([':', '-'], "")
                    .replace('T', "-")
                    .replace('Z', "");
                PathBuf::from("runs").join(format!("{stamp}-{}", about.kind.label()))
            }
        };
        let output_error = |source| BenchError::Output {
            path: path.clone(),
            source,
        };
        let is_new = !path.exists();
        let owner = Owner::of(&path);
        match owner {
            Some(owner) => owner.make_directories(&path).map_err(output_error)?,
            None => fs::create_dir_all(&path).map_err(output_error)?,
        }
        if fs::read_dir(&path).map_err(output_error)?.next().is_some() {
            return Err(output_error(io::Error::new(
                io::ErrorKind::DirectoryNotEmpty,
                "the directory is not empty",
            )));
        }
        let manifest = Manifest {
            schema: SCHEMA,
            kind: about.kind,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: build_commit::commit(),
            command: std::env::args().collect(),
            quick: about.quick,
            started,
            finished: None,
            interrupted: false,
            kernel: host_facts::kernel(),
            cpu_model: host_facts::cpu_model(),
            cpus: host_facts::online_cpus().len() as u32,
            mitigations: host_facts::mitigations(),
            cgroup_layout: host_facts::cgroup_layout(),
            victim_cpu: about.victim_cpu,
            peer_cpu: about.peer_cpu,
            seed: about.seed,
            warnings: about.warnings.clone(),
            is_busy: about.is_busy,
        };
        let samples =
            lock(append(&path.join(SAMPLES), owner)?).map_err(|source| BenchError::Output {
                path: path.clone(),
                source,
            })?;
        let dir = RunDir {
            made: is_new,
            owner,
            has_samples: false,
            samples,
            ledgers: append(&path.join(LEDGERS), owner)?,
            path,
            manifest,
        };
        dir.document(MANIFEST, &dir.manifest)?;
        Ok(dir)
    }

    /// Reopens the directory of an earlier run of the same kind, to resume it. Cuts off a torn last
    /// line of its samples.
    pub fn reopen(path: &Path, kind: Kind) -> Result<RunDir, BenchError> {
        let output_error = |source| BenchError::Output {
            path: path.to_owned(),
            source,
        };
        let text = fs::read_to_string(path.join(MANIFEST)).map_err(output_error)?;
        let unusable = |reason: String| BenchError::Usage(format!("{}: {reason}", path.display()));
        let manifest: Manifest = serde_json::from_str(&text)
            .map_err(|e| unusable(format!("manifest.json is damaged or newer ({e})")))?;
        if manifest.schema > SCHEMA {
            return Err(unusable(format!(
                "it has schema {}, this build reads up to {SCHEMA}: use a newer cofferdam",
                manifest.schema
            )));
        }
        if manifest.kind != kind {
            return Err(unusable(format!(
                "it holds a {} run: give another directory with --output",
                manifest.kind.label()
            )));
        }
        let owner = Owner::of(path);
        let samples = lock(append(&path.join(SAMPLES), owner)?)
            .map_err(|_| unusable("another run is writing here: wait for its end".to_owned()))?;
        for name in [SAMPLES, LEDGERS] {
            cut_torn_line(&path.join(name)).map_err(output_error)?;
        }
        Ok(RunDir {
            made: false,
            owner,
            has_samples: true,
            samples,
            ledgers: append(&path.join(LEDGERS), owner)?,
            path: path.to_owned(),
            manifest,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The manifest as written.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Appends a sample.
    pub fn sample<T: Serialize>(&mut self, sample: &T) -> Result<(), BenchError> {
        let path = self.path.join(SAMPLES);
        self.has_samples = true;
        line(&mut self.samples, &path, sample)
    }

    /// Appends a sample to another file, for a second experiment of the same run.
    pub fn sample_in<T: Serialize>(&mut self, file: &str, sample: &T) -> Result<(), BenchError> {
        let path = self.path.join(file);
        line(&mut append(&path, self.owner)?, &path, sample)
    }

    /// Appends a ledger.
    pub fn ledger(&mut self, record: &LedgerRecord) -> Result<(), BenchError> {
        let path = self.path.join(LEDGERS);
        line(&mut self.ledgers, &path, record)
    }

    /// Writes the result so far.
    pub fn result(&self, result: &RunResult) -> Result<(), BenchError> {
        let file = ResultFile {
            schema: SCHEMA,
            goals: evidence::goals(result, self.manifest.is_busy),
            result: result.clone(),
        };
        self.document("result.json", &file)
    }

    /// Adds a warning to the manifest.
    pub fn warn(&mut self, text: &str) -> Result<(), BenchError> {
        self.manifest.warnings.push(text.to_owned());
        self.document(MANIFEST, &self.manifest)
    }

    /// Whether a sample or period was written.
    pub(crate) fn has_samples(&self) -> bool {
        self.has_samples
    }

    /// Removes the files if there is no sample: a run that failed at its start leaves nothing
    /// behind. A file that cannot be removed does no harm.
    pub(crate) fn discard_if_empty(&self) {
        if self.has_samples {
            return;
        }
        for name in [MANIFEST, SAMPLES, LEDGERS, "result.json", EXPERIMENT, PLAN] {
            let _kept = fs::remove_file(self.path.join(name));
        }
        if self.made {
            let _kept = fs::remove_dir(&self.path);
        }
    }

    /// Records the end in the manifest.
    pub fn finish(&mut self, interrupted: bool) -> Result<(), BenchError> {
        self.manifest.finished = Some(now());
        self.manifest.interrupted = interrupted;
        self.document(MANIFEST, &self.manifest)
    }

    /// Writes a further document into the directory.
    pub(crate) fn document<T: Serialize>(&self, name: &str, value: &T) -> Result<(), BenchError> {
        let path = self.path.join(name);
        write_document(&path, value, self.owner)
            .map_err(|source| BenchError::Output { path, source })
    }
}

/// Current time, RFC 3339 in UTC, whole seconds.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

fn lock(file: File) -> io::Result<Flock<File>> {
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno.into())
}

/// Cuts the bytes after the last newline: a line that was being written when its run died.
fn cut_torn_line(path: &Path) -> io::Result<()> {
    let bytes = fs::read(path)?;
    let whole = bytes
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |end| end + 1);
    if whole < bytes.len() {
        OpenOptions::new()
            .write(true)
            .open(path)?
            .set_len(whole as u64)?;
    }
    Ok(())
}

fn append(path: &Path, owner: Option<Owner>) -> Result<File, BenchError> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|file| with_owner(file, owner))
        .map_err(|source| BenchError::Output {
            path: path.to_owned(),
            source,
        })
}

/// Gives the file to its owner and returns it.
fn with_owner(file: File, owner: Option<Owner>) -> io::Result<File> {
    owner.map_or(Ok(()), |owner| owner.take(&file))?;
    Ok(file)
}

/// Writes the whole line at once, so that a line is complete or absent. A full disk may leave a
/// torn last line without a newline; the reader leaves it out.
fn line<T: Serialize>(file: &mut File, path: &Path, value: &T) -> Result<(), BenchError> {
    let written = serde_json::to_vec(value)
        .map_err(io::Error::from)
        .and_then(|mut bytes| {
            bytes.push(b'\n');
            file.write_all(&bytes)?;
            file.flush()
        });
    written.map_err(|source| BenchError::Output {
        path: path.to_owned(),
        source,
    })
}

fn write_document<T: Serialize>(path: &Path, value: &T, owner: Option<Owner>) -> io::Result<()> {
    let temporary = path.with_extension("json.tmp");
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    let written = File::create(&temporary)
        .and_then(|file| with_owner(file, owner))
        .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // No half-written file stays. If removing it fails too, the first error is reported.
        let _kept = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests;
