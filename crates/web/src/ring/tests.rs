use super::*;
use crate::feed::tests::reading;
use std::time::UNIX_EPOCH;

const MS: u64 = 1_000_000;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

/// Promise 14.
#[test]
fn the_past_is_bounded_in_time() {
    let mut ring = Ring::default();
    let seconds = 2 * KEPT.as_secs();
    for second in 0..seconds {
        ring.push(&reading(&[(7, "web", [100 + second, 30, 10])]), at(second));
    }
    let (first, last) = ring.extent().unwrap().unwrap();
    assert_eq!(last, at(seconds - 1));
    assert_eq!(last.duration_since(first).unwrap(), KEPT);
    let found = ring.at(at(seconds - 10)).unwrap().unwrap();
    let web = &found.containers[0];
    assert_eq!(
        (web.name.as_str(), web.cgroup_path.as_str()),
        ("web", "/tenants/7")
    );
    assert_eq!(web.caused_by_cpu_ns, [30 * MS, 0]);
    assert_eq!(web.owed_ns, 20 * MS as i64);
    // The record loses half a microsecond to rounding.
    assert!(web.caused_ns.abs_diff(30 * MS) < 500, "{}", web.caused_ns);
    assert_eq!(found.time, cofferdam_records::time(at(seconds - 10)));
    assert!(ring.at(at(0)).unwrap().is_none(), "that is forgotten");
    // A moment after the last interval yields the last one.
    assert!(ring.at(at(10 * seconds)).unwrap().is_some());
}

/// Promise 14.
#[test]
fn many_containers_are_bounded_in_bytes() {
    let mut ring = Ring::default();
    for second in 0..200 {
        let all: Vec<_> = (0..2000_u64)
            .map(|n| (second * 2000 + n, "short-lived", [10, 5, 1]))
            .collect();
        ring.push(&reading(&all), at(second));
        assert!(ring.bytes() <= MOST_BYTES, "{} bytes", ring.bytes());
    }
    let rows: usize = ring.intervals.iter().map(|k| k.ledger.len()).sum();
    assert!(rows > 10_000, "{rows} rows");
    assert!(
        ring.identities.len() <= rows,
        "{} names for {rows} rows",
        ring.identities.len()
    );
    assert_eq!(ring.name(0), None);
    assert_eq!(ring.name(199 * 2000).as_deref(), Some("short-lived"));
}

/// Promise 14.
#[test]
fn setting_the_clock_back_loses_nothing() {
    let mut ring = Ring::default();
    for second in [1000, 1001, 10, 11, 12] {
        ring.push(&reading(&[(1, "web", [1, 1, 1])]), at(second));
    }
    assert_eq!(ring.intervals.len(), 5);
    let mut seen = 0;
    ring.visit(at(9), at(12), INTERVAL, &mut |_| seen += 1)
        .unwrap();
    assert_eq!(seen, 3);
    assert!(ring.at(at(500)).unwrap().is_some());
}

const INTERVAL: Duration = Duration::from_secs(1);

#[test]
fn idle_containers_are_dropped_and_losses_stored() {
    let mut one = reading(&[(1, "idle", [0, 0, 0]), (2, "busy", [500, 0, 0])]);
    one.status.diagnosis = Some(crate::feed::tests::losses(1, 250));
    let found = points(&one.ledger, Some(&one.status));
    let of = |id| found.iter().find(|p| p.cgroup_id == id).copied();
    assert_eq!(of(1).unwrap().taken_cpus, 0.25);
    assert_eq!(of(2).unwrap().cpu_cpus, 0.5);
    one.status.diagnosis = None;
    assert_eq!(points(&one.ledger, Some(&one.status)).len(), 1);
}
