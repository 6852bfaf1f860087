//! State of the enforcement and the reservations, for `status`, the metrics and the reports.

use crate::{CgroupId, CpuId, Policy};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A mechanism that charges, returns or stops the network CPU of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// The NAPI thread of the container's interface runs in the container's cgroup: the kernel
    /// charges the container, and a full ring drops packets.
    NapiThread,
    /// The container's CPU weight is corrected by the time that it owes.
    WeightCorrection,
    /// The container's CFS quota is corrected by the time that it owes.
    QuotaCorrection,
    /// Packets for the container are dropped at ingress while it is in debt.
    IngressDrop,
    /// Packets of the container are dropped at the host's device while it is in debt.
    EgressDrop,
}

impl Means {
    /// Every means, best first.
    pub const ALL: &[Means] = &[
        Means::NapiThread,
        Means::WeightCorrection,
        Means::QuotaCorrection,
        Means::IngressDrop,
        Means::EgressDrop,
    ];

    /// Name in `status`, metrics and data.
    pub fn label(self) -> &'static str {
        match self {
            Means::NapiThread => "napi_thread",
            Means::WeightCorrection => "weight_correction",
            Means::QuotaCorrection => "quota_correction",
            Means::IngressDrop => "ingress_drop",
            Means::EgressDrop => "egress_drop",
        }
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

/// A means, and the reason why it is or is not in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeansState {
    /// The means.
    pub means: Means,
    /// Whether it is in force now.
    pub in_force: bool,
    /// Whether the means is needed now and could not be applied: the other means must do.
    pub failed: bool,
    /// Reason, as one short clause.
    pub why: String,
}

/// Network-CPU enforcement of one container. Counts are cumulative since it was first enforced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkEnforcement {
    /// The mechanisms, best first.
    pub means: Vec<MeansState>,
    /// Debt that the container has not paid yet, nanoseconds of CPU; never below zero.
    pub debt_ns: u64,
    /// Debt forgiven because it reached the bound, or because no task waited any more, nanoseconds.
    pub forgiven_ns: u64,
    /// Network CPU that Cofferdam charged to the container, or that the kernel charged as Cofferdam
    /// arranged it, nanoseconds.
    pub charged_ns: u64,
    /// CPU time returned to the container because it had paid for others, nanoseconds.
    pub returned_ns: u64,
    /// Packets for the container dropped at ingress while it was in debt.
    pub dropped_rx_packets: u64,
    /// Packets of the container dropped on transmission while it was in debt.
    pub dropped_tx_packets: u64,
}

/// The CPU reservation of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationState {
    /// CPUs reserved for this container alone.
    pub own_cpus: Vec<CpuId>,
    /// The CPU on which the container has a guaranteed slice, with the slice in thousandths.
    pub slice: Option<(CpuId, u32)>,
    /// Reserved CPUs that are lent to standard containers now.
    pub lent_cpus: Vec<CpuId>,
    /// Number of times that a reserved CPU was lent.
    pub lendings: u64,
    /// Number of times that the runtime rewrote the cpuset and the agent corrected it.
    pub rewrites: u64,
}

/// A request that is not in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degradation {
    /// A stable short name, such as `cpuset_refused`.
    pub name: String,
    /// One line: the request, its object, the reason and the remedy.
    pub text: String,
}

/// One container to which the agent's rules apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContainerStatus {
    /// Cgroup of the container.
    pub cgroup: CgroupId,
    /// Name of the container.
    pub name: String,
    /// Classes that the rule assigns to the container.
    pub policy: Policy,
    /// `None` when the container's network CPU is only observed.
    pub network: Option<NetworkEnforcement>,
    /// `None` when the container is standard.
    pub reservation: Option<ReservationState>,
    /// Parts of the policy that are not in force; empty when all are.
    pub degraded: Vec<Degradation>,
}

/// Enforcement and reservations of the whole host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnforcementStatus {
    /// Every container that a rule or a reservation affects.
    pub containers: Vec<ContainerStatus>,
    /// Requests for the whole host that are not in force.
    pub degraded: Vec<Degradation>,
    /// Changes to the host that are in force now. The agent reverts them when it stops.
    pub changes_in_force: u64,
    /// Failed writes to the host, cumulative.
    pub failed_changes: u64,
    /// Duration of the last step.
    pub last_step: Duration,
}
