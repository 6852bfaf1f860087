//! Conversion of an interval into rows for people, as pure functions of `top`, `top --once` and
//! `accounting record`.

mod column;
mod host;

pub use column::Column;
pub use host::HostView;

use crate::exit::one_line;
use crate::units::percent_of;
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_types::CgroupId;
use std::cmp::Ordering;
use std::time::Duration;

/// One container, ready to be printed. Shares are percent of one CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Cgroup id, for histories and the cursor.
    pub cgroup: CgroupId,
    /// Name, safe for a terminal; `pod:name` under Kubernetes.
    pub name: String,
    /// CPU use that the scheduler charged.
    pub cpu_pct: f64,
    /// Network CPU caused by receiving.
    pub caused_rx_pct: f64,
    /// Network CPU caused by sending.
    pub caused_tx_pct: f64,
    /// Hardirq time caused.
    pub caused_irq_pct: f64,
    /// All network CPU caused.
    pub caused_pct: f64,
    /// Network CPU charged.
    pub charged_pct: f64,
    /// caused − charged.
    pub owed_pct: f64,
    /// CPU use + owed.
    pub corrected_pct: f64,
    /// Packets per second, both directions.
    pub packets_per_s: f64,
    /// Mean CPU time of a packet, nanoseconds.
    pub ns_per_packet: Option<f64>,
    /// CPU time that others took from it; `None` where it is not diagnosed.
    pub lost_pct: Option<f64>,
    /// Runtime that made it.
    pub runtime: String,
}

impl Row {
    /// Row of `container` over `length`.
    pub fn new(container: &ContainerRecord, length: Duration) -> Row {
        let pct = |ns: u64| percent_of(ns as f64, length);
        let signed = |ns: i64| percent_of(ns as f64, length);
        let seconds = length.as_secs_f64();
        let name = match &container.pod {
            Some(pod) => format!("{pod}:{}", container.name),
            None => container.name.clone(),
        };
        Row {
            cgroup: CgroupId(container.cgroup_id),
            name: one_line(&name),
            cpu_pct: pct(container.cpu_usage_ns),
            caused_rx_pct: pct(container.caused_rx_ns),
            caused_tx_pct: pct(container.caused_tx_ns),
            caused_irq_pct: pct(container.caused_hardirq_ns),
            caused_pct: pct(container.caused_ns),
            charged_pct: pct(container.charged_network_ns),
            owed_pct: signed(container.owed_ns),
            corrected_pct: signed(container.corrected_cpu_ns),
            packets_per_s: if seconds > 0.0 {
                (container.rx_packets + container.tx_packets) as f64 / seconds
            } else {
                0.0
            },
            ns_per_packet: container.ns_per_packet,
            lost_pct: None,
            runtime: one_line(&container.runtime),
        }
    }
}

/// Rows of `record`, unsorted.
pub fn rows(record: &AccountingRecord) -> Vec<Row> {
    let length = record.length();
    record
        .containers
        .iter()
        .map(|container| Row::new(container, length))
        .collect()
}

/// Sorts by `column`: numbers descend, names ascend; `reverse` inverts that. Equal rows stay in the
/// order of their names, so that rows do not jump.
pub fn sort(rows: &mut [Row], column: Column, reverse: bool) {
    rows.sort_by(|a, b| {
        let first = match column.value(a).zip(column.value(b)) {
            Some((x, y)) => y.partial_cmp(&x).unwrap_or(Ordering::Equal),
            None => Ordering::Equal,
        };
        let first = if column == Column::Name {
            a.name.cmp(&b.name)
        } else {
            first
        };
        let first = if reverse { first.reverse() } else { first };
        first
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.cgroup.cmp(&b.cgroup))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::record;

    #[test]
    fn shares_are_of_one_cpu() {
        let rows = rows(&record());
        let web = rows.iter().find(|r| r.name == "web-3").unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(web.cpu_pct, 38.0));
        assert!(close(web.caused_rx_pct, 43.0));
        assert!(close(web.caused_pct, 43.0));
        assert!(close(web.charged_pct, 10.0));
        assert!(close(web.owed_pct, 33.0));
        assert!(close(web.corrected_pct, 71.0));
        assert!(close(web.packets_per_s, 700_000.0));
        assert!(web.ns_per_packet.is_some_and(|ns| close(ns, 430e6 / 700e3)));
    }

    #[test]
    fn largest_debt_first_and_names_break_ties() {
        let mut all = rows(&record());
        sort(&mut all, Column::Owed, false);
        let names: Vec<_> = all.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["web-3", "cache", "db-1"]);
        sort(&mut all, Column::Owed, true);
        assert_eq!(all[0].name, "db-1");
        sort(&mut all, Column::Name, false);
        assert_eq!(all[0].name, "cache");
        sort(&mut all, Column::PacketsPerS, false);
        let names: Vec<_> = all.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["web-3", "cache", "db-1"]);
    }
}
