use super::*;
use crate::explain::made_up::{Scene, container, status};
use crate::status::ReservationRecord;

fn pod(id: u64, name: &str, pod: &str) -> ContainerRecord {
    ContainerRecord {
        pod: Some(pod.to_owned()),
        ..container(id, name)
    }
}

fn of<'a>(report: &'a NodeReport, name: &str) -> &'a PodRecord {
    let mut pods = report.pods.iter();
    pods.find(|p| p.name == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

/// Promise 25.
#[test]
fn offenders_and_victims_are_named_with_their_namespace() {
    let ledger = Scene::new(&[
        pod(1, "nginx", "shop/web").caused(300),
        pod(2, "envoy", "shop/web").caused(100),
        pod(3, "db", "bank/db").charged(350),
        container(4, "backup").charged(50),
    ])
    .record();
    let report = report(&ledger, &status());
    assert_eq!(report.schema, NODE);
    assert_eq!(report.pods_total, 3);
    let (web, db) = (of(&report, "shop/web"), of(&report, "bank/db"));
    assert_eq!((web.containers, web.pod), (2, true));
    assert!((web.caused_cpus - 0.4).abs() < 1e-6, "{web:?}");
    assert!((web.harm_cpus - 0.4).abs() < 1e-5, "{web:?}");
    assert!((db.paid_cpus - 0.35).abs() < 1e-5, "{db:?}");
    assert!(!of(&report, "backup").pod);
    let first = &report.flows[0];
    assert_eq!(first.offender.as_deref(), Some("shop/web"));
    assert_eq!(first.victim, "bank/db");
    // The pod with the largest harm comes first.
    assert_eq!(report.pods[0].name, "shop/web");
}

/// Promise 25.
#[test]
fn containers_of_one_pod_do_not_pay_for_each_other() {
    let ledger = Scene::new(&[
        pod(1, "app", "a/b").caused(200),
        pod(2, "sidecar", "a/b").charged(200),
    ])
    .record();
    let report = report(&ledger, &status());
    assert_eq!(report.flows, []);
    assert_eq!(of(&report, "a/b").paid_cpus, 0.0);
}

/// Promise 25.
#[test]
fn losses_and_reservations_are_summed_over_the_pod() {
    let scene = Scene::new(&[pod(1, "app", "a/b"), pod(2, "side", "a/b")])
        .loss((1, "app"), [1000, 600, 300, 0], Some("x"))
        .loss((2, "side"), [1000, 600, 100, 0], Some("x"));
    let ledger = scene.record();
    let mut status = status();
    status.diagnosis = ledger.diagnosis.clone();
    status.containers = vec![crate::status::ContainerRecord {
        name: "app".to_owned(),
        cgroup_id: 1,
        cgroup_path: None,
        policy: crate::status::PolicyRecord {
            network_cpu: "observe".to_owned(),
            cpu: "strict".to_owned(),
            cpus: Some(1.5),
        },
        network: None,
        reservation: Some(ReservationRecord {
            own_cpus: vec![1],
            slice_cpu: Some(0),
            slice_cpus: Some(0.5),
            lent_cpus: vec![],
            lendings: 0,
            rewrites: 0,
        }),
        degraded: vec![DegradedRecord {
            name: "x".to_owned(),
            text: "why".to_owned(),
        }],
    }];
    let report = report(&ledger, &status);
    let pod = of(&report, "a/b");
    assert!((pod.lost_cpus - 0.4).abs() < 1e-6, "{pod:?}");
    assert_eq!(pod.reserved_cpus, Some(1.5));
    assert_eq!(report.reserved_cpus, 1.5);
    assert!(report.problems.iter().any(|p| p.text == "app: why"));
}

/// Promise 25.
#[test]
fn a_node_with_thousands_of_pods_has_a_bounded_document() {
    let many: Vec<ContainerRecord> = (0..4000)
        .map(|i| {
            let c = pod(i + 1, "app", &format!("ns/pod-{i}-{}", "x".repeat(60)));
            match i % 100 {
                0 => c.caused(1 + i / 100),
                1 => c.charged(1 + i / 100),
                _ => c,
            }
        })
        .collect();
    let report = report(&Scene::new(&many).record(), &status());
    assert_eq!(report.pods.len(), MOST_PODS);
    assert_eq!(report.pods_total, 4000);
    assert_eq!(report.flows.len(), MOST_TRANSFERS);
    assert!(report.flows_total > MOST_TRANSFERS as u64);
    let bytes = serde_json::to_vec(&report).unwrap().len();
    assert!(bytes < 256 << 10, "{bytes}");
    // Every offender and every victim is among them.
    assert!(
        report.pods[..80]
            .iter()
            .all(|p| p.harm_cpus + p.paid_cpus > 0.0)
    );
}

#[test]
fn an_interval_of_length_zero_yields_finite_figures() {
    let mut ledger = Scene::new(&[pod(1, "app", "a/b").caused(1)]).record();
    ledger.interval_s = 0.0;
    let report = report(&ledger, &status());
    assert!(report.pods.iter().all(|p| p.caused_cpus.is_finite()));
}
