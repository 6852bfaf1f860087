//! Synthetic documents.
#![allow(dead_code, reason = "each test uses a part of it")]

use cofferdam_records::accounting::{
    ACCOUNTING, AccountingRecord, ConservationRecord, ContainerRecord, CpuRecord, HealthRecord,
};
use cofferdam_records::diagnosis::{CpuLossRecord, DiagnosisRecord, NeighbourRecord};
use cofferdam_records::status::{
    AgentRecord, ConfigurationRecord, ContainerRecord as Managed, PolicyRecord, ReservationRecord,
    STATUS, StatusReport,
};
use cofferdam_types::Entitlement;
use std::collections::BTreeMap;
use std::time::SystemTime;

pub const MS: u64 = 1_000_000;

/// Container; quantities are milliseconds in a second, on the first of two CPUs.
pub fn container(id: u64, name: &str, [cpu, caused, charged]: [u64; 3]) -> ContainerRecord {
    let (caused_ns, charged_ns) = (caused * MS, charged * MS);
    let owed_ns = caused_ns as i64 - charged_ns as i64;
    ContainerRecord {
        name: name.to_owned(),
        cgroup_id: id,
        cgroup_path: format!("/tenants/{id}"),
        runtime: "podman".to_owned(),
        caused_rx_ns: caused_ns,
        caused_ns,
        rx_packets: caused_ns / 600,
        rx_bytes: caused_ns / 10,
        charged_network_ns: charged_ns,
        owed_ns,
        cpu_usage_ns: cpu * MS,
        corrected_cpu_ns: (cpu * MS) as i64 + owed_ns,
        ns_per_packet: (caused > 0).then_some(600.0),
        caused_by_cpu_ns: vec![caused_ns, 0],
        charged_by_cpu_ns: vec![charged_ns, 0],
        ..ContainerRecord::default()
    }
}

/// Ledger of one second of a host with these containers.
pub fn ledger(containers: Vec<ContainerRecord>) -> AccountingRecord {
    let caused: u64 = containers.iter().map(|c| c.caused_ns).sum();
    let cpu = |cpu, network_softirq_ns| CpuRecord {
        cpu,
        softirq_ns: network_softirq_ns,
        network_softirq_ns,
        measured_ns: network_softirq_ns,
        attributed_ns: network_softirq_ns,
        charged_ns: network_softirq_ns,
        ..CpuRecord::default()
    };
    AccountingRecord {
        schema: ACCOUNTING.to_owned(),
        time: cofferdam_records::time(SystemTime::now()),
        interval_s: 1.0,
        containers,
        unattributed_ns: BTreeMap::new(),
        conservation: ConservationRecord {
            measured_ns: caused,
            attributed_ns: caused,
            worst_cpu_error_pct: 0.01,
        },
        health: HealthRecord::default(),
        cpus: vec![cpu(0, caused), cpu(1, 12 * MS)],
        accounting: None,
        diagnosis: None,
    }
}

/// Status of an agent that observes.
pub fn status() -> StatusReport {
    StatusReport {
        schema: STATUS.to_owned(),
        time: cofferdam_records::time(SystemTime::now()),
        agent: AgentRecord {
            version: "0.1.0".to_owned(),
            pid: 42,
            unit: None,
            uptime_s: 4000.0,
            metrics_address: None,
            control_period_s: 1.0,
            last_step_s: 0.001,
            cpu_s: 12.0,
            resident_bytes: 21 << 20,
        },
        configuration: ConfigurationRecord {
            path: "/etc/cofferdam/cofferdam.toml".to_owned(),
            from_file: false,
            loaded: "2026-11-24T02:00:00Z".to_owned(),
            loads: 1,
            refusals: 0,
            refused: None,
            warnings: Vec::new(),
        },
        rules: Vec::new(),
        containers: Vec::new(),
        diagnosis: None,
        conditions: Vec::new(),
        harm: None,
        nri: None,
        accounting: None,
        containers_known: 2,
        degraded: Vec::new(),
        changes_in_force: 0,
        failed_changes: 0,
        history: None,
    }
}

/// Loss of `id`: CPU time that it got, and lost to `neighbour`, of `entitled` milliseconds.
pub fn loss(
    id: u64,
    name: &str,
    [entitled, got, taken]: [u64; 3],
    neighbour: &str,
) -> CpuLossRecord {
    CpuLossRecord {
        name: name.to_owned(),
        cgroup_id: id,
        entitled_ns: entitled * MS,
        entitled_by: Entitlement::Weight,
        got_ns: got * MS,
        forced_sharing_ns: taken * MS,
        phantom_ns: 0,
        throttled_ns: 0,
        lack_ns: (entitled - got - taken) * MS,
        neighbour: Some(NeighbourRecord::Container {
            name: neighbour.to_owned(),
        }),
    }
}

pub fn diagnosis(containers: Vec<CpuLossRecord>) -> DiagnosisRecord {
    DiagnosisRecord {
        interval_s: 1.0,
        counted_s: None,
        containers,
        idle_ns: 0,
        left_idle_ns: 0,
        host_ns: 0,
        containers_without_slot: 0,
        mismatches: 0,
        segments_rejected: 0,
        shares: Vec::new(),
        by_cpu: Vec::new(),
    }
}

/// Container of the status with `cpus` reserved: CPU 1 and a slice of CPU 0.
pub fn reserved(id: u64, name: &str, cpus: f64) -> Managed {
    Managed {
        name: name.to_owned(),
        cgroup_id: id,
        cgroup_path: Some(format!("/tenants/{id}")),
        policy: PolicyRecord {
            network_cpu: "observe".to_owned(),
            cpu: "strict".to_owned(),
            cpus: Some(cpus),
        },
        network: None,
        reservation: Some(ReservationRecord {
            own_cpus: vec![1],
            slice_cpu: Some(0),
            slice_cpus: Some(cpus.fract()),
            lent_cpus: vec![1],
            lendings: 3,
            rewrites: 0,
        }),
        degraded: Vec::new(),
    }
}
