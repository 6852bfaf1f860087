//! View: the state that the control loop publishes to the threads that answer clients.

use crate::conditions::Condition;
use crate::latency::LatencyView;
use crate::losses::LossView;
use crate::otlp::PushCounts;
use crate::recent_readings::RecentReadings;
use crate::recorder::HistoryView;
use cofferdam_host::with_remedy;
use cofferdam_records::status::{
    AccountingStatusRecord, AgentRecord, ConfigurationRecord, ContainerRecord, DegradedRecord,
    NriRecord, RuleRecord, STATUS, StatusReport,
};
use cofferdam_types::{CgroupId, Degradation, EnforcementStatus, Snapshot};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// State of the agent at the end of a control step.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub snapshot: Arc<Snapshot>,
    pub enforcement: Arc<EnforcementStatus>,
    pub losses: Arc<LossView>,
    pub conditions: Vec<Condition>,
    pub recent: Arc<RecentReadings>,
    pub latency: Arc<LatencyView>,
    pub history: HistoryView,
    pub nri: Option<NriRecord>,
    pub rules: Arc<Vec<RuleRecord>>,
    pub paths: Arc<HashMap<CgroupId, String>>,
    pub configuration: Arc<ConfigurationRecord>,
    pub accounting: AccountingStatusRecord,
    /// Degradations that the control loop itself finds.
    pub degraded: Vec<Degradation>,
    pub started: Instant,
    /// Systemd unit of the process.
    pub unit: Option<Arc<str>>,
    pub control_period: Duration,
    pub last_step: Duration,
    pub steps: u64,
    pub failed_readings: u64,
    pub cost: Cost,
    /// Counts of pushed metrics.
    pub sent: PushCounts,
    /// Limit on the containers with series of their own.
    pub exported: u32,
}

/// Resources that the process uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub cpu: Duration,
    pub resident_bytes: u64,
}

impl View {
    /// Builds the document of `status`. `more` holds the degradations that the server finds.
    pub fn report(&self, metrics: Option<SocketAddr>, more: &[Degradation]) -> StatusReport {
        let degraded = self.all_degraded(more).map(DegradedRecord::new);
        let degraded = degraded.map(explained).collect();
        let (now, wall) = (Instant::now(), SystemTime::now());
        let mut report = StatusReport {
            schema: STATUS.to_owned(),
            time: cofferdam_records::time(wall),
            agent: AgentRecord {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                unit: self.unit.as_deref().map(str::to_owned),
                uptime_s: self.started.elapsed().as_secs_f64(),
                metrics_address: metrics.map(|a| a.to_string()),
                control_period_s: self.control_period.as_secs_f64(),
                last_step_s: self.last_step.as_secs_f64(),
                cpu_s: self.cost.cpu.as_secs_f64(),
                resident_bytes: self.cost.resident_bytes,
            },
            configuration: (*self.configuration).clone(),
            rules: (*self.rules).clone(),
            containers: self
                .enforcement
                .containers
                .iter()
                .map(|c| ContainerRecord::new(c, self.paths.get(&c.cgroup).cloned()))
                .map(explained_container)
                .collect(),
            diagnosis: self.losses.record(),
            conditions: self
                .conditions
                .iter()
                .map(|c| c.record(now, wall))
                .collect(),
            harm: None,
            history: self.history.record(),
            nri: self.nri.clone(),
            accounting: Some(self.accounting.clone()),
            containers_known: self.paths.len() as u64,
            degraded,
            changes_in_force: self.enforcement.changes_in_force,
            failed_changes: self.enforcement.failed_changes,
        };
        report.harm = self.recent.harm(&report);
        report
    }

    /// All degradations of the host as a whole.
    pub fn all_degraded<'a>(
        &'a self,
        more: &'a [Degradation],
    ) -> impl Iterator<Item = &'a Degradation> {
        self.degraded
            .iter()
            .chain(&self.enforcement.degraded)
            .chain(more)
    }
}

/// Start of this process. Its CPU time counts from then on, not from when the accounting was
/// loaded.
pub(crate) fn process_start() -> Instant {
    let age = std::fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|stat| {
            // The name in brackets may have blanks; field 22 is the 20th after it.
            let (_, rest) = stat.rsplit_once(')')?;
            let ticks: f64 = rest.split_whitespace().nth(19)?.parse().ok()?;
            let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
            let uptime_s: f64 = uptime.split_whitespace().next()?.parse().ok()?;
            Duration::try_from_secs_f64(uptime_s - ticks / cofferdam_host::TICKS_PER_S).ok()
        });
    let now = Instant::now();
    now.checked_sub(age.unwrap_or_default()).unwrap_or(now)
}

/// Adds a remedy where a limit of the agent's own process was reached.
fn explained(mut record: DegradedRecord) -> DegradedRecord {
    record.text = with_remedy(&record.text);
    record
}

fn explained_container(mut record: ContainerRecord) -> ContainerRecord {
    record.degraded = record.degraded.into_iter().map(explained).collect();
    if let Some(network) = &mut record.network {
        for means in &mut network.means {
            means.why = with_remedy(&means.why);
        }
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 22.
    #[test]
    fn cpu_time_counts_from_the_start_of_the_process() {
        let age = process_start().elapsed();
        let cpus = std::thread::available_parallelism().unwrap().get() as u32;
        // A tick is 10 ms.
        let most = age.saturating_add(Duration::from_millis(20)) * cpus;
        assert!(Cost::now().cpu <= most, "{age:?}");
        assert!(age < Duration::from_secs(3600), "{age:?}");
    }
}
