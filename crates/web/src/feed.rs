//! What the page is made from: readings of now, and a past.

use crate::dataplanes::Dataplane;
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::status::StatusReport;
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// One reading of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The ledger of the time since the reading before.
    pub ledger: AccountingRecord,
    /// What the agent says of itself.
    pub status: StatusReport,
    /// What was measured of containers' packets; empty where it is not, or not to be had.
    pub latency: Vec<Latency>,
    /// The dataplanes that the page is to show, as they said last.
    pub dataplanes: Vec<Dataplane>,
}

/// What a container's network path adds to its packets of one direction and protocol, on average since
/// it is measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Id of the container's cgroup.
    #[serde(skip)]
    pub cgroup_id: u64,
    /// `egress` or `ingress`.
    pub direction: &'static str,
    /// The protocol.
    pub protocol: &'static str,
    /// Packets.
    pub packets: u64,
    /// From the first to the last hook, nanoseconds.
    pub total_ns: u64,
    /// The part that the container's own path adds, nanoseconds; null where it is not known.
    pub added_ns: Option<u64>,
    /// Each stage and its time, nanoseconds.
    pub stages_ns: Vec<(&'static str, u64)>,
}

/// A reading that could not be had; tried again a second later.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FeedError(pub String);

/// The running agent, as the page sees it. Read in a thread of its own: it may wait.
pub trait Feed: Send {
    /// The next reading; `None` while there is no new one. What nobody needs who does not look, such as
    /// [`Reading::dataplanes`], is asked for only if somebody `looks`.
    ///
    /// # Errors
    /// [`FeedError`] when the agent does not answer: shown on the page until it does.
    fn read(&mut self, looks: bool) -> Result<Option<Reading>, FeedError>;

    /// Time between two readings while nobody looks.
    fn idle_interval(&self) -> Duration;
}

/// What one container did in an interval, CPUs.
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

/// All containers in one interval.
#[derive(Clone, Copy, Debug)]
pub struct Points<'a> {
    /// End of the interval.
    pub time: SystemTime,
    /// Its length.
    pub length: Duration,
    /// In any order; containers that did nothing may be absent.
    pub points: &'a [Point],
}

/// The past cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the past cannot be read: {0}")]
pub struct PastError(pub String);

/// What was before. Asked in a thread where it may wait for a disk.
pub trait Past: Send {
    /// The first and the last moment of which anything is known.
    ///
    /// # Errors
    /// [`PastError`].
    fn extent(&mut self) -> Result<Option<(SystemTime, SystemTime)>, PastError>;

    /// The ledger of the interval that `at` is in, or the last one before it.
    ///
    /// # Errors
    /// [`PastError`].
    fn at(&mut self, at: SystemTime) -> Result<Option<AccountingRecord>, PastError>;

    /// Passes the intervals that end between `from` and `to` to `visit`, oldest first; of several
    /// resolutions one that has at least an interval every `step`, if there is one.
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

    /// The name of a container of the past.
    fn name(&mut self, cgroup_id: u64) -> Option<String>;
}

#[cfg(test)]
pub(crate) mod tests;
