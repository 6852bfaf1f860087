//! Input and output of the planner: an interval of the cores, and moves.

use cofferdam_netstack::FLOW_GROUPS;
use std::time::Duration;

/// Number of flow groups, as an index.
pub(crate) const GROUPS: usize = FLOW_GROUPS as usize;

/// Activity of a core in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CoreReading {
    /// Share of time in turns with work, 0 to 1.
    pub busy: f64,
    /// Estimated time that a packet waited before the core took it.
    pub delay: Duration,
}

/// Activity in an interval.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// Activity of each core.
    pub cores: Vec<CoreReading>,
    /// Packets of each flow group.
    pub packets: [u64; GROUPS],
    /// Present connections of each flow group.
    pub connections: [u32; GROUPS],
}

/// A flow group and the core that it moves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub group: u8,
    pub to: u8,
}
