//! Errors of a measurement.

use cofferdam_bpf::LoadError;
use cofferdam_types::NetnsId;

/// Reason why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// This host or this caller cannot measure.
    #[error("{0}")]
    Unsupported(String),
    /// The programs could not be loaded.
    #[error("the latency programs could not be started: {0}")]
    Load(#[source] LoadError),
    /// A map could not be written or read.
    #[error("the latency maps could not be {what}: {source}")]
    Map {
        /// Operation: read or written.
        what: &'static str,
        /// Cause of the failure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The programs could not be attached to devices.
    #[error(
        "the latency programs cannot be attached to the devices of network namespace {}: {source}",
        netns.0
    )]
    Devices {
        /// Namespace of the devices.
        netns: NetnsId,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The devices of measured containers could not be followed.
    #[error("the latency programs cannot follow the network devices of the host: {0}")]
    Look(#[source] std::io::Error),
    /// No row is free.
    #[error(
        "network namespace {} cannot be measured: {rows} containers are measured already; \
         measure fewer at the same time, or give more room at the start",
        netns.0
    )]
    NoRow {
        /// Namespace that needs a row.
        netns: NetnsId,
        /// Number of rows.
        rows: u32,
    },
}

impl From<LoadError> for MeasureError {
    fn from(error: LoadError) -> MeasureError {
        match error.is_unsupported() {
            true => MeasureError::Unsupported(error.to_string()),
            false => MeasureError::Load(error),
        }
    }
}
