//! What the enforcement and the reservations do, as `status`, the metrics and reports show it.

use crate::{CgroupId, CpuId, Policy};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A mechanism that charges, returns or stops the network CPU of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// Its interface's NAPI thread runs in its cgroup: the kernel charges it, a full ring drops.
    NapiThread,
    /// The kernel's CPU weights are corrected by what is owed.
    WeightCorrection,
    /// The CFS quota is corrected by what is owed.
    QuotaCorrection,
    /// Its traffic is dropped at ingress while it is in debt.
    IngressDrop,
    /// Its transmissions are dropped at the host's device while it is in debt.
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

    /// Its name in `status`, metrics and data.
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

/// A means and why it is, or is not, in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeansState {
    /// Which.
    pub means: Means,
    /// Whether it is in force now.
    pub in_force: bool,
    /// It is needed now and could not be put in place: the other means must do.
    pub failed: bool,
    /// Why, in one short clause.
    pub why: String,
}

/// Network-CPU enforcement of one container. Counts are cumulative since it was first enforced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkEnforcement {
    /// The mechanisms, best first.
    pub means: Vec<MeansState>,
    /// What it owes and has not yet paid, nanoseconds of CPU; never below zero.
    pub debt_ns: u64,
    /// Debt forgiven because it reached the bound, or because nobody waited any more, nanoseconds.
    pub forgiven_ns: u64,
    /// Network CPU charged to it by Cofferdam or by the kernel on Cofferdam's arrangement.
    pub charged_ns: u64,
    /// CPU time returned to it because it had paid for others, nanoseconds.
    pub returned_ns: u64,
    /// Its packets dropped at ingress while in debt.
    pub dropped_rx_packets: u64,
    /// Its packets dropped on transmission while in debt.
    pub dropped_tx_packets: u64,
}

/// The CPU reservation of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationState {
    /// CPUs that are its own.
    pub own_cpus: Vec<CpuId>,
    /// The CPU on which it has a guaranteed slice, with the slice in thousandths.
    pub slice: Option<(CpuId, u32)>,
    /// Of its CPUs, those lent to standard containers now.
    pub lent_cpus: Vec<CpuId>,
    /// Times a CPU of its own was lent.
    pub lendings: u64,
    /// Times the runtime had rewritten its cpuset and it was put right.
    pub rewrites: u64,
}

/// Something requested that is not in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degraded {
    /// A stable short name, such as `cpuset_refused`.
    pub name: String,
    /// What, on what, why, and what to do, in one line.
    pub text: String,
}

/// One container under the agent's rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContainerStatus {
    /// Its cgroup.
    pub cgroup: CgroupId,
    /// Its name.
    pub name: String,
    /// The classes its rule gives it.
    pub policy: Policy,
    /// `None` when its network CPU is only observed.
    pub network: Option<NetworkEnforcement>,
    /// `None` when it is standard.
    pub reservation: Option<ReservationState>,
    /// What of the policy is not in force; empty when all is.
    pub degraded: Vec<Degraded>,
}

/// Enforcement and reservations of the whole host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnforcementStatus {
    /// Every container that the rules or the reservations touch.
    pub containers: Vec<ContainerStatus>,
    /// What is degraded for the host as a whole.
    pub degraded: Vec<Degraded>,
    /// Changes to the host in force, which are reverted when the agent stops.
    pub changes_in_force: u64,
    /// Failed writes to the host, cumulative.
    pub failed_changes: u64,
    /// Time that the last step took.
    pub last_step: Duration,
}
