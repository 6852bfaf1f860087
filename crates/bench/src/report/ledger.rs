//! Sums over the ledgers of a cell.

use crate::data::{LedgerRecord, Role, Treatment};
use crate::run::RunData;
use std::collections::BTreeMap;

/// Smallest share of one CPU that charts show.
pub const WORTH_SHOWING: f64 = 0.001;

/// One container's part of the victim's CPU, as shares of 1, over all vanilla samples of a cell and
/// role.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Name of the container.
    pub name: String,
    /// Network work that the container caused on the victim's CPU.
    pub caused: f64,
    /// Network work that was charged to it on the victim's CPU.
    pub charged: f64,
    /// CPU time that the scheduler charged to it, on all CPUs.
    pub cpu: f64,
    /// Corrected CPU time, on all CPUs.
    pub corrected: f64,
    /// Received and transmitted packets a second.
    pub packets_per_s: f64,
}

/// Shares of all containers in the ledgers, largest cause first.
pub fn shares(run: &RunData, cell: &str, role: Role) -> Vec<Share> {
    let records: Vec<&LedgerRecord> = run
        .ledgers
        .iter()
        .filter(|r| r.cell == cell && r.role == Some(role) && r.treatment == Treatment::Vanilla)
        .collect();
    let seconds: f64 = records.iter().map(|r| r.interval_s).sum();
    if seconds.is_nan() || seconds <= 0.0 {
        return Vec::new();
    }
    let mut sums: BTreeMap<&str, Share> = BTreeMap::new();
    for record in &records {
        let position = record
            .cpus
            .iter()
            .position(|c| c.cpu == run.manifest.victim_cpu);
        let of = |by_cpu: &[u64]| {
            position
                .and_then(|p| by_cpu.get(p))
                .map_or(0.0, |ns| *ns as f64 / 1e9 / seconds)
        };
        for container in &record.containers {
            let sum = sums.entry(&container.name).or_insert_with(|| Share {
                name: container.name.clone(),
                caused: 0.0,
                charged: 0.0,
                cpu: 0.0,
                corrected: 0.0,
                packets_per_s: 0.0,
            });
            let ledger = &container.ledger;
            sum.caused += of(&container.caused_by_cpu_ns);
            sum.charged += of(&container.charged_by_cpu_ns);
            sum.cpu += ledger.cpu_usage_ns as f64 / 1e9 / seconds;
            sum.corrected += container.corrected_cpu_ns as f64 / 1e9 / seconds;
            sum.packets_per_s += (ledger.rx_packets as f64 + ledger.tx_packets as f64) / seconds;
        }
    }
    let mut shares: Vec<Share> = sums.into_values().collect();
    shares.sort_by(|a, b| {
        b.caused
            .total_cmp(&a.caused)
            .then_with(|| a.name.cmp(&b.name))
    });
    shares
}

/// Largest conservation error of a cell's ledgers, percent; `None` without ledgers.
pub fn conservation_error_pct(run: &RunData, cell: &str) -> Option<f64> {
    let errors = run
        .ledgers
        .iter()
        .filter(|r| r.cell == cell)
        .map(|r| r.conservation_error_pct);
    errors.reduce(f64::max)
}
