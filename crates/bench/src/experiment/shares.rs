//! Figures that a sample's ledger has of its containers.

use crate::data::{LedgerContainer, LedgerRecord};

/// Shares of one CPU, from a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SampleShares {
    /// Network work that the competitors caused on the victim's CPU.
    pub offender_caused: Option<f64>,
    /// Corrected CPU use of the competitors, without their network work on other CPUs than the
    /// victim's: that work takes nothing from the victim.
    pub offender_corrected: Option<f64>,
    /// Network work on the victim's CPU that was charged to the victim.
    pub victim_charged: Option<f64>,
}

impl SampleShares {
    /// Reads `ledger` for the containers at these cgroup paths. `cpu` is the victim's CPU.
    pub fn of(
        ledger: &LedgerRecord,
        competitors: &[String],
        victim: &str,
        cpu: u32,
    ) -> SampleShares {
        let caused = competitors
            .iter()
            .filter_map(|path| share(ledger, path, cpu, |c| &c.caused_by_cpu_ns));
        let used = competitors.iter().filter_map(|path| ledger.container(path));
        let used_ns: i64 = used
            .map(|c| c.corrected_cpu_ns - caused_elsewhere(ledger, c, cpu))
            .sum();
        let seconds = ledger.interval_s;
        SampleShares {
            offender_caused: caused.reduce(|a, b| a + b),
            offender_corrected: (seconds > 0.0).then(|| used_ns as f64 / 1e9 / seconds),
            victim_charged: share(ledger, victim, cpu, |c| &c.charged_by_cpu_ns),
        }
    }
}

/// Network work of a container on all CPUs but `cpu`, nanoseconds.
fn caused_elsewhere(ledger: &LedgerRecord, container: &LedgerContainer, cpu: u32) -> i64 {
    let cpus = ledger.cpus.iter().zip(&container.caused_by_cpu_ns);
    let elsewhere = cpus.filter(|(at, _)| at.cpu != cpu);
    elsewhere.map(|(_, ns)| *ns as i64).sum()
}

/// Share of `cpu` that a container used. A container that the ledger does not list was idle: 0.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn network_work_on_other_cpus_costs_the_victim_nothing() {
        let time = json!({
            "softirq_ns": 0, "network_softirq_ns": 0, "hardirq_ns": 0, "napi_thread_ns": 0,
            "drain_ns": 0, "attributed_ns": 0, "charged_ns": 0, "charged_nobody_ns": 0,
            "charged_host_ns": 0,
        });
        let counts = json!({
            "caused_rx_ns": 0, "caused_tx_ns": 0, "caused_hardirq_ns": 0, "rx_packets": 0,
            "rx_bytes": 0, "tx_packets": 0, "tx_bytes": 0, "charged_network_ns": 0,
            "charged_other_ns": 0, "cpu_usage_ns": 0,
        });
        let container = |path: &str, corrected: i64, caused: [u64; 2], charged: [u64; 2]| {
            json!({
                "name": path, "cgroup_path": path, "ledger": counts, "owed_ns": 0,
                "corrected_cpu_ns": corrected, "caused_by_cpu_ns": caused,
                "charged_by_cpu_ns": charged,
            })
        };
        let ledger: LedgerRecord = serde_json::from_value(json!({
            "schema": 2, "time": "", "interval_s": 2.0, "cell": "", "pair": 0, "attempt": 0,
            "role": "traffic", "treatment": "enforced",
            "cpus": [{ "cpu": 3, "time": time }, { "cpu": 5, "time": time }],
            "containers": [
                container("/a", 1_500_000_000, [600_000_000, 400_000_000], [0, 0]),
                container("/b", 300_000_000, [0, 100_000_000], [0, 0]),
                container("/victim", 900_000_000, [0, 0], [50_000_000, 70_000_000]),
            ],
            "unattributed_ns": {}, "conservation_error_pct": 0.0,
        }))
        .unwrap();
        let competitors = ["/a", "/b", "/idle"].map(str::to_owned);
        let shares = SampleShares::of(&ledger, &competitors, "/victim", 5);
        // The competitor used 1.8 s of 2 s; 0.6 s of that were network work on CPU 3.
        assert_eq!(shares.offender_corrected, Some(0.6));
        assert_eq!(shares.offender_caused, Some(0.25));
        assert_eq!(shares.victim_charged, Some(0.035));
    }
}
