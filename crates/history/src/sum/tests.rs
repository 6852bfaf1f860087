use super::*;
use cofferdam_records::accounting::{ACCOUNTING, ConservationRecord, HealthRecord, SamplingRecord};
use cofferdam_types::Entitlement;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::time::SystemTime;

/// Numbers of which a few can be added without overflow.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1_000u64, 0..u64::MAX >> 16]
}

fn container(cpus: usize) -> impl Strategy<Value = ContainerRecord> {
    (
        (0..6u64, 0..2u8, vec(count(), 10)),
        (
            vec(count(), cpus),
            vec(count(), cpus),
            btree_map(0..4u64, count(), 0..3),
        ),
    )
        .prop_map(|((id, path, n), (caused, charged, received_from))| {
            let mut c = ContainerRecord {
                name: format!("c{id}"),
                cgroup_id: id,
                cgroup_path: format!("/c{id}/{path}"),
                id: None,
                runtime: "plain".into(),
                pod: None,
                netns: Some(4),
                host_network: false,
                caused_rx_ns: n[0],
                caused_tx_ns: n[1],
                caused_hardirq_ns: n[2],
                caused_ns: 0,
                rx_packets: n[3],
                rx_bytes: n[4],
                tx_packets: n[5],
                tx_bytes: n[6],
                charged_network_ns: n[7],
                charged_other_ns: n[8],
                owed_ns: 0,
                cpu_usage_ns: n[9],
                corrected_cpu_ns: 0,
                ns_per_packet: None,
                caused_by_cpu_ns: caused,
                charged_by_cpu_ns: charged,
                received_from,
                interval_95: None,
            };
            derive(&mut c);
            c
        })
}

fn cpu(number: u32) -> impl Strategy<Value = CpuRecord> {
    vec(count(), 10).prop_map(move |n| CpuRecord {
        cpu: number,
        softirq_ns: n[0],
        network_softirq_ns: n[1],
        hardirq_ns: n[2],
        napi_thread_ns: n[3],
        drain_ns: n[4],
        measured_ns: n[5],
        attributed_ns: n[6],
        charged_ns: n[7],
        charged_nobody_ns: n[8],
        charged_host_ns: n[9],
    })
}

fn loss() -> impl Strategy<Value = CpuLossRecord> {
    (0..6u64, vec(count(), 6)).prop_map(|(id, n)| CpuLossRecord {
        name: format!("c{id}"),
        cgroup_id: id,
        entitled_ns: n[0],
        entitled_by: Entitlement::ALL[id as usize % 4],
        got_ns: n[1],
        forced_sharing_ns: n[2],
        phantom_ns: n[3],
        throttled_ns: n[4],
        lack_ns: n[5],
        neighbour: None,
    })
}

/// Record whose set of CPUs differs between frames.
fn record() -> impl Strategy<Value = AccountingRecord> {
    (1..5usize, 0..3u32).prop_flat_map(|(cpus, first)| {
        let all: Vec<_> = (first..first + cpus as u32).map(cpu).collect();
        (
            all,
            vec(container(cpus), 0..6),
            btree_map("[a-c]", count(), 0..3),
            proptest::option::of(vec(loss(), 0..5)),
            count(),
        )
            .prop_map(|(cpus, containers, unattributed_ns, losses, n)| {
                let mut seen = std::collections::HashSet::new();
                let once = |c: &ContainerRecord| seen.insert(key(c));
                let mut lost = std::collections::HashSet::new();
                AccountingRecord {
                    schema: ACCOUNTING.into(),
                    time: String::new(),
                    interval_s: 0.0,
                    containers: containers.into_iter().filter(once).collect(),
                    unattributed_ns,
                    conservation: ConservationRecord {
                        measured_ns: n,
                        attributed_ns: n,
                        worst_cpu_error_pct: 0.5,
                    },
                    health: HealthRecord {
                        containers_without_slot: n,
                        events_lost: 0,
                        containers_gone: 0,
                        cpu_hotplugs: 0,
                        segments_rejected: 0,
                        markers_missed: 0,
                        softirqs_unseen: 0,
                        cpu_usage_unreadable: 0,
                    },
                    cpus,
                    // Whole seconds, whose sums are exact in any order.
                    accounting: n.is_multiple_of(2).then(|| SamplingRecord {
                        mode: if n % 8 == 0 { "exact" } else { "sampled" }.to_owned(),
                        windows: n % 8,
                        observed_s: (n % 8) as f64,
                        estimated_s: (n % 8 * 20) as f64,
                    }),
                    diagnosis: losses.map(|containers| DiagnosisRecord {
                        interval_s: 1.000_000_007,
                        counted_s: None,
                        containers: (containers.into_iter())
                            .filter(|c| lost.insert(c.cgroup_id))
                            .collect(),
                        idle_ns: n,
                        left_idle_ns: n / 2,
                        host_ns: n / 3,
                        containers_without_slot: 0,
                        mismatches: 0,
                        segments_rejected: 0,
                        shares: Vec::new(),
                        by_cpu: Vec::new(),
                    }),
                }
            })
    })
}

/// Frames that follow each other.
pub(crate) fn frames(most: usize) -> impl Strategy<Value = Vec<Frame>> {
    vec((record(), 1_000_000..2_000_000_000u64), 1..=most).prop_map(|all| {
        let mut at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_750_000_000);
        let frame = |(record, length_ns)| {
            let (start, length) = (at, Duration::from_nanos(length_ns));
            at += length;
            let alone = Frame {
                start,
                end: at,
                length,
                resolution: length,
                record,
                conditions: Vec::new(),
            };
            Sum::new(alone).finish()
        };
        all.into_iter().map(frame).collect()
    })
}

fn sum(frames: &[Frame]) -> Frame {
    let (first, rest) = frames.split_first().unwrap();
    let mut sum = Sum::new(first.clone());
    rest.iter().for_each(|f| sum.add(f));
    sum.finish()
}

/// Summable counts of a frame, by owner and field.
fn counts(frame: &Frame) -> HashMap<(String, String), u128> {
    let mut all = HashMap::new();
    let mut add = |who: &str, what: String, n: u64| {
        *all.entry((who.to_owned(), what)).or_default() += u128::from(n);
    };
    let record = &frame.record;
    for c in &record.containers {
        let who = format!("{} {}", c.cgroup_id, c.cgroup_path);
        let value = serde_json::to_value(c).unwrap();
        for (field, value) in value.as_object().unwrap() {
            let is_count =
                field.ends_with("_ns") || field.ends_with("packets") || field.ends_with("bytes");
            if let (true, Some(n)) = (is_count, value.as_u64()) {
                // Signed counts follow from the others.
                if !["owed_ns", "corrected_cpu_ns"].contains(&field.as_str()) {
                    add(&who, field.clone(), n);
                }
            }
        }
        for (at, cpu) in record.cpus.iter().enumerate() {
            add(
                &who,
                format!("caused on {}", cpu.cpu),
                c.caused_by_cpu_ns[at],
            );
            add(
                &who,
                format!("charged on {}", cpu.cpu),
                c.charged_by_cpu_ns[at],
            );
        }
        for (sender, packets) in &c.received_from {
            add(&who, format!("from {sender}"), *packets);
        }
    }
    for cpu in &record.cpus {
        let value = serde_json::to_value(cpu).unwrap();
        for (field, value) in value
            .as_object()
            .unwrap()
            .iter()
            .filter(|(f, _)| *f != "cpu")
        {
            add(
                &format!("cpu {}", cpu.cpu),
                field.clone(),
                value.as_u64().unwrap(),
            );
        }
    }
    for (reason, ns) in &record.unattributed_ns {
        add("nobody", reason.clone(), *ns);
    }
    if let Some(d) = &record.diagnosis {
        add("host", "idle".into(), d.idle_ns);
        add("host", "left idle".into(), d.left_idle_ns);
        add("host", "host".into(), d.host_ns);
        for c in &d.containers {
            let value = serde_json::to_value(c).unwrap();
            for (field, value) in value.as_object().unwrap() {
                if let (true, Some(n)) = (field.ends_with("_ns"), value.as_u64()) {
                    add(&format!("lost by {}", c.cgroup_id), field.clone(), n);
                }
            }
        }
    }
    add("time", "length".into(), frame.length.as_nanos() as u64);
    all.retain(|_, n| *n > 0);
    all
}

proptest! {
    /// Promise 16.
    #[test]
    fn a_sum_has_exactly_the_counts_of_its_frames(frames in frames(6)) {
        let mut expected: HashMap<_, u128> = HashMap::new();
        for frame in &frames {
            for (what, n) in counts(frame) {
                *expected.entry(what).or_default() += n;
            }
        }
        prop_assert_eq!(counts(&sum(&frames)), expected);
    }

    /// Promise 16.
    #[test]
    fn a_sum_of_sums_is_the_sum(frames in frames(6), cut in 1..6usize) {
        let cut = cut.min(frames.len());
        let (one, other) = frames.split_at(cut);
        let mut parts = vec![sum(one)];
        if !other.is_empty() {
            parts.push(sum(other));
        }
        prop_assert_eq!(sum(&parts), sum(&frames));
    }

    /// Promise 16.
    #[test]
    fn a_frame_survives_encoding_and_decoding(frames in frames(3)) {
        use crate::dictionary::{Entries, Entry, EntryId};
        struct All(Vec<Entry>);
        impl Entries for All {
            fn get(&mut self, id: EntryId) -> Option<Entry> {
                self.0.get(id as usize).cloned()
            }
        }
        let mut all = All(Vec::new());
        for frame in frames {
            let mut keys = |entry| {
                all.0.push(entry);
                Ok(all.0.len() as EntryId - 1)
            };
            let bytes = crate::body::encode(&frame, &mut keys).unwrap();
            let read = crate::body::read(&bytes, (frame.end, frame.length), &mut all);
            let mut expected = frame.record.clone();
            // A reason without time is left out.
            expected.unattributed_ns.retain(|_, ns| *ns > 0);
            prop_assert_eq!(read, Some((expected, frame.conditions)));
        }
    }
}

proptest! {
    /// Promise 16.
    #[test]
    fn foreign_bytes_never_decode_to_a_harmful_frame(
        frames in frames(1),
        flips in vec((any::<proptest::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut key = 0;
        let mut keys = |_| {
            key += 1;
            Ok(key)
        };
        let bytes = crate::body::encode(&frames[0], &mut keys).unwrap();
        let mut plain = lz4_flex::decompress_size_prepended(&bytes[1..]).unwrap();
        for (at, byte) in flips {
            let at = at.index(plain.len());
            plain[at] ^= byte;
        }
        let packed = [&[1][..], &lz4_flex::compress_prepend_size(&plain)].concat();
        for bytes in [&packed, &plain] {
            if let Some(frame) = crate::decode(bytes) {
                let mut sum = Sum::new(frame.clone());
                sum.add(&frame);
                prop_assert_eq!(sum.finish().length, 2 * frame.length);
            }
        }
    }
}

/// Promise 16.
#[test]
fn every_entitlement_can_be_stored() {
    for entitlement in Entitlement::ALL {
        assert!(crate::body::ENTITLEMENTS.contains(&entitlement));
    }
}
