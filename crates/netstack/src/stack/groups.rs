//! Flow groups (IX, OSDI'14, 4.4): the connections of one hash bucket, to be taken out and put into
//! another core's stack.

use super::Stack;
use crate::api::{Chunk, ConnectionId};
use crate::core::NONE;
use crate::core::chunks::{Chunks, List};
use crate::tcp::state::Tcb;

/// A connection on its way.
#[derive(Debug, Clone)]
struct Moved {
    old: ConnectionId,
    tcb: Tcb,
    send: Vec<(Chunk, u32)>,
    received: Vec<(Chunk, u32)>,
    held: Vec<(Chunk, u32)>,
}

/// The connections of a flow group, out of any stack. The buffers they refer to must stay valid
/// for the stack they go to.
#[derive(Debug, Clone, Default)]
pub struct FlowGroup {
    connections: Vec<Moved>,
}

impl FlowGroup {
    /// Connections in it.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
}

fn drain(chunks: &mut Chunks, list: &mut List) -> Vec<(Chunk, u32)> {
    std::iter::from_fn(|| chunks.pop(list))
        .map(|node| (node.chunk, node.seq))
        .collect()
}

impl Stack {
    /// Which flow groups this stack has (bit n: group n): `connect` chooses ports whose answers
    /// come here. All, at first.
    pub fn set_owned_groups(&mut self, groups: u128) {
        self.owned_groups = groups;
    }

    /// Takes the connections of a group out. Those that ended, and those that the application has
    /// not accepted, stay: they end here. (TIME_WAIT and half-open connections too; a peer's
    /// retransmission begins anew at the other stack.) Poll events first: what this stack wanted to
    /// tell of them is told by the other.
    pub fn take_group(&mut self, group: u8) -> FlowGroup {
        let mut taken = FlowGroup::default();
        let Some(&head) = self.group_heads.get(usize::from(group)) else {
            return taken;
        };
        let mut slot = head;
        while slot != NONE {
            let next = self.tcbs[slot as usize].links.group_next;
            if self.tcbs[slot as usize].owned {
                taken.connections.push(self.take_out(slot));
            }
            slot = next;
        }
        taken
    }

    fn take_out(&mut self, slot: u32) -> Moved {
        let old = self.id_of(slot);
        let original = &mut self.tcbs[slot as usize];
        let mut tcb = *original;
        // What is left ends without a word.
        (original.silent, original.dead) = (true, Some(crate::api::DeadReason::Closed));
        (original.send, original.received, original.held) = Default::default();
        original.state = crate::tcp::state::State::Closed;
        let moved = Moved {
            old,
            send: drain(&mut self.chunks, &mut tcb.send),
            received: drain(&mut self.chunks, &mut tcb.received),
            held: drain(&mut self.chunks, &mut tcb.held),
            tcb,
        };
        self.settle(slot);
        moved
    }

    /// Puts a group's connections in; the old handle of each, and its new one.
    ///
    /// # Errors
    /// Gives the group back when there is no room for all of it.
    pub fn put_group(
        &mut self,
        group: FlowGroup,
    ) -> Result<Vec<(ConnectionId, ConnectionId)>, FlowGroup> {
        let ranges: usize = group
            .connections
            .iter()
            .map(|c| c.send.len() + c.received.len() + c.held.len())
            .sum();
        let room = (self.slots.count() - self.slots.used()) as usize >= group.connections.len();
        if !room || (self.chunks.free() as usize) < ranges {
            return Err(group);
        }
        let mut handles = Vec::with_capacity(group.connections.len());
        for mut moved in group.connections {
            let tcb = &mut moved.tcb;
            tcb.links = crate::tcp::state::Links::default();
            (tcb.cursor, tcb.mac_epoch) = (None, 0);
            for (list, chunks) in [
                (&mut tcb.send, &moved.send),
                (&mut tcb.received, &moved.received),
                (&mut tcb.held, &moved.held),
            ] {
                for (chunk, seq) in chunks {
                    self.chunks.push(list, *chunk, *seq);
                }
            }
            if let Some(slot) = self.insert(moved.tcb) {
                handles.push((moved.old, self.id_of(slot)));
                self.settle(slot);
            }
        }
        Ok(handles)
    }
}
