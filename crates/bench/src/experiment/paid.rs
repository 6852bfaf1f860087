//! What a sample's ledger says of its containers.

use crate::data::{LedgerContainer, LedgerRecord};

/// Shares of one CPU, from a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Paid {
    /// Network work that the competitors caused on the victim's CPU.
    pub offender_caused: Option<f64>,
    /// The competitors' CPU use on all CPUs, with what they owe.
    pub offender_corrected: Option<f64>,
    /// Network work on the victim's CPU that was charged to the victim.
    pub victim_charged: Option<f64>,
}

impl Paid {
    /// Of `ledger`, with the containers' cgroup paths; `cpu` is the victim's.
    pub fn of(ledger: &LedgerRecord, competitors: &[String], victim: &str, cpu: u32) -> Paid {
        let caused = competitors
            .iter()
            .filter_map(|path| share(ledger, path, cpu, |c| &c.caused_by_cpu_ns));
        let used = competitors.iter().filter_map(|path| ledger.container(path));
        let used_ns: i64 = used.map(|c| c.corrected_cpu_ns).sum();
        let seconds = ledger.interval_s;
        Paid {
            offender_caused: caused.reduce(|a, b| a + b),
            offender_corrected: (seconds > 0.0).then(|| used_ns as f64 / 1e9 / seconds),
            victim_charged: share(ledger, victim, cpu, |c| &c.charged_by_cpu_ns),
        }
    }
}

/// A container's share of `cpu`; 0 where the ledger does not list it: it was idle.
fn share(
    ledger: &LedgerRecord,
    path: &str,
    cpu: u32,
    column: fn(&LedgerContainer) -> &Vec<u64>,
) -> Option<f64> {
    match ledger.container(path) {
        Some(container) => ledger.share_of(cpu, column(container)),
        None => Some(0.0),
    }
}
