use super::*;
use crate::accounting::ContainerRecord;
use crate::explain::made_up::{Scene, container, status};
use crate::status::{ConditionRecord, DegradedRecord, PolicyRecord, ReservationRecord};

fn pod(id: u64, name: &str, pod: &str) -> ContainerRecord {
    ContainerRecord {
        pod: Some(pod.to_owned()),
        ..container(id, name)
    }
}

fn suffers(name: &str, id: u64, cpus: f64) -> ConditionRecord {
    ConditionRecord {
        name: name.to_owned(),
        container: format!("c{id}"),
        cgroup_id: id,
        cpus,
        since: String::new(),
        for_s: 10.0,
    }
}

fn strict(id: u64, problem: Option<(&str, &str)>) -> crate::status::ContainerRecord {
    let reservation = ReservationRecord {
        own_cpus: vec![1],
        slice_cpu: None,
        slice_cpus: None,
        lent_cpus: vec![],
        lendings: 0,
        rewrites: 0,
    };
    crate::status::ContainerRecord {
        name: "main".to_owned(),
        cgroup_id: id,
        cgroup_path: None,
        policy: PolicyRecord {
            network_cpu: "observe".to_owned(),
            cpu: "strict".to_owned(),
            cpus: Some(1.0),
        },
        network: None,
        reservation: problem.is_none().then_some(reservation),
        degraded: (problem.iter())
            .map(|(name, text)| DegradedRecord {
                name: (*name).to_owned(),
                text: (*text).to_owned(),
            })
            .collect(),
    }
}

fn of<'a>(report: &'a ConditionsReport, name: &str, pod: &str) -> &'a PodCondition {
    let mut all = report.conditions.iter();
    all.find(|c| c.name == name && c.pod == pod)
        .unwrap_or_else(|| panic!("no {name} of {pod} in {report:?}"))
}

/// Promise 25.
#[test]
fn offender_and_victim_each_have_a_condition_naming_the_other() {
    let ledger = Scene::new(&[
        pod(1, "web", "shop/web").caused(400),
        pod(2, "db", "bank/db").charged(300),
        pod(3, "app", "quiet/app").charged(100),
    ])
    .record();
    let mut status = status();
    status.conditions = vec![suffers(PAYS, 2, 0.3)];
    let report = report(&ledger, &status);
    assert_eq!(report.schema, CONDITIONS);
    assert_eq!(
        of(&report, PAYS, "bank/db").text,
        "pays 0.30 CPUs for the packets of shop/web"
    );
    assert_eq!(
        of(&report, HARMS, "shop/web").text,
        "its packets cost bank/db 0.30 CPUs"
    );
    // A pod that pays little, or only for a moment, has no condition.
    assert_eq!(report.conditions_total, 2);
}

#[test]
fn a_text_names_no_container_or_counts_many_offenders() {
    let mut status = status();
    status.conditions = vec![suffers(PAYS, 9, 0.3)];
    let container_free = Scene::new(&[pod(9, "db", "bank/db").charged(300)]).record();
    let answer = report(&container_free, &status);
    assert!(
        of(&answer, PAYS, "bank/db")
            .text
            .ends_with("of traffic of no container")
    );
    let mut all: Vec<ContainerRecord> = (1..6)
        .map(|i| pod(i, "x", &format!("shop/p{i}")).caused(100 + i))
        .collect();
    all.push(pod(9, "db", "bank/db").charged(500));
    let answer = report(&Scene::new(&all).record(), &status);
    let text = &of(&answer, PAYS, "bank/db").text;
    assert!(
        text.ends_with("shop/p5, shop/p4, shop/p3 and 2 others"),
        "{text}"
    );
}

#[test]
fn small_parts_are_counted_and_not_named() {
    for (ns, text) in [
        (&[100.0, 5.0][..], "p0"),
        (&[60.0, 40.0], "p0, p1"),
        (&[100.0; 4], "p0, p1, p2 and 1 other"),
        (&[5.0; 20], "p0 and 19 others"),
        (&[], ""),
    ] {
        let names: Vec<String> = (0..ns.len()).map(|i| format!("p{i}")).collect();
        let all = names.iter().map(String::as_str).zip(ns.iter().copied());
        assert_eq!(largest(all.collect()), text);
    }
}

/// Promise 25.
#[test]
fn a_pod_has_conditions_for_refused_and_broken_reservations() {
    let ledger = Scene::new(&[
        pod(1, "main", "a/big"),
        pod(2, "main", "a/kept"),
        pod(3, "main", "a/plain"),
        container(4, "backup"),
        pod(5, "main", "7d9c5f3a-0000-0000-0000-000000000000"),
    ])
    .record();
    let mut status = status();
    let refusal = Some(("reservation_impossible", "5 CPUs do not fit"));
    status.containers = vec![
        strict(1, refusal),
        strict(2, None),
        strict(4, refusal),
        strict(5, refusal),
    ];
    status.conditions = [1, 2, 3, 4]
        .map(|id| suffers(LOSES, id, 0.1 * id as f64))
        .into();
    let report = report(&ledger, &status);
    let refused = &report.conditions[0];
    assert_eq!(
        (refused.name.as_str(), refused.pod.as_str()),
        ("reservation_impossible", "a/big")
    );
    assert_eq!(refused.container.as_deref(), Some("main"));
    assert!(
        of(&report, NOT_KEPT, "a/kept")
            .text
            .contains("0.20 of the CPUs reserved")
    );
    of(&report, LOSES, "a/plain");
    of(&report, LOSES, "a/big");
    // A container outside of pods has no condition, and neither has a pod without a name.
    assert_eq!(report.conditions_total, 4, "{report:?}");
}

/// Promise 25.
#[test]
fn the_document_is_bounded_and_has_the_total() {
    let all: Vec<ContainerRecord> = (0..500)
        .map(|i| pod(i, "main", &format!("a/p{i}")))
        .collect();
    let mut status = status();
    status.containers = (0..500).map(|i| strict(i, Some(("x", "y")))).collect();
    let report = report(&Scene::new(&all).record(), &status);
    assert_eq!(
        (report.conditions.len(), report.conditions_total),
        (MOST_CONDITIONS, 500)
    );
}
