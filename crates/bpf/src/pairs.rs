//! Which container sends to which: the map `pairs`.

use crate::skeleton::types::cf_pair;
use libbpf_rs::{MapCore, MapFlags};
use std::mem::{offset_of, size_of};

/// Packets that one container sent to another on this host, through the softirqs of all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairReading {
    /// Row of the sender.
    pub sender: u32,
    /// Row of the receiver.
    pub receiver: u32,
    /// Packets queued to the receiver's interface, segments of a super-packet counted. A queue
    /// behind it may still drop some.
    pub packets: u64,
}

impl PairReading {
    /// A key and a value of the map. `None` when they have other lengths.
    pub fn of(key: &[u8], value: &[u8]) -> Option<PairReading> {
        let row = |offset: usize| {
            let bytes = key.get(offset..offset + size_of::<u32>())?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        Some(PairReading {
            sender: row(offset_of!(cf_pair, sender))?,
            receiver: row(offset_of!(cf_pair, receiver))?,
            packets: u64::from_ne_bytes(value.try_into().ok()?),
        })
    }
}

/// Pairs read with one system call.
const AT_ONCE: u32 = 1024;

/// All pairs, in no order.
pub(crate) fn read(map: &impl MapCore) -> libbpf_rs::Result<Vec<PairReading>> {
    let all = map.lookup_batch(AT_ONCE, MapFlags::ANY, MapFlags::ANY)?;
    Ok(all
        .filter_map(|(key, value)| PairReading::of(&key, &value))
        .collect())
}

/// Forgets the pairs that `row` is part of.
pub(crate) fn remove(map: &impl MapCore, row: u32) {
    let own = |key: &Vec<u8>| {
        PairReading::of(key, &[0; 8]).is_some_and(|pair| pair.sender == row || pair.receiver == row)
    };
    for key in map.keys().filter(own).collect::<Vec<_>>() {
        let _ = map.delete(&key);
    }
}
