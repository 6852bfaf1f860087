//! Data of `bench history`.

use crate::data::Estimate;
use serde::{Deserialize, Serialize};

/// Activity of the containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryCase {
    /// One in ten has traffic, the others are idle.
    OneInTen,
    /// All have traffic all the time: the largest history of such a host.
    All,
}
labels!(HistoryCase { OneInTen => "one in ten busy", All => "all busy" });

/// One measurement: a line of `samples.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistorySample {
    /// Schema of this line.
    pub schema: u32,
    /// End of the measurement, RFC 3339 in UTC.
    pub time: String,
    /// The case.
    pub case: String,
    /// Measured quantity: `append_cpu_us`, `append_us`, or the name of a read with `_ms`.
    pub what: String,
    /// Value in the unit of `what`.
    pub value: f64,
}

/// One kind of read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadRow {
    /// Name of the read.
    pub what: String,
    /// Frames that the read returned.
    pub frames: u64,
    /// Duration of the read, milliseconds.
    pub ms: Estimate,
}

/// Results of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryRow {
    /// Activity of the containers.
    pub case: HistoryCase,
    /// Number of containers.
    pub containers: u32,
    /// Days of recorded time.
    pub days: u32,
    /// Frames that were appended.
    pub frames: u64,
    /// Size of the store's files at the end, bytes.
    pub bytes: u64,
    /// Bytes of one container in a one-second frame, from the growth over the last hour.
    pub bytes_per_container_frame: f64,
    /// CPU time of an append, microseconds: the mean of 100.
    pub append_cpu_us: Estimate,
    /// Duration of an append, microseconds: the mean of 100.
    pub append_us: Estimate,
    /// Reads.
    pub reads: Vec<ReadRow>,
}

impl HistoryRow {
    /// Bytes of the store for one container and day.
    pub fn bytes_per_container_day(&self) -> f64 {
        self.bytes as f64 / f64::from(self.containers) / f64::from(self.days)
    }
}

/// Result of a history run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryResult {
    /// Rows, one a case.
    pub rows: Vec<HistoryRow>,
}
