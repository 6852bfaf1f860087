//! Steering in software: packets go to the core that has their flow group.

use super::message::Message;
use crate::abi::Call;
use crate::engine::Engine;
use crate::engine::link::ReceivedPacket;
use crate::handle;
use cofferdam_netstack::Steering;
use cofferdam_xsk::{Packet, Port};

impl<P: Port> Engine<P> {
    /// Returns true if a packet is for this core's stack now. Otherwise the packet is passed to its
    /// core, or kept for its flow group.
    pub(in crate::engine) fn steer(&mut self, received: ReceivedPacket) -> bool {
        let me = self.cores.id();
        match self.stack.steering(self.memory.packet(received.packet)) {
            Steering::Group(group) => match self.cores.owner(group) {
                owner if owner == me => {
                    let is_now = self.holds_not(group, received);
                    if is_now {
                        self.tally.group_packets.count(group);
                    }
                    is_now
                }
                owner => self.pass(owner, received),
            },
            Steering::First if me != 0 => self.pass(0, received),
            Steering::All => {
                self.copy_to_others(received);
                true
            }
            Steering::First | Steering::Any => true,
        }
    }

    fn holds_not(&mut self, group: u8, received: ReceivedPacket) -> bool {
        let Some(arrival) = self.cores.arrival(group) else {
            return true;
        };
        if arrival.is_full() {
            self.lose(received);
        } else {
            arrival.waiting.push(Message::Packet(received));
        }
        false
    }

    /// Passes a packet to another core. Returns false.
    fn pass(&mut self, to: u8, received: ReceivedPacket) -> bool {
        if self.cores.offer(to, Message::Packet(received)).is_ok() {
            self.tally.steered_out += 1;
        } else {
            self.lose(received);
        }
        false
    }

    /// Drops a packet, as a device with a full ring does.
    fn lose(&mut self, received: ReceivedPacket) {
        self.tally.steering_lost += 1;
        self.memory.give(received.packet.frame);
    }

    fn copy_to_others(&mut self, received: ReceivedPacket) {
        for other in self.cores.others() {
            let Some(frame) = self.memory.take() else {
                self.tally.steering_lost += 1;
                return;
            };
            let packet = received.packet;
            let from = (packet.frame, packet.start as usize);
            let copy = ReceivedPacket {
                packet: Packet { frame, ..packet },
                ..received
            };
            let copied = (self.memory).copy(from, (frame, from.1), packet.len as usize);
            if !copied || self.cores.offer(other, Message::Copy(copy)).is_err() {
                self.lose(copy);
            }
        }
    }

    /// Returns frames of other cores.
    pub(in crate::engine) fn return_strays(&mut self) {
        while let Some(frame) = self.memory.next_stray() {
            let home = self.memory.part_of(frame) as u8;
            if self.cores.offer(home, Message::Frame(frame)).is_err() {
                self.memory.give(frame);
                break;
            }
        }
    }

    /// Core of a call, if it is another one.
    pub(in crate::engine) fn elsewhere(&self, call: &Call) -> Option<u8> {
        let owner = match *call {
            // A core without groups has no port to which answers could come.
            Call::Connect { .. } if self.cores.own_groups() == 0 => self.cores.owner(0),
            _ => self.cores.owner(group_of(call)?),
        };
        (owner != self.cores.id()).then_some(owner)
    }
}

/// Flow group of a call.
pub(super) fn group_of(call: &Call) -> Option<u8> {
    match *call {
        Call::Accept { handle, .. }
        | Call::Reject { handle }
        | Call::Send { handle, .. }
        | Call::Shutdown { handle }
        | Call::Close { handle }
        | Call::Abort { handle }
        | Call::Options { handle, .. }
        | Call::Info { handle } => Some(handle::group(handle)),
        Call::Passed { group } => Some(group),
        _ => None,
    }
}
