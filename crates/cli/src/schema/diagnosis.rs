//! The diagnosis within `top --json`.

use cofferdam_types::{DiagnosedContainer, Neighbour};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPU that containers were entitled to and did not get, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosisRecord {
    /// Every container (or every selected one) that was there for the whole interval, those
    /// that lost most to others first.
    pub containers: Vec<CpuLossRecord>,
    /// Idle time of all CPUs, nanoseconds.
    pub idle_ns: u64,
    /// The part of `idle_ns` that followed the throttling of a container, nanoseconds.
    pub left_idle_ns: u64,
    /// Time of tasks of no container, all CPUs, nanoseconds.
    pub host_ns: u64,
    /// Containers that found no row free, since the start; they count as the host.
    pub containers_without_slot: u64,
    /// Stretches of time whose end did not name the task they began with, since the start.
    pub mismatches: u64,
    /// Stretches of impossible length, thrown away, since the start.
    pub segments_rejected: u64,
}

/// One container's CPU in the interval. The four losses add up to entitled_ns − got_ns where
/// that is positive, else to 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuLossRecord {
    /// As in the ledger.
    pub name: String,
    /// As in the ledger.
    pub cgroup_id: u64,
    /// What its reservation, or its weight among those that compete, gave it, nanoseconds.
    pub entitled_ns: u64,
    /// What sets `entitled_ns`: `reserved`, `weight`, `quota` or `cpuset`.
    pub entitled_by: String,
    /// What its threads ran, nanoseconds.
    pub got_ns: u64,
    /// Lost to forced runqueue sharing: it had a thread waiting on a CPU while others ran
    /// there, nanoseconds.
    pub forced_sharing_ns: u64,
    /// Lost as phantom CPU time: it waited while a CPU was idle, or what it waited was idle in
    /// the same scheduling period, left by others that were throttled, nanoseconds.
    pub phantom_ns: u64,
    /// Lost to its own quota, nanoseconds.
    pub throttled_ns: u64,
    /// Lost for want of a runnable thread, nanoseconds.
    pub lack_ns: u64,
    /// Whom it waited behind most since the diagnosis started: a container's name, or `host`
    /// for tasks of no container; null when nobody.
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
