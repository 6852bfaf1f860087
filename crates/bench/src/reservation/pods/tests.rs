use super::*;
use crate::reservation::cells::cells;
use crate::reservation::data::ReservationRuntime;

fn options(policies: &[ReservationPolicy]) -> Options {
    Options {
        runtime: ReservationRuntime::Kubernetes,
        policies: policies.to_vec(),
        ..Options::default()
    }
}

/// Promise 47.
#[test]
fn a_kubelet_is_measured_with_what_its_cpu_manager_allows() {
    use ReservationPolicy::{Alone, CpuManager, Lending, Limits, Shares, Strict};
    let (these, notes) = measurable(&options(&[]), "none").unwrap();
    assert_eq!(these, [Alone, Shares, Limits, Strict, Lending]);
    assert!(notes[0].contains("'cpu-manager'") && notes[0].contains("'static'"));
    let (these, notes) = measurable(&options(&[]), "static").unwrap();
    assert_eq!(these, [Alone, Shares, Limits, CpuManager]);
    assert_eq!(notes.len(), 2);
    let reason = measurable(&options(&[Strict]), "static").unwrap_err();
    assert_eq!(reason.exit_code(), 3);
    assert!(reason.to_string().contains("'none'"), "{reason}");
}

/// Promise 47.
#[test]
fn policies_differ_by_what_a_user_writes_into_the_pod() {
    let cell = &cells(&options(&[]), 2).unwrap()[0];
    let (shares, plain) = target(cell, ReservationPolicy::Shares);
    assert_eq!(shares, json!({ "requests": { "cpu": "1000m" } }));
    assert_eq!(plain, Value::Null);
    let (limits, _) = target(cell, ReservationPolicy::Limits);
    assert_eq!(limits["limits"]["cpu"], "1000m");
    let (guaranteed, _) = target(cell, ReservationPolicy::CpuManager);
    assert_eq!(guaranteed["limits"], guaranteed["requests"]);
    assert_eq!(guaranteed["limits"]["memory"], TARGET_MEMORY);
    let (strict, asked) = target(cell, ReservationPolicy::Strict);
    assert_eq!(strict, limits, "the annotation is the only difference");
    assert_eq!(asked["cofferdam.dev/cpu"], "strict");
    assert_eq!(asked["cofferdam.dev/lend"], "false");
    let (_, asked) = target(cell, ReservationPolicy::Lending);
    assert_eq!(asked["cofferdam.dev/lend"], "true");
    let mut cell = cell.clone();
    for (limit, value) in [
        (NeighbourLimit::Capped, json!("750m")),
        (NeighbourLimit::Burstable, Value::Null),
    ] {
        cell.limit = limit;
        assert_eq!(neighbours(&cell)["requests"]["cpu"], "750m");
        assert_eq!(neighbours(&cell)["limits"]["cpu"], value);
    }
}

#[test]
fn the_agents_status_tells_of_one_container_or_of_none() {
    let status = json!({ "containers": [
        { "cgroup_path": "/other", "reservation": null, "degraded": [] },
        { "cgroup_path": "/target", "degraded": [{ "text": "no CPU is left" }],
          "reservation": { "own_cpus": [1], "lendings": 3 } },
    ] });
    let it = target_status(&status, "/target").unwrap();
    assert_eq!((it.own_cpus, it.lendings), (1, 3));
    assert_eq!(it.degraded, ["no CPU is left"]);
    assert_eq!(
        target_status(&status, "/other"),
        Some(TargetStatus::default())
    );
    assert_eq!(target_status(&status, "/none"), None);
    for malformed in [json!({}), json!([]), json!({ "containers": [7] })] {
        assert_eq!(target_status(&malformed, "/target"), None);
    }
}
