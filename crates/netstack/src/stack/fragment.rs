//! Reassembly (RFC 791, 3.2; RFC 8200, 4.5) with limits: a fixed number of datagrams, 64 fragments
//! each, 30 s. An overlapping fragment discards its datagram (RFC 5722; also for IPv4, where no
//! correct sender causes it). An exact repetition is ignored.

use crate::api::Time;
use crate::core::siphash::Key;
use crate::tuning::belief::{MOST_FRAGMENTS, REASSEMBLY_TIME};
use crate::wire::address::Addr;
use crate::wire::packet::{Fragment, Packet};

/// Largest payload in bytes.
pub const MOST_BYTES: usize = 65_535;

/// Identifications of the fragmented packets of this stack. They increase by one from an
/// unpredictable start for each destination (RFC 7739, 5.3; RFC 6864, 4.3).
#[derive(Debug)]
pub struct Ids {
    key: Key,
    count: u32,
}

impl Ids {
    pub fn new(secret: &[u8; 16]) -> Self {
        Self {
            key: Key::new(secret, 9),
            count: 0,
        }
    }

    pub fn next(&mut self, destination: &Addr) -> u32 {
        self.count = self.count.wrapping_add(1);
        let words = u128::from_ne_bytes(destination.0);
        let start = self.key.hash(&[words as u64, (words >> 64) as u64]) as u32;
        start.wrapping_add(self.count)
    }
}

#[derive(Debug)]
struct Slot {
    used: bool,
    source: Addr,
    destination: Addr,
    id: u32,
    protocol: u8,
    until: Time,
    /// Received ranges in the order of their arrival.
    parts: [(u32, u32); MOST_FRAGMENTS],
    count: usize,
    received: u32,
    /// End of the last fragment, once that has arrived.
    total: Option<u32>,
    bytes: Vec<u8>,
}

/// Result of adding a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The fragment was added, or was already present.
    Kept,
    /// The fragment was dropped, possibly with its datagram.
    Dropped,
    /// The datagram is complete: its slot and length.
    Complete { slot: usize, len: usize },
}

/// Datagrams in reassembly.
#[derive(Debug)]
pub struct Reassembly {
    slots: Vec<Slot>,
}

impl Reassembly {
    pub fn new(count: u32) -> Self {
        let slot = || Slot {
            used: false,
            source: Addr::default(),
            destination: Addr::default(),
            id: 0,
            protocol: 0,
            until: Time::ZERO,
            parts: [(0, 0); MOST_FRAGMENTS],
            count: 0,
            received: 0,
            total: None,
            bytes: vec![0; MOST_BYTES],
        };
        Self {
            slots: (0..count).map(|_| slot()).collect(),
        }
    }

    /// Number of incomplete datagrams.
    pub fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.used).count()
    }

    /// Adds a fragment with its payload.
    pub fn take(
        &mut self,
        packet: &Packet,
        fragment: &Fragment,
        payload: &[u8],
        now: Time,
    ) -> Outcome {
        let (start, len) = (fragment.offset, payload.len() as u32);
        let end = start + len;
        if len == 0 || (fragment.more && len % 8 != 0) || end as usize > MOST_BYTES {
            return Outcome::Dropped;
        }
        let Some(index) = self.slot_for(packet, fragment, now) else {
            return Outcome::Dropped;
        };
        let slot = &mut self.slots[index];
        if slot.parts[..slot.count].contains(&(start, end)) {
            return Outcome::Kept;
        }
        let overlaps = slot.parts[..slot.count]
            .iter()
            .any(|(left, right)| start < *right && *left < end);
        let contradicts = match slot.total {
            Some(total) => end > total || !fragment.more,
            None => {
                !fragment.more
                    && slot.parts[..slot.count]
                        .iter()
                        .any(|(_, right)| *right > end)
            }
        };
        if overlaps || contradicts || slot.count == MOST_FRAGMENTS {
            slot.used = false;
            return Outcome::Dropped;
        }
        slot.parts[slot.count] = (start, end);
        slot.count += 1;
        slot.received += len;
        slot.bytes[start as usize..end as usize].copy_from_slice(payload);
        if !fragment.more {
            slot.total = Some(end);
        }
        if slot.total == Some(slot.received) {
            slot.used = false;
            return Outcome::Complete {
                slot: index,
                len: slot.received as usize,
            };
        }
        Outcome::Kept
    }

    /// Slot of the datagram: its own, a free one, an expired one, or the oldest.
    fn slot_for(&mut self, packet: &Packet, fragment: &Fragment, now: Time) -> Option<usize> {
        // Only IPv4 distinguishes datagrams by their protocol.
        let protocol = if packet.source.is_v4() {
            packet.protocol
        } else {
            0
        };
        let is = |slot: &Slot| {
            slot.used
                && slot.until > now
                && slot.id == fragment.id
                && slot.protocol == protocol
                && slot.source == packet.source
                && slot.destination == packet.destination
        };
        if let Some(index) = self.slots.iter().position(is) {
            return Some(index);
        }
        let rank = |slot: &Slot| if slot.used { slot.until } else { Time::ZERO };
        let (index, slot) = self
            .slots
            .iter_mut()
            .enumerate()
            .min_by_key(|(_, slot)| rank(slot))?;
        slot.used = true;
        (slot.source, slot.destination) = (packet.source, packet.destination);
        (slot.id, slot.protocol, slot.until) = (fragment.id, protocol, now + REASSEMBLY_TIME);
        (slot.count, slot.received, slot.total) = (0, 0, None);
        Some(index)
    }

    /// Bytes of a complete datagram.
    pub fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        &self.slots[slot].bytes[..len]
    }
}

impl Reassembly {
    /// Takes the bytes of a complete datagram out, so that the stack may read them while it
    /// changes. [`Self::return_bytes`] returns them.
    pub fn lend(&mut self, slot: usize) -> Vec<u8> {
        std::mem::take(&mut self.slots[slot].bytes)
    }

    pub fn return_bytes(&mut self, slot: usize, bytes: Vec<u8>) {
        self.slots[slot].bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::{IpAddr, Ipv6Addr};

    /// RFC 7739, 5.3; RFC 6864, 4.3.
    /// Promise 60.
    #[test]
    fn identifications_repeat_late_and_differ_per_destination() {
        let to = |last| Addr::from(IpAddr::from(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last)));
        let mut ids = Ids::new(&[7; 16]);
        // IPv4 has identifications of 16 bits.
        let all: HashSet<u16> = (0..=u16::MAX).map(|_| ids.next(&to(2)) as u16).collect();
        assert_eq!(all.len(), 1 << 16);
        let starts: HashSet<u32> = (0..1000)
            .map(|last| Ids::new(&[7; 16]).next(&to(last)))
            .collect();
        assert!(starts.len() >= 999);
        assert_ne!(
            Ids::new(&[7; 16]).next(&to(2)),
            Ids::new(&[8; 16]).next(&to(2))
        );
    }
}
