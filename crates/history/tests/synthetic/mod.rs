//! Synthetic frames.

use cofferdam_history::{Frame, Limits, Reader, Store};
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::status::{ConditionRecord, PAYS};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Begin of a minute, of half an hour and of a day of the wall clock.
pub fn begin() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_750_032_000)
}

/// Ledger of `containers` containers over one second that ends at `end`. Its counts depend on
/// `seed` alone.
pub fn record(end: SystemTime, containers: u64, seed: u64) -> AccountingRecord {
    let container = |id: u64| {
        let n = seed.wrapping_mul(31).wrapping_add(id * 7) % 1_000_000;
        json!({
            "name": format!("web-{id}"), "cgroup_id": 1000 + id,
            "cgroup_path": format!("/machine/web-{id}"),
            "id": format!("{:064x}", id * 0x9e37_79b9), "runtime": "docker", "pod": null,
            "netns": 4_026_532_000 + id,
            "host_network": false, "caused_rx_ns": n, "caused_tx_ns": n / 2, "caused_hardirq_ns": 0,
            "caused_ns": n + n / 2, "rx_packets": n / 100, "rx_bytes": n, "tx_packets": 0,
            "tx_bytes": 0, "charged_network_ns": n / 3, "charged_other_ns": 5,
            "owed_ns": n + n / 2 - n / 3, "cpu_usage_ns": 2 * n,
            "corrected_cpu_ns": 2 * n + n + n / 2 - n / 3,
            "ns_per_packet": (n >= 100).then(|| (n + n / 2) as f64 / (n / 100) as f64),
            "caused_by_cpu_ns": [n, n / 2], "charged_by_cpu_ns": [n / 3, 0], "received_from": {},
        })
    };
    let cpu = |cpu: u64| {
        json!({
            "cpu": cpu, "softirq_ns": seed, "network_softirq_ns": seed, "hardirq_ns": 0,
            "napi_thread_ns": 0, "drain_ns": 0, "measured_ns": seed, "attributed_ns": seed,
            "charged_ns": seed, "charged_nobody_ns": 0, "charged_host_ns": 0,
        })
    };
    let mut record: AccountingRecord = serde_json::from_value(json!({
        "schema": "cofferdam.accounting/2", "time": cofferdam_records::time(end),
        "interval_s": 1.0, "containers": (0..containers).map(container).collect::<Vec<_>>(),
        "unattributed_ns": {"host_traffic": seed + 1},
        "conservation": {"measured_ns": 9, "attributed_ns": 9, "worst_cpu_error_pct": 0.25},
        "health": {
            "containers_without_slot": 0, "events_lost": 0, "containers_gone": 0, "cpu_hotplugs": 0,
            "segments_rejected": 0, "markers_missed": 0, "softirqs_unseen": 0,
            "cpu_usage_unreadable": 0,
        },
        "cpus": [cpu(0), cpu(1)],
    }))
    .expect("it has every field");
    record.containers.sort_by_key(|c| (-c.owed_ns, c.cgroup_id));
    record
}

/// Frame of one second that ends at `end`.
pub fn frame(end: SystemTime, containers: u64, seed: u64) -> Frame {
    let condition = ConditionRecord {
        name: PAYS.into(),
        container: "web-0".into(),
        cgroup_id: 1000,
        cpus: 0.25,
        since: cofferdam_records::time(begin()),
        for_s: 1.5,
    };
    Frame::new(record(end, containers, seed), vec![condition]).expect("it is dated")
}

/// Appends seconds `from` to `until` since [`begin`], each with its number as the seed.
pub fn append(store: &mut Store, seconds: std::ops::Range<u64>) {
    for second in seconds {
        let end = begin() + Duration::from_secs(second + 1);
        store
            .append(&frame(end, 2, second))
            .expect("it is appended");
    }
}

pub fn open(path: &Path) -> Store {
    Store::open(path, Limits::default()).expect("the store opens")
}

/// All frames between two times, at the finest resolution.
pub fn all(path: &Path) -> Vec<Frame> {
    let mut reader = Reader::open(path).expect("the store opens");
    let mut frames = Vec::new();
    let Some((from, to)) = reader.extent().expect("it is read") else {
        return frames;
    };
    let second = Duration::from_secs(1);
    let taken = reader.each(from, to + second, second, |frame| {
        frames.push(frame);
        std::ops::ControlFlow::Continue(())
    });
    taken.expect("it is read");
    assert_eq!(reader.damage(), []);
    frames
}

/// Sum of the traffic of the host in the frames of a store.
#[allow(dead_code, reason = "not every program of tests uses it")]
pub fn host_traffic_ns(frames: &[Frame]) -> u64 {
    frames
        .iter()
        .map(|f| f.record.unattributed_ns["host_traffic"])
        .sum()
}
