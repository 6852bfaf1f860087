//! Synthetic documents for tests: a host of two CPUs whose containers do what a test says.

use super::Agent;
use crate::accounting::{
    ACCOUNTING, AccountingRecord, ConservationRecord, ContainerRecord, CpuRecord, HealthRecord,
};
use crate::diagnosis::{
    CpuLossRecord, DiagnosisRecord, LossShareRecord, NeighbourRecord, UnusedTimeRecord,
};
use crate::status::{
    AgentRecord, ConditionRecord, ConfigurationRecord, ContainerRecord as Managed, NetworkRecord,
    PolicyRecord, STATUS, StatusReport,
};
use cofferdam_types::Entitlement;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

/// Container that does nothing yet. All quantities are milliseconds in a second.
pub(crate) fn container(id: u64, name: &str) -> ContainerRecord {
    ContainerRecord {
        name: name.to_owned(),
        cgroup_id: id,
        cgroup_path: format!("/tenants/{id}"),
        runtime: "plain".to_owned(),
        caused_by_cpu_ns: vec![0, 0],
        charged_by_cpu_ns: vec![0, 0],
        ..ContainerRecord::default()
    }
}

impl ContainerRecord {
    pub(crate) fn caused(self, ms: u64) -> ContainerRecord {
        self.caused_on(&[ms, 0])
    }

    pub(crate) fn caused_on(mut self, ms: &[u64]) -> ContainerRecord {
        self.caused_by_cpu_ns = ms.iter().map(|ms| ms * MS).collect();
        self.caused_rx_ns = self.caused_by_cpu_ns.iter().sum();
        self.caused_ns = self.caused_rx_ns;
        self.rx_packets = self.caused_ns / 600;
        self.with_sums()
    }

    pub(crate) fn charged(self, ms: u64) -> ContainerRecord {
        self.charged_on(&[ms, 0])
    }

    pub(crate) fn charged_on(mut self, ms: &[u64]) -> ContainerRecord {
        self.charged_by_cpu_ns = ms.iter().map(|ms| ms * MS).collect();
        self.charged_network_ns = self.charged_by_cpu_ns.iter().sum();
        self.cpu_usage_ns = self.cpu_usage_ns.max(2 * self.charged_network_ns);
        self.with_sums()
    }

    pub(crate) fn from(mut self, sender: u64, packets: u64) -> ContainerRecord {
        self.received_from.insert(sender, packets);
        self
    }

    fn with_sums(mut self) -> ContainerRecord {
        self.owed_ns = self.caused_ns as i64 - self.charged_network_ns as i64;
        self.corrected_cpu_ns = self.cpu_usage_ns as i64 + self.owed_ns;
        self
    }
}

/// Synthetic events on the host.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub containers: Vec<ContainerRecord>,
    pub losses: Vec<CpuLossRecord>,
    pub shares: Vec<LossShareRecord>,
    pub by_cpu: Vec<UnusedTimeRecord>,
    pub error_pct: f64,
}

impl Scene {
    pub(crate) fn new(containers: &[ContainerRecord]) -> Scene {
        Scene {
            containers: containers.to_vec(),
            losses: Vec::new(),
            shares: Vec::new(),
            by_cpu: Vec::new(),
            error_pct: 0.02,
        }
    }

    /// Adds a loss: `name` got `got` of `entitled`, and lost `sharing` to `neighbour` and `quota`
    /// to its own quota.
    pub(crate) fn loss(
        mut self,
        (id, name): (u64, &str),
        [entitled, got, sharing, quota]: [u64; 4],
        neighbour: Option<&str>,
    ) -> Scene {
        self.losses.push(CpuLossRecord {
            name: name.to_owned(),
            cgroup_id: id,
            entitled_ns: entitled * MS,
            entitled_by: Entitlement::Weight,
            got_ns: got * MS,
            forced_sharing_ns: sharing * MS,
            phantom_ns: 0,
            throttled_ns: quota * MS,
            lack_ns: 0,
            neighbour: neighbour.map(|name| NeighbourRecord::Container {
                name: name.to_owned(),
            }),
        });
        self
    }

    /// Adds a share: `neighbour`, or host tasks, took `ms` of the loss of `victim` on `cpu`.
    pub(crate) fn share(
        mut self,
        (victim, neighbour): (u64, Option<u64>),
        cpu: u32,
        ms: u64,
    ) -> Scene {
        self.shares.push(LossShareRecord {
            victim,
            neighbour,
            cpu,
            ns: ms * MS,
        });
        self
    }

    /// Adds time of `cpu` in which no container ran.
    pub(crate) fn unused(mut self, cpu: u32, idle_ms: u64, host_ms: u64) -> Scene {
        self.by_cpu.push(UnusedTimeRecord {
            cpu,
            idle_ns: idle_ms * MS,
            host_ns: host_ms * MS,
        });
        self
    }

    /// Ledger of a second.
    pub(crate) fn record(&self) -> AccountingRecord {
        let cpu = |cpu| CpuRecord {
            cpu,
            ..CpuRecord::default()
        };
        let diagnosis = (!self.losses.is_empty()).then(|| DiagnosisRecord {
            interval_s: 1.0,
            containers: self.losses.clone(),
            shares: self.shares.clone(),
            by_cpu: self.by_cpu.clone(),
            ..DiagnosisRecord::default()
        });
        AccountingRecord {
            schema: ACCOUNTING.to_owned(),
            time: "2026-11-24T03:12:05.000Z".to_owned(),
            interval_s: 1.0,
            containers: self.containers.clone(),
            unattributed_ns: BTreeMap::new(),
            conservation: ConservationRecord {
                measured_ns: 1000 * MS,
                attributed_ns: 1000 * MS,
                worst_cpu_error_pct: self.error_pct,
            },
            health: HealthRecord::default(),
            cpus: vec![cpu(0), cpu(1)],
            accounting: None,
            diagnosis,
        }
    }

    /// Ledgers of three equal seconds.
    pub(crate) fn lasting(&self) -> Vec<AccountingRecord> {
        vec![self.record(); 3]
    }
}

/// Status of an agent that only observes.
pub(crate) fn status() -> StatusReport {
    StatusReport {
        schema: STATUS.to_owned(),
        time: "2026-11-24T03:12:05.000Z".to_owned(),
        agent: AgentRecord {
            version: "0.1.0".to_owned(),
            pid: 42,
            unit: None,
            uptime_s: 4000.0,
            metrics_address: None,
            control_period_s: 1.0,
            last_step_s: 0.001,
            cpu_s: 1.0,
            resident_bytes: 1 << 20,
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
        history: None,
        nri: None,
        accounting: None,
        containers_known: 2,
        degraded: Vec::new(),
        changes_in_force: 0,
        failed_changes: 0,
    }
}

/// Agent with this status before and after the readings.
pub(crate) fn running(status: StatusReport) -> Agent {
    Agent::Running(Box::new((status.clone(), status)))
}

/// Condition that has lasted for `for_s`.
pub(crate) fn condition(name: &str, id: u64, for_s: f64) -> ConditionRecord {
    ConditionRecord {
        name: name.to_owned(),
        container: format!("c{id}"),
        cgroup_id: id,
        cpus: 0.31,
        since: "2026-11-24T02:59:25.000Z".to_owned(),
        for_s,
    }
}

/// Container that the agent manages.
pub(crate) fn managed(id: u64, name: &str, network_cpu: &str, returned_ms: u64) -> Managed {
    Managed {
        name: name.to_owned(),
        cgroup_id: id,
        cgroup_path: None,
        policy: PolicyRecord {
            network_cpu: network_cpu.to_owned(),
            cpu: "standard".to_owned(),
            cpus: None,
        },
        network: Some(NetworkRecord {
            means: Vec::new(),
            debt_ns: 0,
            forgiven_ns: 0,
            charged_ns: 0,
            returned_ns: returned_ms * MS,
            dropped_rx_packets: 0,
            dropped_tx_packets: 0,
        }),
        reservation: None,
        degraded: Vec::new(),
    }
}
