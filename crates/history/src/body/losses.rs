//! Diagnosis of a frame, one column per count.

use super::{Entries, Entry, EntryId, Keys, LOST};
use cofferdam_records::accounting::ContainerRecord;
use cofferdam_records::diagnosis::{CpuLossRecord, DiagnosisRecord, NeighbourRecord};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

#[derive(Serialize, Deserialize)]
pub(super) struct Diagnosis {
    interval_ns: u64,
    /// Idle, left idle, host, without slot, mismatches, rejected.
    counts: [u64; 6],
    who: Vec<Who>,
    entitled_by: Vec<u8>,
    neighbour: Vec<Behind>,
    /// Entitled, got, forced sharing, phantom, throttled, lack: six per container.
    times_ns: Vec<u64>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Who {
    /// Row of the ledger.
    Row(u32),
    /// Container that is not in the ledger: its name and its cgroup id.
    Other(EntryId, u64),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Behind {
    Nobody,
    Host,
    Container(EntryId),
}

/// Entitlements; a frame has their index here.
pub(crate) const ENTITLEMENTS: [cofferdam_types::Entitlement; 4] = [
    cofferdam_types::Entitlement::Reserved,
    cofferdam_types::Entitlement::Weight,
    cofferdam_types::Entitlement::Quota,
    cofferdam_types::Entitlement::Cpuset,
];

impl Diagnosis {
    pub fn new(
        record: &DiagnosisRecord,
        ledger: &[ContainerRecord],
        keys: &mut Keys<'_>,
    ) -> rusqlite::Result<Diagnosis> {
        let rows = ledger.iter().enumerate();
        let rows: HashMap<(u64, &str), u32> = rows
            .map(|(row, c)| ((c.cgroup_id, c.name.as_str()), row as u32))
            .collect();
        let mut to = Diagnosis {
            interval_ns: (record.interval_s * 1e9).round() as u64,
            counts: [
                record.idle_ns,
                record.left_idle_ns,
                record.host_ns,
                record.containers_without_slot,
                record.mismatches,
                record.segments_rejected,
            ],
            who: Vec::new(),
            entitled_by: Vec::new(),
            neighbour: Vec::new(),
            times_ns: Vec::new(),
        };
        for c in &record.containers {
            to.who
                .push(match rows.get(&(c.cgroup_id, c.name.as_str())) {
                    Some(row) => Who::Row(*row),
                    None => Who::Other(keys(Entry::Word(c.name.clone()))?, c.cgroup_id),
                });
            let place = ENTITLEMENTS.iter().position(|e| *e == c.entitled_by);
            to.entitled_by.push(place.unwrap_or(0) as u8);
            to.neighbour.push(match &c.neighbour {
                None => Behind::Nobody,
                Some(NeighbourRecord::Host) => Behind::Host,
                Some(NeighbourRecord::Container { name }) => {
                    Behind::Container(keys(Entry::Word(name.clone()))?)
                }
            });
            to.times_ns.extend([
                c.entitled_ns,
                c.got_ns,
                c.forced_sharing_ns,
                c.phantom_ns,
                c.throttled_ns,
                c.lack_ns,
            ]);
        }
        Ok(to)
    }

    /// Converts the columns to a record. `None` if their lengths differ.
    pub fn record(
        self,
        ledger: &[ContainerRecord],
        entries: &mut dyn Entries,
    ) -> Option<DiagnosisRecord> {
        let rows = self.who.len();
        if self.entitled_by.len() != rows
            || self.neighbour.len() != rows
            || self.times_ns.len() != rows.checked_mul(6)?
        {
            return None;
        }
        let mut word = |id| match entries.get(id) {
            Some(Entry::Word(text)) => text,
            _ => LOST.to_owned(),
        };
        let mut containers = Vec::with_capacity(rows);
        for (row, times) in self.times_ns.chunks_exact(6).enumerate() {
            let (name, cgroup_id) = match self.who[row] {
                Who::Row(at) => {
                    let c = ledger.get(at as usize)?;
                    (c.name.clone(), c.cgroup_id)
                }
                Who::Other(name, cgroup_id) => (word(name), cgroup_id),
            };
            containers.push(CpuLossRecord {
                name,
                cgroup_id,
                entitled_ns: times[0],
                entitled_by: *ENTITLEMENTS.get(usize::from(self.entitled_by[row]))?,
                got_ns: times[1],
                forced_sharing_ns: times[2],
                phantom_ns: times[3],
                throttled_ns: times[4],
                lack_ns: times[5],
                neighbour: match self.neighbour[row] {
                    Behind::Nobody => None,
                    Behind::Host => Some(NeighbourRecord::Host),
                    Behind::Container(name) => {
                        Some(NeighbourRecord::Container { name: word(name) })
                    }
                },
            });
        }
        let c = self.counts;
        Some(DiagnosisRecord {
            interval_s: self.interval_ns as f64 / 1e9,
            counted_s: None,
            containers,
            idle_ns: c[0],
            left_idle_ns: c[1],
            host_ns: c[2],
            containers_without_slot: c[3],
            mismatches: c[4],
            segments_rejected: c[5],
            shares: Vec::new(),
            by_cpu: Vec::new(),
        })
    }
}
