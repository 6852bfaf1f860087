//! What the planner is given and what it gives: the cores' interval, and moves.

use cofferdam_netstack::FLOW_GROUPS;
use std::time::Duration;

/// Groups, as an index.
pub(crate) const GROUPS: usize = FLOW_GROUPS as usize;

/// What a core did in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CoreReading {
    /// Share of the time in turns with work, 0 to 1.
    pub busy: f64,
    /// How long a packet waited before the core took it, by estimate.
    pub delay: Duration,
}

/// An interval.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// By core.
    pub cores: Vec<CoreReading>,
    /// Packets of each flow group.
    pub packets: [u64; GROUPS],
    /// Connections that each flow group has now.
    pub connections: [u32; GROUPS],
}

/// A flow group and the core that it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub group: u8,
    pub to: u8,
}
