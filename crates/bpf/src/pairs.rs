//! Packets between containers: the map `pairs`.

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
    /// Packets queued to the receiver's interface, with the segments of super-packets. A queue
    /// behind it may still drop some.
    pub packets: u64,
}

impl PairReading {
    /// Decodes a key and a value of the map. `None` if they have other lengths.
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

/// Number of pairs that one system call reads.
const AT_ONCE: u32 = 1024;

/// Iterates over the keys of the map with their pairs, in no order.
fn entries(map: &impl MapCore) -> libbpf_rs::Result<impl Iterator<Item = (Vec<u8>, PairReading)>> {
    let all = map.lookup_batch(AT_ONCE, MapFlags::ANY, MapFlags::ANY)?;
    Ok(all.filter_map(|(key, value)| PairReading::of(&key, &value).map(|pair| (key, pair))))
}

/// Reads all pairs, in no order.
pub(crate) fn read(map: &impl MapCore) -> libbpf_rs::Result<Vec<PairReading>> {
    Ok(entries(map)?.map(|(_, pair)| pair).collect())
}

/// Removes the pairs that include `row`.
pub(crate) fn remove(map: &impl MapCore, row: u32) {
    let all = entries(map).into_iter().flatten();
    let own = all.filter(|(_, pair)| pair.sender == row || pair.receiver == row);
    for (key, _) in own.collect::<Vec<_>>() {
        let _ = map.delete(&key);
    }
}
