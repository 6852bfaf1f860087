use super::*;
use crate::metrics::tests::full;
use cofferdam_types::{Container, ContainerLedger, CpuId, CpuTime, Health, Ledger};
use std::collections::BTreeMap;
use std::time::SystemTime;

const MS: u64 = 1_000_000;

fn row(id: u64, name: &str, caused_ms: u64, charged_ms: u64) -> ContainerLedger {
    let container = Container::plain(CgroupId(id), format!("/{name}"), name);
    ContainerLedger {
        container: Arc::new(container),
        ledger: Ledger {
            caused_rx_ns: caused_ms * MS,
            charged_network_ns: charged_ms * MS,
            ..Ledger::default()
        },
        caused_by_cpu_ns: vec![caused_ms * MS],
        charged_by_cpu_ns: vec![charged_ms * MS],
        interruptions_by_cpu: vec![0],
        received_from: BTreeMap::default(),
    }
}

/// Snapshot `tenths` of a second after the start. In each tenth `db` pays 30 ms for packets of
/// `web`.
fn snapshot(tenths: u64) -> Arc<Snapshot> {
    Arc::new(Snapshot {
        time: SystemTime::UNIX_EPOCH + Duration::from_millis(tenths * 100),
        uptime: Duration::from_millis(tenths * 100),
        cpus: vec![(CpuId(0), CpuTime::default())],
        containers: vec![row(1, "web", tenths * 30, 0), row(2, "db", 0, tenths * 30)],
        unattributed_ns: BTreeMap::new(),
        health: Health::default(),
        sampling: None,
    })
}

/// Readings of a control loop that ran for `seconds`, in steps of a tenth of a second.
fn watched(seconds: u64, status: &EnforcementStatus) -> RecentReadings {
    let mut recent = RecentReadings::default();
    for tenths in 0..=seconds * 10 {
        if let Some(next) = recent.with_reading(&snapshot(tenths), &Arc::default(), status) {
            recent = next;
        }
    }
    recent
}

/// Promise 12.
#[test]
fn the_last_seconds_have_one_answer_for_all_clients() {
    let report = full(0).report(None, &[]);
    assert_eq!(report.harm, None, "nothing was watched");
    let status = EnforcementStatus::default();
    assert_eq!(
        watched(1, &status).harm(&report),
        None,
        "one interval says little"
    );
    for seconds in [2, 3, 60] {
        let recent = watched(seconds, &status);
        let harm = recent.harm(&report).unwrap();
        let sentence = "web takes 0.30 CPUs from db for its packets.";
        assert_eq!(harm.findings[0].sentence, sentence);
        let most = MAX_INTERVALS as u64;
        assert_eq!(harm.figures.readings, seconds.min(most));
        assert_eq!(recent.harm(&report), Some(harm));
    }
}

/// Promise 12.
#[test]
fn the_window_of_readings_is_bounded() {
    let recent = watched(600, &EnforcementStatus::default());
    assert_eq!(recent.moments.len(), MAX_INTERVALS + 1);
}
