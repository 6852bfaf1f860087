//! Ledger of an experiment: read before and after each sample.

use crate::data::{LedgerContainer, LedgerCpu, LedgerRecord, Role, SCHEMA, Treatment};
use crate::error::BenchError;
use cofferdam_accounting::{Accountant, Options, StartError};
use cofferdam_types::{Interval, Snapshot};
use std::time::Instant;

/// Source of ledgers. An experiment has none on a host that cannot run the accounting; it measures
/// its penalty all the same.
pub trait LedgerSource {
    /// Returns the cumulative counts.
    fn snapshot(&mut self) -> Result<Snapshot, BenchError>;
    /// Tracks new and ended containers until `until`.
    fn follow(&mut self, until: Instant) -> Result<(), BenchError>;
}

/// Identity of the sample that a record belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Label<'a> {
    pub cell: &'a str,
    pub pair: u32,
    pub attempt: u32,
    pub role: Option<Role>,
    pub treatment: Treatment,
}

/// Turns an interval into a line of `ledger.jsonl`.
pub(crate) fn record(interval: &Interval, label: &Label<'_>) -> LedgerRecord {
    LedgerRecord {
        schema: SCHEMA,
        time: humantime::format_rfc3339_seconds(interval.time).to_string(),
        interval_s: interval.length.as_secs_f64(),
        cell: label.cell.to_owned(),
        pair: label.pair,
        attempt: label.attempt,
        role: label.role,
        treatment: label.treatment,
        cpus: interval
            .cpus
            .iter()
            .map(|(cpu, time)| LedgerCpu {
                cpu: cpu.0,
                time: *time,
            })
            .collect(),
        containers: interval
            .containers
            .iter()
            .filter(|c| !c.ledger.is_idle() || c.ledger.cpu_usage_ns > 0)
            .map(|c| LedgerContainer {
                name: c.container.name.clone(),
                cgroup_path: c.container.cgroup_path.display().to_string(),
                ledger: c.ledger,
                owed_ns: c.ledger.owed_ns(),
                corrected_cpu_ns: c.ledger.corrected_cpu_ns(),
                caused_by_cpu_ns: c.caused_by_cpu_ns.clone(),
                charged_by_cpu_ns: c.charged_by_cpu_ns.clone(),
            })
            .collect(),
        unattributed_ns: interval
            .unattributed_ns
            .iter()
            .filter(|(_, ns)| **ns > 0)
            .map(|(reason, ns)| (*reason, *ns))
            .collect(),
        conservation_error_pct: interval.conservation.worst_cpu_error_pct,
    }
}

impl LedgerRecord {
    /// The container whose cgroup is at `path` below the v2 mount.
    pub fn container(&self, path: &str) -> Option<&LedgerContainer> {
        self.containers.iter().find(|c| c.cgroup_path == path)
    }

    /// Share of `cpu` spent in network softirq, 0 to 1.
    pub fn softirq_fraction(&self, cpu: u32) -> Option<f64> {
        let time = self.cpus.iter().find(|c| c.cpu == cpu)?.time;
        (self.interval_s > 0.0).then(|| time.softirq_ns as f64 / 1e9 / self.interval_s)
    }

    /// Share of `cpu` in `per_cpu_ns`, which has the order of `cpus`.
    pub fn share_of(&self, cpu: u32, per_cpu_ns: &[u64]) -> Option<f64> {
        let position = self.cpus.iter().position(|c| c.cpu == cpu)?;
        let ns = *per_cpu_ns.get(position)?;
        (self.interval_s > 0.0).then(|| ns as f64 / 1e9 / self.interval_s)
    }
}

impl LedgerSource for Accountant {
    fn snapshot(&mut self) -> Result<Snapshot, BenchError> {
        Accountant::snapshot(self).map_err(|e| BenchError::Ledger(e.to_string()))
    }

    fn follow(&mut self, until: Instant) -> Result<(), BenchError> {
        Accountant::follow(self, until, None)
            .map(|_woken| ())
            .map_err(|e| BenchError::Ledger(e.to_string()))
    }
}

/// Starts the accounting.
///
/// # Errors
/// [`BenchError::Unsupported`] if this host cannot run it.
pub(crate) fn start() -> Result<Box<dyn LedgerSource>, BenchError> {
    let accountant = Accountant::start(Options::default()).map_err(from_start)?;
    Ok(Box::new(accountant))
}

/// Converts the accounting's error and keeps its text. Only `Unsupported` has another exit code.
pub(crate) fn from_start(error: StartError) -> BenchError {
    match error {
        StartError::Unsupported(reason) => BenchError::Unsupported(reason),
        other => BenchError::Ledger(other.to_string()),
    }
}
