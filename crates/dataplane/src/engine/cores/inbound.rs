//! Messages from other cores.

use super::message::{ForwardedCall, Message};
use super::steer::group_of;
use crate::abi::{Call, Entry};
use crate::engine::Engine;
use crate::engine::domain::Domain;
use crate::engine::offence::Offence;
use crate::handle;
use cofferdam_netstack::Time;
use cofferdam_xsk::Port;

impl<P: Port> Engine<P> {
    /// Takes at most a batch of messages from each core. Returns their number.
    pub(in crate::engine) fn take_messages(&mut self, now: Time) -> usize {
        let mut taken = 0;
        for other in self.cores.others() {
            let before = self.tally.steered_in;
            for _ in 0..self.options.batch {
                if self.cores.is_choked(other) {
                    break;
                }
                let Some(message) = self.cores.next_from(other) else {
                    break;
                };
                taken += 1;
                self.take_message(now, other, message);
            }
            let packets = self.tally.steered_in - before;
            if packets > 0 {
                let left = self.cores.waiting_from(other);
                self.tally.count_wait(packets, left);
            }
        }
        taken
    }

    pub(super) fn take_message(&mut self, now: Time, from: u8, message: Message) {
        match message {
            Message::Packet(received) => {
                self.tally.steered_in += 1;
                if self.steer(received) {
                    self.take_packet(now, received);
                }
            }
            Message::Copy(received) => self.take_packet(now, received),
            Message::Frame(frame) => {
                self.memory.give(frame);
            }
            Message::Call(forwarded) => self.forwarded(now, forwarded),
            Message::RecvDone { handle, len } => self.recv_done(now, handle, len),
            Message::Mark { group, to } => self.mark(group, to),
            Message::Flushed { group, to } => self.flushed(now, group, to),
            Message::Group(bundle) => self.arrive(now, from, *bundle),
        }
    }

    /// Diverts a call that is not for this core, or not yet: passes it to its core, or keeps it for
    /// its flow group. Returns whether it did.
    pub(in crate::engine) fn divert(&mut self, domain: &Domain, call: &Call, entry: Entry) -> bool {
        let to = self.elsewhere(call);
        let group = group_of(call).filter(|group| self.cores.arrival(*group).is_some());
        if to.is_none() && group.is_none() {
            return false;
        }
        let message = Message::Call(Box::new(ForwardedCall {
            place: domain.seat().place,
            generation: domain.seat().generation,
            entry,
        }));
        if let Some(to) = to {
            self.cores.send(to, message);
        } else if let Some(arrival) = group.and_then(|group| self.cores.arrival(group)) {
            arrival.waiting.push(message);
        }
        true
    }

    /// Executes a call that another core has passed on.
    fn forwarded(&mut self, now: Time, forwarded: Box<ForwardedCall>) {
        let Some(call) = Call::decode(&forwarded.entry) else {
            return;
        };
        if let Some(to) = self.elsewhere(&call) {
            return self.cores.send(to, Message::Call(forwarded));
        }
        if let Some(arrival) = group_of(&call).and_then(|group| self.cores.arrival(group)) {
            return arrival.waiting.push(Message::Call(forwarded));
        }
        let ForwardedCall {
            place, generation, ..
        } = *forwarded;
        let Some(mut domain) = self.domains.take(place) else {
            return;
        };
        if domain.seat().generation == generation && !domain.is_leaving() {
            let outcome: Result<(), Offence> = self.call(now, place, &mut domain, call);
            if let Err(offence) = outcome {
                domain.terminate(offence);
            }
        }
        self.domains.insert(domain);
    }

    /// Releases received data of a connection, which opens its window on any core.
    pub(in crate::engine) fn recv_done(&mut self, now: Time, handle: u64, len: u32) {
        let group = handle::group(handle);
        let owner = self.cores.owner(group);
        if owner != self.cores.id() {
            return self.cores.send(owner, Message::RecvDone { handle, len });
        }
        if let Some(arrival) = self.cores.arrival(group) {
            return arrival.waiting.push(Message::RecvDone { handle, len });
        }
        // The connection may have ended meanwhile.
        if let Some(connection) = self.local(handle) {
            let _ = self.stack.recv_done(now, connection, len, 1);
        }
    }
}
