//! Messages between cores.

use crate::abi::Entry;
use crate::engine::link::ReceivedPacket;
use crate::engine::owners::Owner;
use crate::tuning::turns::LANE_ENTRIES;
use cofferdam_netstack::{ConnectionId, FlowGroup};
use cofferdam_xsk::Frame;
use std::collections::HashMap;

/// A message from one core to another.
pub(in crate::engine) enum Message {
    /// A packet of a flow group of the reader, or one that only the first core takes.
    Packet(ReceivedPacket),
    /// A copy of a packet that every core takes.
    Copy(ReceivedPacket),
    /// A frame of the reader's part of the memory.
    Frame(Frame),
    /// A call for a connection of the reader.
    Call(Box<ForwardedCall>),
    /// A release of received data of a connection of the reader.
    RecvDone { handle: u64, len: u32 },
    /// `group` is moving to core `to`: packets for it go there from now on.
    Mark { group: u8, to: u8 },
    /// The writer sends no more for `group`, which the reader passes to core `to`.
    Flushed { group: u8, to: u8 },
    /// A flow group with its connections.
    Group(Box<Bundle>),
}

/// A call that the core of its ring could not execute.
pub(in crate::engine) struct ForwardedCall {
    pub place: u8,
    pub generation: u8,
    pub entry: Entry,
}

/// A flow group that is moving.
pub(in crate::engine) struct Bundle {
    pub group: u8,
    pub flows: FlowGroup,
    /// Owners by the handle that the connection had at the previous core.
    pub owners: HashMap<ConnectionId, (Owner, u8)>,
    /// Applications that were notified that the group has left.
    pub informed: Vec<(u8, u8)>,
}

/// A group that is moving to this core.
pub(in crate::engine) struct Arrival {
    pub group: u8,
    /// Core that has the group until it arrives.
    pub from: u8,
    /// Messages for the group, in order.
    pub waiting: Vec<Message>,
}

impl Arrival {
    /// Whether further packets are lost, and further calls wait in their ring.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= LANE_ENTRIES as usize
    }
}
