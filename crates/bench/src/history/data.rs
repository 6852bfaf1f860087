//! The data of `bench history`.

use crate::data::Estimate;
use serde::{Deserialize, Serialize};

/// What the containers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryCase {
    /// One in ten has traffic, the others are idle.
    OneInTen,
    /// All have traffic, all the time: the most that such a host can take.
    All,
}
labels!(HistoryCase { OneInTen => "one in ten busy", All => "all busy" });

/// One measurement: a line of `samples.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistorySample {
    /// Schema of this line.
    pub schema: u32,
    /// Its end, RFC 3339 in UTC.
    pub time: String,
    /// The case.
    pub case: String,
    /// `append_cpu_us`, `append_us`, or the name of a read with `_ms`.
    pub what: String,
    /// In the unit of `what`.
    pub value: f64,
}

/// One way to read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadRow {
    /// What was read.
    pub what: String,
    /// Frames that it gave.
    pub frames: u64,
    /// How long that took, milliseconds.
    pub ms: Estimate,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryRow {
    /// What the containers do.
    pub case: HistoryCase,
    /// How many there are.
    pub containers: u32,
    /// Days of recorded time.
    pub days: u32,
    /// Frames that were appended.
    pub frames: u64,
    /// Size of the store's files at the end, bytes.
    pub bytes: u64,
    /// Bytes of one container in one frame of one second, from the growth over the last hour.
    pub bytes_per_container_frame: f64,
    /// CPU time of an append, microseconds: the mean of a hundred.
    pub append_cpu_us: Estimate,
    /// Duration of an append, microseconds: the mean of a hundred.
    pub append_us: Estimate,
    /// Reads.
    pub reads: Vec<ReadRow>,
}

impl HistoryRow {
    /// What a container takes of the whole, a day.
    pub fn bytes_per_container_day(&self) -> f64 {
        self.bytes as f64 / f64::from(self.containers) / f64::from(self.days)
    }
}

/// The outcome of a history run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryResult {
    /// A row a case.
    pub rows: Vec<HistoryRow>,
}
