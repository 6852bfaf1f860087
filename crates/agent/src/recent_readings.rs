//! Transfers between containers over the last seconds: one answer for all clients.
//!
//! `explain`, `top`, the page and `cofferdam` alone would each measure an interval of their own,
//! and name another offender. The control loop keeps one reading a second. The first request
//! computes the answer from them, once for all.

use crate::losses::LossView;
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::explain::{self, Agent, Harm};
use cofferdam_records::status::StatusReport;
use cofferdam_types::{CgroupId, EnforcementStatus, Snapshot};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time between two readings.
const READING_INTERVAL: Duration = Duration::from_secs(1);
/// Number of intervals behind the answer. A finding that holds in all of them lasts.
const MAX_INTERVALS: usize = 4;
/// Number of intervals below which there is no answer.
const MIN_INTERVALS: usize = 2;

/// State of the host at one moment.
#[derive(Clone, Debug)]
struct Moment {
    snapshot: Arc<Snapshot>,
    losses: Arc<LossView>,
    /// CPU time that enforcement has returned to each container, nanoseconds.
    returned_ns: HashMap<CgroupId, u64>,
}

/// Readings of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct RecentReadings {
    moments: VecDeque<Moment>,
    harm: OnceLock<Option<Harm>>,
}

impl RecentReadings {
    /// Returns the readings with this one added, or `None` while the last one is too recent.
    pub fn with_reading(
        &self,
        snapshot: &Arc<Snapshot>,
        losses: &Arc<LossView>,
        status: &EnforcementStatus,
    ) -> Option<RecentReadings> {
        let last = self.moments.back().map(|m| m.snapshot.uptime);
        let is_due = last.is_none_or(|last| snapshot.uptime >= last + READING_INTERVAL);
        if !is_due {
            return None;
        }
        let containers = status.containers.iter();
        let moment = Moment {
            snapshot: snapshot.clone(),
            losses: losses.clone(),
            returned_ns: containers
                .filter_map(|c| Some((c.cgroup, c.network.as_ref()?.returned_ns)))
                .collect(),
        };
        let skipped = self.moments.len().saturating_sub(MAX_INTERVALS);
        let older = self.moments.iter().skip(skipped).cloned();
        Some(RecentReadings {
            moments: older.chain([moment]).collect(),
            harm: OnceLock::new(),
        })
    }

    /// Findings in the readings; `report` is the agent's status without them. `None` while there
    /// are too few readings.
    pub fn harm(&self, report: &StatusReport) -> Option<Harm> {
        self.harm.get_or_init(|| self.find(report)).clone()
    }

    fn find(&self, report: &StatusReport) -> Option<Harm> {
        if self.moments.len() <= MIN_INTERVALS {
            return None;
        }
        let pairs = self.moments.iter().zip(self.moments.iter().skip(1));
        let readings: Vec<AccountingRecord> = pairs
            .map(|(from, to)| {
                let mut record = AccountingRecord::new(&to.snapshot.since(&from.snapshot));
                // A diagnosis that is older than the interval belongs to the previous one.
                let is_new = !Arc::ptr_eq(&from.losses, &to.losses);
                record.diagnosis = to.losses.record().filter(|_| is_new);
                record
            })
            .collect();
        let before = self.moments.front()?.status(report);
        let after = self.moments.back()?.status(report);
        Some(explain::harm(
            &readings,
            &Agent::Running(Box::new((before, after))),
        ))
    }
}

impl Moment {
    /// Status `report` with the CPU time that had been returned at this moment.
    fn status(&self, report: &StatusReport) -> StatusReport {
        let mut status = report.clone();
        for container in &mut status.containers {
            let returned_ns = self.returned_ns.get(&CgroupId(container.cgroup_id));
            if let Some(network) = &mut container.network {
                network.returned_ns = returned_ns.copied().unwrap_or(0);
            }
        }
        status
    }
}

#[cfg(test)]
mod tests;
