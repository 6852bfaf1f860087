//! What the control loop shows to the threads that answer questions.

use crate::latency::LatencyView;
use crate::losses::LossView;
use crate::wire::{
    AgentRecord, ConfigurationRecord, ContainerRecord, DegradedRecord, HostLossRecord, LossRecord,
    MeansRecord, NetworkRecord, PolicyRecord, ReservationRecord, RuleRecord, STATUS, StatusReport,
};
use cofferdam_types::{
    CgroupId, ContainerStatus, CpuPolicy, Degraded, DiagnosedContainer, EnforcementStatus,
    NetworkCpu, Policy, Snapshot,
};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The agent at the end of a control step.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub snapshot: Arc<Snapshot>,
    pub enforcement: Arc<EnforcementStatus>,
    pub losses: Arc<LossView>,
    pub latency: Arc<LatencyView>,
    pub rules: Arc<Vec<RuleRecord>>,
    pub paths: Arc<HashMap<CgroupId, String>>,
    pub configuration: Arc<ConfigurationRecord>,
    /// What the control loop itself finds wrong.
    pub degraded: Vec<Degraded>,
    pub started: Instant,
    pub control_period: Duration,
    pub last_step: Duration,
    pub steps: u64,
    pub failed_readings: u64,
    pub cost: Cost,
    /// Containers with series of their own, at most.
    pub exported: u32,
}

/// What the process uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub cpu: Duration,
    pub resident_bytes: u64,
}

impl View {
    /// The document of `status`; `more` is what the server finds wrong.
    pub fn report(&self, metrics: Option<SocketAddr>, more: &[Degraded]) -> StatusReport {
        let degraded = self.all_degraded(more).map(DegradedRecord::new).collect();
        StatusReport {
            schema: STATUS.to_owned(),
            time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            agent: AgentRecord {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
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
                .collect(),
            losses: self
                .losses
                .containers
                .iter()
                .map(|c| LossRecord::new(c, self.losses.length))
                .collect(),
            diagnosis: (!self.losses.length.is_zero()).then(|| self.losses.host_record()),
            containers_known: self.paths.len() as u64,
            degraded,
            changes_in_force: self.enforcement.changes_in_force,
            failed_changes: self.enforcement.failed_changes,
        }
    }

    /// Everything that is wrong for the host as a whole.
    pub fn all_degraded<'a>(&'a self, more: &'a [Degraded]) -> impl Iterator<Item = &'a Degraded> {
        self.degraded
            .iter()
            .chain(&self.enforcement.degraded)
            .chain(more)
    }
}

impl PolicyRecord {
    pub(crate) fn new(policy: &Policy) -> PolicyRecord {
        let (cpu, cpus) = match policy.cpu {
            CpuPolicy::Standard => ("standard", None),
            CpuPolicy::Strict(cpus) => ("strict", Some(f64::from(cpus))),
        };
        PolicyRecord {
            network_cpu: match policy.network_cpu {
                NetworkCpu::Observe => "observe",
                NetworkCpu::Enforce => "enforce",
            }
            .to_owned(),
            cpu: cpu.to_owned(),
            cpus,
        }
    }
}

impl LossView {
    fn host_record(&self) -> HostLossRecord {
        HostLossRecord {
            interval_s: self.length.as_secs_f64(),
            idle_ns: self.idle_ns,
            left_idle_ns: self.left_idle_ns,
            host_ns: self.host_ns,
            containers_without_slot: self.health.containers_without_slot,
            mismatches: self.health.mismatches,
            segments_rejected: self.health.segments_rejected,
        }
    }
}

impl LossRecord {
    fn new(one: &DiagnosedContainer, length: Duration) -> LossRecord {
        LossRecord {
            name: one.container.name.clone(),
            cgroup_id: one.container.cgroup.0,
            interval_s: length.as_secs_f64(),
            entitlement: one.entitlement.to_string(),
            entitled_ns: one.loss.entitled_ns,
            got_ns: one.loss.got_ns,
            forced_sharing_ns: one.loss.forced_sharing_ns,
            phantom_ns: one.loss.phantom_ns,
            throttled_ns: one.loss.throttled_ns,
            lack_ns: one.loss.lack_ns,
            neighbour: one.neighbour.as_ref().map(ToString::to_string),
        }
    }
}

impl DegradedRecord {
    fn new(degraded: &Degraded) -> DegradedRecord {
        DegradedRecord {
            name: degraded.name.clone(),
            text: degraded.text.clone(),
        }
    }
}

impl ContainerRecord {
    fn new(status: &ContainerStatus, cgroup_path: Option<String>) -> ContainerRecord {
        let network = status.network.as_ref().map(|n| NetworkRecord {
            means: n
                .means
                .iter()
                .map(|m| MeansRecord {
                    means: m.means.label().to_owned(),
                    in_force: m.in_force,
                    failed: m.failed,
                    why: m.why.clone(),
                })
                .collect(),
            debt_ns: n.debt_ns,
            forgiven_ns: n.forgiven_ns,
            charged_ns: n.charged_ns,
            returned_ns: n.returned_ns,
            dropped_rx_packets: n.dropped_rx_packets,
            dropped_tx_packets: n.dropped_tx_packets,
        });
        let reservation = status.reservation.as_ref().map(|r| ReservationRecord {
            own_cpus: r.own_cpus.iter().map(|c| c.0).collect(),
            slice_cpu: r.slice.map(|(cpu, _)| cpu.0),
            slice_cpus: r.slice.map(|(_, milli)| f64::from(milli) / 1000.0),
            lent_cpus: r.lent_cpus.iter().map(|c| c.0).collect(),
            lendings: r.lendings,
            rewrites: r.rewrites,
        });
        ContainerRecord {
            name: status.name.clone(),
            cgroup_id: status.cgroup.0,
            cgroup_path,
            policy: PolicyRecord::new(&status.policy),
            network,
            reservation,
            degraded: status.degraded.iter().map(DegradedRecord::new).collect(),
        }
    }
}
