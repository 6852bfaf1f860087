//! The diagnosis within `top --json`.

use cofferdam_types::{DiagnosedContainer, Neighbour};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPU time that containers were entitled to but did not get, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosisRecord {
    /// Every container (or every selected container) that existed for the whole interval; largest
    /// losses to others first.
    pub containers: Vec<CpuLossRecord>,
    /// Idle time of all CPUs, nanoseconds.
    pub idle_ns: u64,
    /// The part of `idle_ns` that followed the throttling of a container, nanoseconds.
    pub left_idle_ns: u64,
    /// Time of tasks of no container, all CPUs, nanoseconds.
    pub host_ns: u64,
    /// Containers without a free row, since the start; they count as the host.
    pub containers_without_slot: u64,
    /// Segments that ended with a different task than they began with, since the start.
    pub mismatches: u64,
    /// Segments of impossible length, discarded, since the start.
    pub segments_rejected: u64,
}

/// CPU time of one container in the interval. The four losses add up to entitled_ns − got_ns if
/// that is positive, otherwise to 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuLossRecord {
    /// As in the ledger.
    pub name: String,
    /// As in the ledger.
    pub cgroup_id: u64,
    /// What it was entitled to by its reservation, or by its weight among its competitors,
    /// nanoseconds.
    pub entitled_ns: u64,
    /// The basis of `entitled_ns`: `reserved`, `weight`, `quota` or `cpuset`.
    pub entitled_by: String,
    /// Time that its threads ran, nanoseconds.
    pub got_ns: u64,
    /// Lost to forced runqueue sharing: it had a thread waiting on a CPU while others ran
    /// there, nanoseconds.
    pub forced_sharing_ns: u64,
    /// Lost as phantom CPU time: it waited while a CPU was idle, or its waiting time was left idle
    /// in the same scheduling period by throttled neighbours, nanoseconds.
    pub phantom_ns: u64,
    /// Lost to its own quota, nanoseconds.
    pub throttled_ns: u64,
    /// Lost for lack of a runnable thread, nanoseconds.
    pub lack_ns: u64,
    /// What it waited behind most since the diagnosis started: a container's name, or `host` for
    /// tasks of no container; null if it did not wait.
    pub neighbour: Option<String>,
}

impl CpuLossRecord {
    /// The record of `one`.
    pub fn new(one: &DiagnosedContainer) -> CpuLossRecord {
        let loss = &one.loss;
        CpuLossRecord {
            name: one.container.name.clone(),
            cgroup_id: one.container.cgroup.0,
            entitled_ns: loss.entitled_ns,
            entitled_by: one.entitlement.to_string(),
            got_ns: loss.got_ns,
            forced_sharing_ns: loss.forced_sharing_ns,
            phantom_ns: loss.phantom_ns,
            throttled_ns: loss.throttled_ns,
            lack_ns: loss.lack_ns,
            neighbour: one.neighbour.as_ref().map(|who| match who {
                Neighbour::Host => "host".to_owned(),
                Neighbour::Container(name) => name.clone(),
            }),
        }
    }
}
