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

/// Each key of the map with its pair, in no order.
fn entries(map: &impl MapCore) -> libbpf_rs::Result<impl Iterator<Item = (Vec<u8>, PairReading)>> {
    let all = map.lookup_batch(AT_ONCE, MapFlags::ANY, MapFlags::ANY)?;
    Ok(all.filter_map(|(key, value)| PairReading::of(&key, &value).map(|pair| (key, pair))))
}

/// All pairs, in no order.
pub(crate) fn read(map: &impl MapCore) -> libbpf_rs::Result<Vec<PairReading>> {
    Ok(entries(map)?.map(|(_, pair)| pair).collect())
}

/// Forgets the pairs that `row` is part of.
pub(crate) fn remove(map: &impl MapCore, row: u32) {
    let all = entries(map).into_iter().flatten();
    let own = all.filter(|(_, pair)| pair.sender == row || pair.receiver == row);
    for (key, _) in own.collect::<Vec<_>>() {
        let _ = map.delete(&key);
    }
}
