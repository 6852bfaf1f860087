//! Who caused what who was charged, in one record, with few rows.

use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_records::flow::{flows, unpaid};
use std::collections::BTreeMap;

/// Offender of what was charged for packets of no container: the host's own, forwarded ones.
pub const NO_CONTAINER: &str = "no container";
/// Offender of many small flows to one victim, in one row.
pub const SMALL: &str = "small flows";
/// Victim of what no container was charged for: it ran while the CPU was idle, or in time of the host.
pub const NOBODY: &str = "nobody";
/// Flows below this share of a record's are summed for each victim. So a record has fewer rows than
/// its inverse, and one more for each victim, however many containers have to do with each other.
pub const SMALL_SHARE: f64 = 0.001;

/// One end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Side<'a> {
    /// A container.
    Container(&'a ContainerRecord),
    /// [`NO_CONTAINER`], [`SMALL`] or [`NOBODY`].
    Other(&'static str),
}

/// Network CPU that one side caused and the other was charged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer<'a> {
    /// Who caused it.
    pub offender: Side<'a>,
    /// Who was charged.
    pub victim: Side<'a>,
    /// How much on all CPUs, nanoseconds.
    pub ns: f64,
}

/// The transfers of `record`. For each container those as offender less those as victim are its
/// `owed_ns`, but for [`SMALL`] ones, which name no offender.
pub fn transfers(record: &AccountingRecord) -> Vec<Transfer<'_>> {
    let containers: BTreeMap<u64, &ContainerRecord> = (record.containers.iter())
        .map(|c| (c.cgroup_id, c))
        .collect();
    let container = |id: u64| containers.get(&id).map(|c| Side::Container(c));
    let mut sums: BTreeMap<(Option<u64>, u64), f64> = BTreeMap::new();
    for flow in flows(record) {
        *sums.entry((flow.offender, flow.victim)).or_default() += flow.ns;
    }
    let all_ns: f64 = sums.values().sum();
    let mut small: BTreeMap<u64, f64> = BTreeMap::new();
    let mut found = Vec::new();
    for ((offender, victim), ns) in sums {
        if ns < all_ns * SMALL_SHARE && offender.is_some() {
            *small.entry(victim).or_default() += ns;
            continue;
        }
        let offender = match offender {
            Some(id) => container(id),
            None => Some(Side::Other(NO_CONTAINER)),
        };
        found.extend(transfer(offender, container(victim), ns));
    }
    for (victim, ns) in small {
        found.extend(transfer(Some(Side::Other(SMALL)), container(victim), ns));
    }
    let mut idle: BTreeMap<u64, f64> = BTreeMap::new();
    for left in unpaid(record) {
        *idle.entry(left.offender).or_default() += left.ns;
    }
    for (offender, ns) in idle {
        found.extend(transfer(container(offender), Some(Side::Other(NOBODY)), ns));
    }
    found
}

/// Nothing if either side is not in the record, which `flows` and `unpaid` do not do.
fn transfer<'a>(
    offender: Option<Side<'a>>,
    victim: Option<Side<'a>>,
    ns: f64,
) -> Option<Transfer<'a>> {
    Some(Transfer {
        offender: offender?,
        victim: victim?,
        ns,
    })
}
