//! Tests of the policy on a small simulated host: one CPU with fair scheduling by weight, an
//! offender's packets, quotas, and the delayed effect of each means.

mod bucket;
mod history;
mod host;
mod properties;
mod tenant;
mod traffic;

use super::{Active, ContainerFacts};
use cofferdam_types::{
    CgroupId, Conservation, Container, ContainerLedger, CpuId, CpuTime, Health, Interval, Ledger,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tenant::Tenant;

/// An interval of 20 ms with one CPU and one container for each of `columns`: (caused, charged).
pub(in crate::network) fn interval(cpus: &[CpuTime], columns: &[(u64, u64)]) -> Interval {
    let row = |(i, (caused, charged)): (usize, &(u64, u64))| ContainerLedger {
        container: container(i as u64 + 1),
        ledger: Ledger::default(),
        caused_by_cpu_ns: vec![*caused],
        charged_by_cpu_ns: vec![*charged],
        interruptions_by_cpu: vec![*charged],
        received_from: BTreeMap::new(),
    };
    Interval {
        time: SystemTime::UNIX_EPOCH,
        length: Duration::from_millis(20),
        cpus: (0..).map(CpuId).zip(cpus.iter().copied()).collect(),
        containers: columns.iter().enumerate().map(row).collect(),
        unattributed_ns: BTreeMap::new(),
        health: Health::default(),
        conservation: Conservation {
            measured_ns: 0,
            attributed_ns: 0,
            worst_cpu_error_pct: 0.0,
        },
        sampling: None,
    }
}

/// Facts of an idle container on a contended CPU.
pub(in crate::network::policy) fn facts() -> ContainerFacts {
    let active = Active {
        cgroup: CgroupId(1),
        contended: vec![0],
        contended_now: vec![0],
    };
    Tenant::new(1, 100.0, 0.0).facts(active)
}

pub(in crate::network) fn container(id: u64) -> Arc<Container> {
    Arc::new(Container::plain(
        CgroupId(id),
        format!("/c{id}"),
        format!("c{id}"),
    ))
}
