//! Sources of the page: current readings, and the past.

use crate::dataplanes::Dataplane;
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::status::StatusReport;
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// One reading of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Ledger of the time since the previous reading.
    pub ledger: AccountingRecord,
    /// Status of the agent.
    pub status: StatusReport,
    /// Latencies of containers' packets; empty if they are not measured or not available.
    pub latency: Vec<Latency>,
    /// Dataplanes that the page shows, with their last answers.
    pub dataplanes: Vec<Dataplane>,
}

/// Latency that a container's network path adds to its packets of one direction and protocol, on
/// average since the measurement began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Id of the container's cgroup.
    #[serde(skip)]
    pub cgroup_id: u64,
    /// `egress` or `ingress`.
    pub direction: &'static str,
    /// Name of the protocol.
    pub protocol: &'static str,
    /// Number of packets.
    pub packets: u64,
    /// Time from the first to the last hook, nanoseconds.
    pub total_ns: u64,
    /// Part that the container's own path adds, nanoseconds; null if unknown.
    pub added_ns: Option<u64>,
    /// Each stage and its time, nanoseconds.
    pub stages_ns: Vec<(&'static str, u64)>,
}

/// Failure of a reading. The page retries a second later.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FeedError(pub String);

/// Source of readings: the running agent. A thread of its own reads it, so it may block.
pub trait Feed: Send {
    /// Returns the next reading, or `None` while there is no new one. Parts that only a visitor
    /// needs, such as [`Reading::dataplanes`], are read only if one `looks`.
    ///
    /// # Errors
    /// [`FeedError`] if the agent does not answer; the page shows it until it does.
    fn read(&mut self, looks: bool) -> Result<Option<Reading>, FeedError>;

    /// Time between two readings without a visitor.
    fn idle_interval(&self) -> Duration;
}

/// Figures of one container in an interval, CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Id of its cgroup.
    pub cgroup_id: u64,
    /// CPU time billed to it.
    pub cpu_cpus: f32,
    /// Network CPU that its packets required.
    pub caused_cpus: f32,
    /// Network CPU billed to it.
    pub charged_cpus: f32,
    /// CPU time that others took from it: forced runqueue sharing and phantom CPU time.
    pub taken_cpus: f32,
    /// CPU time lost to its own quota.
    pub throttled_cpus: f32,
}

/// Figures of all containers in one interval.
#[derive(Clone, Copy, Debug)]
pub struct Points<'a> {
    /// End of the interval.
    pub time: SystemTime,
    /// Length of the interval.
    pub length: Duration,
    /// Figures in any order; idle containers may be absent.
    pub points: &'a [Point],
}

/// Failure to read the past.
#[derive(Debug, thiserror::Error)]
#[error("the past cannot be read: {0}")]
pub struct PastError(pub String);

/// Source of the past. It is read in a thread that may wait for a disk.
pub trait Past: Send {
    /// First and last moment that are known.
    ///
    /// # Errors
    /// [`PastError`].
    fn extent(&mut self) -> Result<Option<(SystemTime, SystemTime)>, PastError>;

    /// Ledger of the interval that contains `at`, or of the last one before it.
    ///
    /// # Errors
    /// [`PastError`].
    fn at(&mut self, at: SystemTime) -> Result<Option<AccountingRecord>, PastError>;

    /// Passes the intervals that end between `from` and `to` to `visit`, oldest first. If there are
    /// several resolutions, it uses one with at least an interval every `step`, if possible.
    ///
    /// # Errors
    /// [`PastError`].
    fn visit(
        &mut self,
        from: SystemTime,
        to: SystemTime,
        step: Duration,
        visit: &mut dyn FnMut(Points<'_>),
    ) -> Result<(), PastError>;

    /// Name of a container of the past.
    fn name(&mut self, cgroup_id: u64) -> Option<String>;
}

#[cfg(test)]
pub(crate) mod tests;
