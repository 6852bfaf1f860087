//! What one core has for another.

use crate::abi::Entry;
use crate::engine::link::Received;
use crate::engine::owners::Owner;
use crate::tuning::turns::LANE_ENTRIES;
use cofferdam_netstack::{ConnectionId, FlowGroup};
use cofferdam_xsk::Frame;
use std::collections::HashMap;

/// What one core has for another.
pub(in crate::engine) enum Message {
    /// A packet of a flow group that the reader has, or that only the first core takes.
    Packet(Received),
    /// A copy of a packet that every core takes.
    Copy(Received),
    /// A frame of the reader's part of the memory.
    Frame(Frame),
    /// A call about a connection that the reader has.
    Call(Box<Forwarded>),
    /// Received data of a connection that the reader has is no longer needed.
    RecvDone { handle: u64, len: u32 },
    /// `group` is going to core `to`: packets for it go there from now on.
    Mark { group: u8, to: u8 },
    /// The writer has seen that the reader gives `group` to core `to`: no more comes from there.
    Flushed { group: u8, to: u8 },
    /// A flow group with all that belongs to it.
    Group(Box<Bundle>),
}

/// A call that its first reader could not do.
pub(in crate::engine) struct Forwarded {
    pub place: u8,
    pub generation: u8,
    pub entry: Entry,
}

/// A flow group on its way.
pub(in crate::engine) struct Bundle {
    pub group: u8,
    pub flows: FlowGroup,
    /// By the handle that the connection had where it comes from.
    pub owners: HashMap<ConnectionId, (Owner, u8)>,
    /// Applications that know that the group has left.
    pub informed: Vec<(u8, u8)>,
}

/// A group on its way here.
pub(in crate::engine) struct Arrival {
    pub group: u8,
    /// The core that has it until then.
    pub from: u8,
    /// What came for it meanwhile, in order.
    pub held: Vec<Message>,
}

impl Arrival {
    /// Whether more is lost, or waits where it is.
    pub fn is_full(&self) -> bool {
        self.held.len() >= LANE_ENTRIES as usize
    }
}
