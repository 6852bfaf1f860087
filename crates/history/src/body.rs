//! Bytes of a frame: the fields that do not follow from the rest, in columns, compressed.
//!
//! One byte of format, then LZ4 of postcard. Counts are variable-length integers, so that idle
//! containers take a few bytes; containers and words are keys of the dictionary. Totals, ratios and
//! the schema's name are derived when a frame is read.

use crate::dictionary::{Entries, Entry, EntryId, Identity};
use crate::frame::Frame;
use crate::sum::derive;
use crate::wall;
use cofferdam_records::accounting::{
    ACCOUNTING, AccountingRecord, ConservationRecord, ContainerRecord, CpuRecord, HealthRecord,
    SamplingRecord,
};
use cofferdam_records::status::ConditionRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

mod columns;
mod losses;

use columns::Containers;
use losses::Diagnosis;
#[cfg(test)]
pub(crate) use losses::ENTITLEMENTS;

/// First byte of a frame whose time was measured completely.
const FORMAT: u8 = 1;
/// First byte of a frame that has a [`SamplingBody`] before its body.
const SAMPLED: u8 = 2;
/// Largest frame of a valid store, bytes: 10,000 containers take 4 MiB.
const LARGEST_BYTES: usize = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Body {
    conservation: (u64, u64, f64),
    health: [u64; 8],
    unattributed: Vec<(EntryId, u64)>,
    cpus: Vec<[u64; 11]>,
    containers: Containers,
    diagnosis: Option<Diagnosis>,
    conditions: Vec<Condition>,
}

/// Accounting mode of a frame, if its record has one. The confidence intervals of the figures are
/// not stored: those of a longer time do not follow from those of its parts.
#[derive(Serialize, Deserialize)]
struct SamplingBody {
    mode: String,
    windows: u64,
    observed_s: f64,
    estimated_s: f64,
}

#[derive(Serialize, Deserialize)]
struct Condition {
    name: EntryId,
    container: EntryId,
    cgroup_id: u64,
    cpus: f64,
    since: i64,
    for_s: f64,
}

/// Function that maps entries to their keys while a frame is encoded.
pub(crate) type Keys<'a> = dyn FnMut(Entry) -> rusqlite::Result<EntryId> + 'a;

/// Encodes `frame`'s record and conditions. The row has its times.
pub(crate) fn encode(frame: &Frame, keys: &mut Keys<'_>) -> rusqlite::Result<Vec<u8>> {
    let record = &frame.record;
    let mut word = |text: &str| keys(Entry::Word(text.to_owned()));
    let mut unattributed = Vec::with_capacity(record.unattributed_ns.len());
    for (reason, ns) in record.unattributed_ns.iter().filter(|(_, ns)| **ns > 0) {
        unattributed.push((word(reason)?, *ns));
    }
    let mut conditions = Vec::with_capacity(frame.conditions.len());
    for c in &frame.conditions {
        conditions.push(Condition {
            name: word(&c.name)?,
            container: word(&c.container)?,
            cgroup_id: c.cgroup_id,
            cpus: c.cpus,
            since: humantime::parse_rfc3339_weak(&c.since).map_or(0, wall::ms),
            for_s: c.for_s,
        });
    }
    let c = &record.conservation;
    let h = &record.health;
    let body = Body {
        conservation: (c.measured_ns, c.attributed_ns, c.worst_cpu_error_pct),
        health: [
            h.containers_without_slot,
            h.events_lost,
            h.containers_gone,
            h.cpu_hotplugs,
            h.segments_rejected,
            h.markers_missed,
            h.softirqs_unseen,
            h.cpu_usage_unreadable,
        ],
        unattributed,
        cpus: record.cpus.iter().map(cpu_row).collect(),
        containers: Containers::new(&record.containers, record.cpus.len(), keys)?,
        diagnosis: match &record.diagnosis {
            Some(diagnosis) => Some(Diagnosis::new(diagnosis, &record.containers, keys)?),
            None => None,
        },
        conditions,
    };
    let sampled = record.accounting.as_ref().map(|a| SamplingBody {
        mode: a.mode.clone(),
        windows: a.windows,
        observed_s: a.observed_s,
        estimated_s: a.estimated_s,
    });
    let plain = match &sampled {
        Some(sampled) => postcard::to_stdvec(&(sampled, &body)),
        None => postcard::to_stdvec(&body),
    };
    let plain = plain.expect("numbers can be serialised");
    let mut bytes = Vec::with_capacity(plain.len() / 2);
    bytes.push(if sampled.is_some() { SAMPLED } else { FORMAT });
    bytes.extend(lz4_flex::compress_prepend_size(&plain));
    Ok(bytes)
}

/// Decodes the record and the conditions in `bytes`, of a frame that ends at `end` and is `length`
/// long. `None` if they are incomplete. A fuzzer calls this directly; a store's rows have a
/// checksum before it.
pub(crate) fn read(
    bytes: &[u8],
    (end, length): (SystemTime, Duration),
    entries: &mut dyn Entries,
) -> Option<(AccountingRecord, Vec<ConditionRecord>)> {
    let (&format @ (FORMAT | SAMPLED), packed) = bytes.split_first()? else {
        return None;
    };
    let size = u32::from_le_bytes(packed.first_chunk::<4>().copied()?) as usize;
    // LZ4 compresses at most 255 bytes into one.
    if size > LARGEST_BYTES || size / 256 > packed.len() {
        return None;
    }
    let plain = lz4_flex::decompress_size_prepended(packed).ok()?;
    let (sampled, body): (Option<SamplingBody>, Body) = match format {
        SAMPLED => {
            let (sampled, body) = postcard::from_bytes(&plain).ok()?;
            (Some(sampled), body)
        }
        _ => (None, postcard::from_bytes(&plain).ok()?),
    };
    let mut word = |id| match entries.get(id) {
        Some(Entry::Word(text)) => text,
        _ => LOST.to_owned(),
    };
    let mut unattributed_ns = BTreeMap::new();
    for (reason, ns) in body.unattributed {
        let sum: &mut u64 = unattributed_ns.entry(word(reason)).or_default();
        *sum = sum.saturating_add(ns);
    }
    let conditions = body.conditions.iter().map(|c| ConditionRecord {
        name: word(c.name),
        container: word(c.container),
        cgroup_id: c.cgroup_id,
        cpus: c.cpus,
        since: cofferdam_records::time(wall::time(c.since)),
        for_s: c.for_s,
    });
    let conditions = conditions.collect();
    let containers = body.containers.records(body.cpus.len(), entries)?;
    let diagnosis = match body.diagnosis {
        Some(diagnosis) => Some(diagnosis.record(&containers, entries)?),
        None => None,
    };
    let (measured_ns, attributed_ns, worst_cpu_error_pct) = body.conservation;
    let h = body.health;
    let record = AccountingRecord {
        schema: ACCOUNTING.to_owned(),
        time: cofferdam_records::time(end),
        interval_s: length.as_secs_f64(),
        containers,
        unattributed_ns,
        conservation: ConservationRecord {
            measured_ns,
            attributed_ns,
            worst_cpu_error_pct,
        },
        health: HealthRecord {
            containers_without_slot: h[0],
            events_lost: h[1],
            containers_gone: h[2],
            cpu_hotplugs: h[3],
            segments_rejected: h[4],
            markers_missed: h[5],
            softirqs_unseen: h[6],
            cpu_usage_unreadable: h[7],
        },
        cpus: body.cpus.iter().map(cpu_record).collect(),
        accounting: sampled.map(|s| SamplingRecord {
            mode: s.mode,
            windows: s.windows,
            observed_s: s.observed_s,
            estimated_s: s.estimated_s,
        }),
        diagnosis,
    };
    Some((record, conditions))
}

/// Decodes a frame of one second with an unreadable dictionary. `None` if `bytes` is no frame. For
/// a fuzzer: foreign bytes must not do more harm than that.
pub fn decode(bytes: &[u8]) -> Option<Frame> {
    struct EmptyDictionary;
    impl Entries for EmptyDictionary {
        fn get(&mut self, _: EntryId) -> Option<Entry> {
            None
        }
    }
    let length = Duration::from_secs(1);
    let (start, end) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + length);
    let (record, conditions) = read(bytes, (end, length), &mut EmptyDictionary)?;
    Some(Frame {
        start,
        end,
        length,
        resolution: length,
        record,
        conditions,
    })
}

/// Placeholder for an entry of the dictionary that cannot be read.
pub(crate) const LOST: &str = "(name lost)";

fn cpu_row(c: &CpuRecord) -> [u64; 11] {
    [
        u64::from(c.cpu),
        c.softirq_ns,
        c.network_softirq_ns,
        c.hardirq_ns,
        c.napi_thread_ns,
        c.drain_ns,
        c.measured_ns,
        c.attributed_ns,
        c.charged_ns,
        c.charged_nobody_ns,
        c.charged_host_ns,
    ]
}

fn cpu_record(c: &[u64; 11]) -> CpuRecord {
    CpuRecord {
        cpu: c[0] as u32,
        softirq_ns: c[1],
        network_softirq_ns: c[2],
        hardirq_ns: c[3],
        napi_thread_ns: c[4],
        drain_ns: c[5],
        measured_ns: c[6],
        attributed_ns: c[7],
        charged_ns: c[8],
        charged_nobody_ns: c[9],
        charged_host_ns: c[10],
    }
}

fn identity(c: &ContainerRecord) -> Identity {
    Identity {
        name: c.name.clone(),
        cgroup_id: c.cgroup_id,
        cgroup_path: c.cgroup_path.clone(),
        id: c.id.clone(),
        runtime: c.runtime.clone(),
        pod: c.pod.clone(),
        netns: c.netns,
        host_network: c.host_network,
    }
}
