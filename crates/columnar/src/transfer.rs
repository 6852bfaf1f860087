//! Transfers of one record, with few rows.

use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_records::flow::{flows, unpaid};
use std::collections::BTreeMap;

/// Offender for packets of no container: the host's own, forwarded ones.
pub const NO_CONTAINER: &str = "no container";
/// Offender of the row that sums up many small transfers to one victim.
pub const SMALL: &str = "small flows";
/// Victim for time that no container was charged for: it ran while the CPU was idle, or in tasks of
/// the host.
pub const NOBODY: &str = "nobody";
/// Share of a record's transfers below which a transfer is summed up per victim. So a record has
/// fewer rows than its inverse, and one more for each victim, however many containers interact.
pub const SMALL_SHARE: f64 = 0.001;

/// One end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Side<'a> {
    /// Container of the record.
    Container(&'a ContainerRecord),
    /// [`NO_CONTAINER`], [`SMALL`] or [`NOBODY`].
    Other(&'static str),
}

/// Network CPU that one side caused and the other was charged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer<'a> {
    /// Side that caused it.
    pub offender: Side<'a>,
    /// Side that was charged.
    pub victim: Side<'a>,
    /// CPU time on all CPUs, nanoseconds.
    pub ns: f64,
}

/// Transfers of `record`. For each container, the transfers as offender less those as victim are
/// its `owed_ns`, except for [`SMALL`] ones, which name no offender.
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

/// Returns `None` if a side is missing in the record, which `flows` and `unpaid` do not yield.
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
