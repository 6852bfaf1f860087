//! What is to be done, as plain values.

use cofferdam_types::CgroupId;
use std::time::Duration;

/// Of each container that needed a look.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::network) struct Decision {
    pub containers: Vec<(CgroupId, Action)>,
}

/// What is to be done about one container.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::network) enum Action {
    /// Nothing: nobody pays for it.
    Nothing,
    /// Everything is to be taken back.
    LetGo,
    /// It is held to its share and quota.
    Hold(Hold),
}

/// The means for one container, with their parameters. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::network) struct Hold {
    pub packets: Packets,
    /// Its CPU weight, in its file's unit.
    pub weight: Option<f64>,
    /// Its CPU quota, microseconds a period.
    pub quota_us: Option<f64>,
    pub napi: NapiPlace,
}

/// What is done to its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::network) enum Packets {
    /// Nothing new.
    #[default]
    Kept,
    Limited(PacketLimit),
    /// The limit is taken away: it has not bound for a while, and every packet passes it at a
    /// price.
    Freed,
}

/// Where its NAPI threads belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::network) enum NapiPlace {
    /// That means is not allowed, or not wanted.
    #[default]
    Untouched,
    /// They must leave.
    KeptOut,
    /// They are to be put in place.
    Engaged,
}

/// A limit on a container's packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::network) struct PacketLimit {
    pub spending: Spending,
    /// On what it receives.
    pub received: bool,
    /// On what it sends.
    pub sent: bool,
    /// Its packets are large, as a TCP stream's are: work on those that pass matters most.
    pub large: bool,
    /// At its own interface, where packets do not come by a host that forwards.
    pub at_own_interface: bool,
}

/// What a container may spend on packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::network) struct Spending {
    /// Network CPU, in CPUs; `None` where nobody waits: then all packets pass.
    pub cpus: Option<f64>,
    /// What one received packet costs, nanoseconds.
    pub ns_per_rx_packet: f64,
    /// What one sent packet costs, nanoseconds.
    pub ns_per_tx_packet: f64,
    /// What it may save up while it causes nothing: so long a time of `cpus`.
    pub saves_up: Duration,
}
