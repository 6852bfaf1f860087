//! Reading a run directory back.

use super::error::DataError;
use super::samples::LEDGERS;
use super::{Manifest, ResultFile, RunData, RunSamples};
use crate::data::{LedgerRecord, SCHEMA};
use crate::rundir::MANIFEST;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::Path;

#[derive(serde::Deserialize)]
struct SchemaHeader {
    schema: u32,
}

impl RunData {
    /// Reads the directory `dir`. `samples.jsonl`, `ledger.jsonl` and `result.json` may be missing:
    /// an interrupted run has what it measured until then.
    pub fn load(dir: &Path) -> Result<RunData, DataError> {
        let manifest_path = dir.join(MANIFEST);
        let text = fs::read_to_string(&manifest_path).map_err(|source| DataError::Read {
            path: manifest_path.clone(),
            source,
        })?;
        let manifest: Manifest = parse(&manifest_path, 1, &text)?;
        let result_path = dir.join("result.json");
        let result = match optional(&result_path)? {
            None => None,
            Some(text) => Some(parse::<ResultFile>(&result_path, 1, &text)?.result),
        };
        let samples = RunSamples::read(manifest.kind, dir)?;
        let mut ledgers: Vec<LedgerRecord> = lines(&dir.join(LEDGERS))?;
        ledgers.retain(|ledger| samples.counts(ledger));
        Ok(RunData {
            dir: dir.to_owned(),
            manifest,
            samples,
            ledgers,
            result,
        })
    }
}

fn optional(path: &Path) -> Result<Option<String>, DataError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DataError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Values in the lines of `path`. A last line without a newline was being written, and is left out.
pub(crate) fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, DataError> {
    let text = optional(path)?.unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(i, line)| parse(path, i + 1, line))
        .collect()
}

fn malformed(path: &Path, line: usize, e: &serde_json::Error) -> DataError {
    DataError::Malformed {
        path: path.to_owned(),
        line: if e.line() > 1 { e.line() } else { line },
        reason: e.to_string(),
    }
}

/// Checks the schema first: a newer document is refused by its number, not as damage.
fn parse<T: DeserializeOwned>(path: &Path, line: usize, text: &str) -> Result<T, DataError> {
    let malformed = |e| malformed(path, line, &e);
    let version: SchemaHeader = serde_json::from_str(text).map_err(malformed)?;
    if version.schema > SCHEMA {
        return Err(DataError::NewerSchema {
            path: path.to_owned(),
            found: version.schema,
        });
    }
    serde_json::from_str(text).map_err(malformed)
}

/// Document of a format without `schema`; `None` if the file is missing.
pub(crate) fn document<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, DataError> {
    let text = optional(path)?;
    let read = text.map(|text| serde_json::from_str(&text).map_err(|e| malformed(path, 1, &e)));
    read.transpose()
}
