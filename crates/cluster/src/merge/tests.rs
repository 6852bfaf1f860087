#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;
use serde_json::json;

fn agent(node: &str) -> Agent {
    Agent {
        node: node.to_owned(),
        pod: format!("cofferdam-{node}"),
        address: None,
        port: 9479,
        why_not: None,
    }
}

fn pod(name: &str, harm: f64, paid: f64) -> PodRecord {
    PodRecord {
        name: name.to_owned(),
        pod: name.contains('/'),
        harm_cpus: harm,
        paid_cpus: paid,
        caused_cpus: harm,
        ..PodRecord::default()
    }
}

fn document(pods: Vec<PodRecord>) -> Vec<u8> {
    serde_json::to_vec(&NodeReport {
        schema: NODE.to_owned(),
        pods,
        ..NodeReport::default()
    })
    .unwrap()
}

fn merged(answers: &[(&str, Result<Vec<u8>, String>)]) -> ClusterReport {
    let agents: Vec<Agent> = answers.iter().map(|(node, _)| agent(node)).collect();
    let results = answers.iter().map(|(node, answer)| match answer {
        Ok(body) => part(&agent(node), body),
        Err(why) => Err(why.clone()),
    });
    merge(&agents, results.collect(), 4, ("now".to_owned(), 0.1))
}

#[test]
fn namespaces_are_summed_over_nodes_and_pods_keep_their_node() {
    let report = merged(&[
        (
            "n1",
            Ok(document(vec![
                pod("shop/web-1", 0.4, 0.0),
                pod("bank/db-1", 0.0, 0.4),
            ])),
        ),
        (
            "n2",
            Ok(document(vec![
                pod("shop/web-2", 0.2, 0.0),
                pod("idle/x", 0.0, 0.0),
                pod("backup", 0.0, 0.2),
            ])),
        ),
        ("n3", Err("no complete answer in time".to_owned())),
    ]);
    assert_eq!(report.nodes.len(), 2);
    assert_eq!(report.nodes_wanted, 4);
    let shop = &report.namespaces[0];
    assert_eq!((shop.namespace.as_str(), shop.pods), ("shop", 2));
    assert!((shop.harm_cpus - 0.6).abs() < 1e-9);
    assert!(
        report
            .namespaces
            .iter()
            .any(|n| n.namespace == NO_NAMESPACE)
    );
    assert!(report.namespaces.iter().any(|n| n.namespace == "idle"));
    // Pods without harm have no row.
    let names: Vec<_> = report
        .pods
        .iter()
        .map(|p| (p.node.as_str(), p.figures.name.as_str()))
        .collect();
    assert_eq!(names.len(), 4);
    assert!(names.contains(&("n2", "shop/web-2")));
    assert_eq!(
        report.unanswered,
        [SilentAgent {
            node: "n3".to_owned(),
            pod: "cofferdam-n3".to_owned(),
            why: "no complete answer in time".to_owned()
        }]
    );
}

/// Promise 25.
#[test]
fn the_result_of_5000_nodes_is_bounded() {
    let pods: Vec<PodRecord> = (0..250)
        .map(|i| pod(&format!("ns{i}/p"), 0.01, 0.0))
        .collect();
    let body = document(pods);
    let part = part(&agent("n"), &body).unwrap();
    let agents = vec![agent("n"); 5000];
    let report = merge(&agents, vec![Ok(part); 5000], 5000, ("now".to_owned(), 1.0));
    assert_eq!(report.pods.len(), MOST_ROWS);
    assert_eq!(report.pods_total, 1_250_000);
    assert_eq!(report.nodes.len(), 5000);
    assert_eq!(report.namespaces.len(), 250);
    assert_eq!(report.namespaces[0].pods, 5000);
}

#[test]
fn invalid_answers_are_named() {
    for (body, words) in [
        (&b""[..], "cannot be read"),
        (b"<html>502</html>", "cannot be read"),
        (b"{}", "its schema is ''"),
        (
            br#"{"schema":"cofferdam.node/2"}"#,
            "its schema is 'cofferdam.node/2'",
        ),
        (
            br#"{"schema":"cofferdam.node/1","pods":{}}"#,
            "cannot be read",
        ),
        (
            br#"{"schema":"cofferdam.node/1","cpus":1e999}"#,
            "cannot be read",
        ),
    ] {
        let why = part(&agent("n"), body).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
    let deep = "[".repeat(100_000);
    assert!(part(&agent("n"), deep.as_bytes()).is_err());
}

#[test]
fn new_fields_of_a_later_agent_are_ignored() {
    let mut document: serde_json::Value =
        serde_json::from_slice(&document(vec![pod("a/b", 1.0, 0.0)])).unwrap();
    document["new"] = json!({"x": 1});
    document["pods"][0]["new"] = json!(1);
    assert!(part(&agent("n"), document.to_string().as_bytes()).is_ok());
}

proptest! {
    #[test]
    fn any_figures_and_names_are_merged(
        name in "\\PC{0,30}", is_pod in any::<bool>(),
        figures in proptest::collection::vec(proptest::num::f64::NORMAL, 4), total in any::<u64>(),
    ) {
        let report = NodeReport {
            schema: NODE.to_owned(),
            pods: vec![PodRecord {
            name, pod: is_pod,
            harm_cpus: figures[0], paid_cpus: figures[1], lost_cpus: figures[2],
                caused_cpus: figures[3], ..PodRecord::default()
            }],
            flows_total: total,
            ..NodeReport::default()
        };
        let body = serde_json::to_vec(&report).unwrap();
        let part = part(&agent("n"), &body).unwrap();
        let results = vec![Ok(part.clone()), Ok(part)];
        let _ = merge(&[agent("n"), agent("m")], results, 2, (String::new(), 0.0));
    }
}
