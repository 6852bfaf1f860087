//! Decisions, as plain values.

use cofferdam_types::CgroupId;
use std::time::Duration;

/// Actions for the containers that needed a decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::network) struct Decision {
    pub containers: Vec<(CgroupId, Action)>,
}

/// Action for one container.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::network) enum Action {
    /// Nothing to do: it has no victim.
    Nothing,
    /// Revert all of its means.
    Revert,
    /// Apply these means.
    Enforce(MeansSettings),
}

/// Means for one container, with their parameters. `None` leaves a value unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::network) struct MeansSettings {
    pub packets: Packets,
    /// CPU weight, in its file's unit.
    pub weight: Option<f64>,
    /// CPU quota, microseconds per period.
    pub quota_us: Option<f64>,
    pub napi: NapiPlace,
}

/// Decision about a container's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::network) enum Packets {
    /// The limit stays as it is.
    #[default]
    Unchanged,
    /// A limit with this budget applies.
    Limited(PacketLimit),
    /// The limit is removed: it has dropped nothing for a while, and every packet pays for passing
    /// it.
    Unlimited,
}

/// Decision about a container's NAPI threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::network) enum NapiPlace {
    /// The means is not allowed, or not wanted.
    #[default]
    Unchanged,
    /// Existing threads must leave the container's cgroup.
    Removed,
    /// The threads are to run in the container's cgroup.
    InContainer,
}

/// A limit on a container's packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::network) struct PacketLimit {
    pub spending: Spending,
    /// Whether received packets are limited.
    pub received: bool,
    /// Whether sent packets are limited.
    pub sent: bool,
    /// Whether its packets are large, as those of a TCP stream: then the cost of a passing packet
    /// matters most.
    pub large: bool,
    /// Whether the limit may act at the container's own interface, for packets that no host
    /// interface forwards.
    pub at_own_interface: bool,
}

/// Budget of a container for its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::network) struct Spending {
    /// Network CPU, in CPUs; `None` while no competitor waits: then all packets pass.
    pub cpus: Option<f64>,
    /// Cost of one received packet, nanoseconds.
    pub ns_per_rx_packet: f64,
    /// Cost of one sent packet, nanoseconds.
    pub ns_per_tx_packet: f64,
    /// Time of `cpus` that may be saved while it causes nothing.
    pub saves_up: Duration,
}
