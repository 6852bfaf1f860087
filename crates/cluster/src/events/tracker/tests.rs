#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

fn condition(pod: &str, name: &str) -> PodCondition {
    PodCondition {
        name: name.to_owned(),
        pod: pod.to_owned(),
        text: "why".to_owned(),
        ..PodCondition::default()
    }
}

fn node(name: &str, conditions: Vec<PodCondition>) -> (String, Option<ConditionsReport>) {
    let report = ConditionsReport {
        conditions,
        ..ConditionsReport::default()
    };
    (name.to_owned(), Some(report))
}

fn silent(name: &str) -> (String, Option<ConditionsReport>) {
    (name.to_owned(), None)
}

/// Records a round, and marks all due events as written.
fn round(
    tracker: &mut Tracker,
    nodes: &[(String, Option<ConditionsReport>)],
    at: Instant,
) -> Vec<Write> {
    tracker.take(nodes);
    let (writes, _) = tracker.due(at);
    for write in &writes {
        tracker.record_outcome(write, Outcome::Written, at);
    }
    writes
}

fn transitions(writes: &[Write]) -> Vec<Transition> {
    writes.iter().map(|w| w.transition).collect()
}

#[test]
fn a_condition_has_one_event_and_one_at_its_end() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    let holds = [node("n1", vec![condition("shop/web", "pays_for_others")])];
    let over = [node("n1", vec![])];
    assert_eq!(round(&mut tracker, &holds, at), [], "once is not enough");
    let written = round(&mut tracker, &holds, at);
    assert_eq!(transitions(&written), [Transition::Holds]);
    assert_eq!(written[0].key.reason, "PaysForOthers");
    assert_eq!(
        (written[0].node.as_str(), written[0].text.as_str()),
        ("n1", "why")
    );
    for _ in 0..10 {
        assert_eq!(round(&mut tracker, &holds, at), []);
    }
    for _ in 1..MISSED {
        assert_eq!(round(&mut tracker, &over, at), []);
    }
    assert_eq!(
        transitions(&round(&mut tracker, &over, at)),
        [Transition::Over]
    );
    assert_eq!(round(&mut tracker, &over, at), []);
    // The condition comes back.
    assert_eq!(round(&mut tracker, &holds, at), []);
    assert_eq!(
        transitions(&round(&mut tracker, &holds, at)),
        [Transition::Holds]
    );
}

/// Promise 25.
#[test]
fn a_lasting_condition_is_written_again_before_its_event_expires() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    let holds = [node("n1", vec![condition("shop/web", "x")])];
    round(&mut tracker, &holds, at);
    round(&mut tracker, &holds, at);
    assert_eq!(round(&mut tracker, &holds, at + RENEWED / 2), []);
    let written = round(&mut tracker, &holds, at + RENEWED);
    assert_eq!(transitions(&written), [Transition::Lasts]);
    assert_eq!(round(&mut tracker, &holds, at + RENEWED), []);
}

#[test]
fn only_a_removed_node_ends_the_conditions_of_its_pods() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    let holds = [node("n1", vec![condition("shop/web", "x")])];
    round(&mut tracker, &holds, at);
    round(&mut tracker, &holds, at);
    for _ in 0..20 {
        assert_eq!(round(&mut tracker, &[silent("n1")], at), []);
    }
    assert_eq!(round(&mut tracker, &holds, at), []);
    let written: Vec<Write> = (0..MISSED)
        .flat_map(|_| round(&mut tracker, &[node("n2", vec![])], at))
        .collect();
    assert_eq!(transitions(&written), [Transition::Over]);
}

/// Promise 26.
#[test]
fn a_failed_write_is_retried_unless_the_pod_is_removed() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    let holds = [node("n1", vec![condition("shop/web", "x")])];
    round(&mut tracker, &holds, at);
    for outcome in [Outcome::Failed, Outcome::Failed, Outcome::NoPod] {
        tracker.take(&holds);
        let (writes, _) = tracker.due(at);
        assert_eq!(transitions(&writes), [Transition::Holds]);
        tracker.record_outcome(&writes[0], outcome, at);
    }
    assert!(tracker.conditions.is_empty());
}

/// Promise 26.
#[test]
fn five_thousand_pods_are_written_in_bounded_rounds() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    // 5,000 pods on 100 nodes, and one more node with the most that it may report.
    let mut nodes: Vec<_> = (0..100)
        .map(|n| {
            let pods = (0..50).map(|p| condition(&format!("shop/p{n}-{p}"), "x"));
            node(&format!("n{n}"), pods.collect())
        })
        .collect();
    let loud = (0..200).map(|p| condition(&format!("a/loud{p:03}"), "x"));
    nodes.push(node("loud", loud.collect()));
    tracker.take(&nodes);
    let mut written = BTreeSet::new();
    for _ in 0..60 {
        let writes = round(&mut tracker, &nodes, at);
        assert!(writes.len() <= MOST_WRITES);
        let of_loud = writes.iter().filter(|w| w.node == "loud").count();
        assert!(of_loud <= MOST_WRITES_A_NODE);
        for write in writes {
            assert!(written.insert(write.key), "written twice");
        }
    }
    assert_eq!(written.len(), 5200);
}

/// Promise 26.
#[test]
fn the_reports_of_a_node_are_bounded() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    let names = (0..100).map(|i| condition("shop/web", &format!("x{i}")));
    tracker.take(&[node("n1", names.collect())]);
    assert_eq!(tracker.conditions.len(), MOST_A_POD);
    let many: Vec<_> = (0..200)
        .map(|n| {
            let pods = (0..200).map(|p| condition(&format!("a/p{n}-{p}"), "x"));
            node(&format!("n{n}"), pods.collect())
        })
        .collect();
    // Earlier conditions count until they have ended.
    for _ in 0..2 {
        tracker.take(&many);
        assert!(tracker.conditions.len() <= MOST_TRACKED);
    }
    assert_eq!(tracker.conditions.len(), MOST_TRACKED);
    // All conditions end together.
    tracker.take(&[node("n1", vec![])]);
    assert!(
        tracker.conditions.is_empty(),
        "{}",
        tracker.conditions.len()
    );
    assert_eq!(tracker.due(at), (vec![], 0));
}

/// Promise 26.
#[test]
fn conditions_with_invalid_names_are_ignored() {
    let mut wrong = vec![
        condition("web", "x"),
        condition("shop/../secrets", "x"),
        condition("shop/web?x", "x"),
        condition("/web", "x"),
        condition("shop/web", ""),
        condition("shop/web", "_"),
        condition("shop/web", "Pays"),
        condition("shop/web", "a b"),
        condition("shop/web", &"a".repeat(61)),
    ];
    let mut container = condition("shop/web", "x");
    container.container = Some("../x".to_owned());
    wrong.push(container);
    let mut tracker = Tracker::default();
    tracker.take(&[node("n1", wrong)]);
    assert!(tracker.conditions.is_empty(), "{tracker:?}");
    assert_eq!(sentence("a\u{1b}[31m\nb"), "a\u{fffd}[31m b");
}

proptest! {
    #[test]
    fn no_condition_panics(pod in "\\PC{0,20}", name in "\\PC{0,20}", text in "\\PC{0,2000}") {
        let mut tracker = Tracker::default();
        let mut one = condition(&pod, &name);
        one.text = text;
        tracker.take(&[node("n1", vec![one.clone()])]);
        tracker.take(&[node("n1", vec![one])]);
        for write in tracker.due(Instant::now()).0 {
            prop_assert!(write.text.chars().count() <= LONGEST_TEXT + 1);
            prop_assert!(!write.text.contains(char::is_control));
        }
    }
}
