//! View of the host as a whole: its CPUs, the conservation error, and the losses of the accounting.

use crate::units::{count, pct, percent_of};
use cofferdam_records::accounting::{AccountingRecord, HealthRecord, SamplingRecord};

/// Largest conservation error that is no warning, percent.
pub const CONSERVATION_GOAL_PCT: f64 = 1.0;

/// The host in one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct HostView {
    /// Network share of each CPU.
    pub cpus: Vec<CpuLoad>,
    /// Difference between ledgers and measured time on the worst CPU, percent.
    pub conservation_error_pct: f64,
    /// Accounting mode in words; empty where everything is measured.
    pub mode: String,
    /// Warnings, a phrase each; empty when all is well.
    pub warnings: Vec<String>,
}

/// Kernel work on one CPU, percent of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuLoad {
    /// Number of the CPU.
    pub cpu: u32,
    /// Network softirq, NAPI threads and drains.
    pub network_pct: f64,
    /// All measured time: other softirqs and hardirqs too.
    pub measured_pct: f64,
}

impl HostView {
    /// Host part of `record`.
    pub fn new(record: &AccountingRecord) -> HostView {
        let pct = |ns: u64| percent_of(ns as f64, record.length());
        let cpus = record
            .cpus
            .iter()
            .map(|time| CpuLoad {
                cpu: time.cpu,
                network_pct: pct(time.network_softirq_ns + time.napi_thread_ns + time.drain_ns),
                measured_pct: pct(time.measured_ns),
            })
            .collect();
        let error = record.conservation.worst_cpu_error_pct;
        let mut warnings = Vec::new();
        if error > CONSERVATION_GOAL_PCT {
            warnings.push(format!("the ledgers miss {error:.1}% of the measured time"));
        }
        warnings.extend(complaints(&record.health));
        HostView {
            cpus,
            conservation_error_pct: error,
            mode: record.accounting.as_ref().map_or_else(String::new, mode),
            warnings,
        }
    }

    /// CPUs in words; the busiest ones if not all fit into `width` characters.
    pub fn cpu_line(&self, width: usize) -> String {
        let line = |cpus: &[CpuLoad]| {
            let parts: Vec<String> = cpus
                .iter()
                .map(|c| format!("CPU {} {}%", c.cpu, pct(c.network_pct)))
                .collect();
            format!("network work: {}", parts.join(" · "))
        };
        let all = line(&self.cpus);
        if all.chars().count() <= width {
            return all;
        }
        let mut busiest = self.cpus.clone();
        busiest.sort_by(|a, b| {
            b.network_pct
                .total_cmp(&a.network_pct)
                .then(a.cpu.cmp(&b.cpu))
        });
        let mut text = String::new();
        for shown in 1..=busiest.len() {
            let rest = busiest.len() - shown;
            let longer = format!("{} · {rest} more", line(&busiest[..shown]));
            if shown > 1 && longer.chars().count() > width {
                break;
            }
            text = longer;
        }
        text
    }

    /// Conservation error and warnings in words.
    pub fn health_line(&self) -> String {
        let error = self.conservation_error_pct;
        let books = format!("{}conservation error {error:.2}%", self.mode);
        if self.warnings.is_empty() {
            format!("{books} · nothing lost")
        } else {
            format!("{books} · {}", self.warnings.join(" · "))
        }
    }
}

/// Accounting mode in words, with a separator at the end.
fn mode(accounting: &SamplingRecord) -> String {
    match accounting.mode.as_str() {
        "sampled" => format!(
            "sampled ({:.2} s of {:.1} s measured) · ",
            accounting.observed_s, accounting.estimated_s
        ),
        mode => format!("{mode} · "),
    }
}

/// Failures of the accounting, a phrase each. Containers that ended and CPUs that came online are
/// events, not failures: their counts are complete.
fn complaints(health: &HealthRecord) -> Vec<String> {
    let HealthRecord {
        containers_without_slot,
        events_lost,
        containers_gone: _,
        cpu_hotplugs: _,
        segments_rejected,
        markers_missed,
        softirqs_unseen,
        cpu_usage_unreadable,
    } = *health;
    // Two counts that are read one after the other always differ a little.
    let softirqs_unseen = if softirqs_unseen < 50 {
        0
    } else {
        softirqs_unseen
    };
    [
        (containers_without_slot, "containers without a slot"),
        (events_lost, "kernel events lost, then scanned again"),
        (segments_rejected, "segments rejected"),
        (markers_missed, "program runs skipped by the kernel"),
        (softirqs_unseen, "softirqs unseen"),
        (cpu_usage_unreadable, "CPU readings failed"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, failure)| format!("{failure}: {}", count(n as f64)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::interval;
    use cofferdam_types::Sampling;

    fn host(interval: &cofferdam_types::Interval) -> HostView {
        HostView::new(&AccountingRecord::new(interval))
    }

    #[test]
    fn network_share_of_each_cpu() {
        let host = host(&interval());
        assert_eq!(host.cpu_line(80), "network work: CPU 0 44.0% · CPU 1 0.5%");
        assert_eq!(
            host.health_line(),
            "conservation error 0.00% · nothing lost"
        );
    }

    #[test]
    fn an_estimate_is_called_one() {
        let mut some = interval();
        some.sampling = Some(Sampling::default());
        assert_eq!(
            host(&some).health_line(),
            "exact · conservation error 0.00% · nothing lost"
        );
        some.sampling = Some(Sampling {
            windows: 3,
            observed_ns: 150_000_000,
            estimated_ns: 3_000_000_000,
            ..Sampling::default()
        });
        assert_eq!(
            host(&some).health_line(),
            "sampled (0.15 s of 3.0 s measured) · conservation error 0.00% · nothing lost"
        );
    }

    #[test]
    fn many_cpus_are_cut_to_the_busiest() {
        let mut host = host(&interval());
        host.cpus = (0..64)
            .map(|i| CpuLoad {
                cpu: i,
                network_pct: f64::from(i),
                measured_pct: 0.0,
            })
            .collect();
        let line = host.cpu_line(60);
        assert!(
            line.starts_with("network work: CPU 63 63.0% · CPU 62 62.0%"),
            "{line}"
        );
        assert!(
            line.ends_with(" more") && line.chars().count() <= 60,
            "{line}"
        );
    }

    #[test]
    fn faults_are_reported_and_events_are_not() {
        let mut bad = interval();
        bad.conservation.worst_cpu_error_pct = 3.21;
        bad.health.events_lost = 12;
        bad.health.containers_without_slot = 1;
        bad.health.containers_gone = 5;
        assert_eq!(
            host(&bad).health_line(),
            "conservation error 3.21% · the ledgers miss 3.2% of the measured time · \
             containers without a slot: 1 · kernel events lost, then scanned again: 12"
        );
    }
}
