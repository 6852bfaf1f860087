//! Samples of a run, and the files that hold them.

use super::error::DataError;
use super::load::lines;
use crate::data::LedgerRecord;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Name of the file of samples within a run directory.
pub(crate) const SAMPLES: &str = "samples.jsonl";
/// Name of the file of ledgers.
pub(crate) const LEDGERS: &str = "ledger.jsonl";

/// The samples of one kind of run.
pub trait SampleSet: Sized {
    /// Reads the samples from a run directory. A missing file counts as empty.
    fn read(dir: &Path) -> Result<Self, DataError>;

    /// Number of samples.
    fn count(&self) -> usize;

    /// Whether `ledger` belongs to a sample that counts.
    fn counts(&self, _ledger: &LedgerRecord) -> bool {
        true
    }
}

impl<T: DeserializeOwned> SampleSet for Vec<T> {
    fn read(dir: &Path) -> Result<Vec<T>, DataError> {
        lines(&dir.join(SAMPLES))
    }

    fn count(&self) -> usize {
        self.len()
    }
}

/// Samples that only other tools read: the report needs the result alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadSamples;

impl SampleSet for UnreadSamples {
    fn read(_dir: &Path) -> Result<UnreadSamples, DataError> {
        Ok(UnreadSamples)
    }

    fn count(&self) -> usize {
        0
    }
}
