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

/// Takes the round in, and has all that is due written.
fn round(
    tracker: &mut Tracker,
    nodes: &[(String, Option<ConditionsReport>)],
    at: Instant,
) -> Vec<Write> {
    tracker.take(nodes);
    let (writes, _) = tracker.due(at);
    for write in &writes {
        tracker.done(write, Outcome::Told, at);
    }
    writes
}

fn tellings(writes: &[Write]) -> Vec<Telling> {
    writes.iter().map(|w| w.telling).collect()
}

#[test]
fn a_condition_is_told_once_and_once_more_when_it_is_over() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    let holds = [node("n1", vec![condition("shop/web", "pays_for_others")])];
    let over = [node("n1", vec![])];
    assert_eq!(round(&mut tracker, &holds, at), [], "once is not enough");
    let told = round(&mut tracker, &holds, at);
    assert_eq!(tellings(&told), [Telling::Holds]);
    assert_eq!(told[0].key.reason, "PaysForOthers");
    assert_eq!(
        (told[0].node.as_str(), told[0].text.as_str()),
        ("n1", "why")
    );
    for _ in 0..10 {
        assert_eq!(round(&mut tracker, &holds, at), []);
    }
    for _ in 1..MISSED {
        assert_eq!(round(&mut tracker, &over, at), []);
    }
    assert_eq!(tellings(&round(&mut tracker, &over, at)), [Telling::Over]);
    assert_eq!(round(&mut tracker, &over, at), []);
    // It comes back.
    assert_eq!(round(&mut tracker, &holds, at), []);
    assert_eq!(tellings(&round(&mut tracker, &holds, at)), [Telling::Holds]);
}

/// Promise 25.
#[test]
fn one_that_lasts_is_told_again_before_the_api_server_forgets_it() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    let holds = [node("n1", vec![condition("shop/web", "x")])];
    round(&mut tracker, &holds, at);
    round(&mut tracker, &holds, at);
    assert_eq!(round(&mut tracker, &holds, at + RENEWED / 2), []);
    let told = round(&mut tracker, &holds, at + RENEWED);
    assert_eq!(tellings(&told), [Telling::Lasts]);
    assert_eq!(round(&mut tracker, &holds, at + RENEWED), []);
}

#[test]
fn a_node_that_does_not_answer_changes_nothing_and_one_that_is_gone_ends_its_pods() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    let holds = [node("n1", vec![condition("shop/web", "x")])];
    round(&mut tracker, &holds, at);
    round(&mut tracker, &holds, at);
    for _ in 0..20 {
        assert_eq!(round(&mut tracker, &[silent("n1")], at), []);
    }
    assert_eq!(round(&mut tracker, &holds, at), []);
    let told: Vec<Write> = (0..MISSED)
        .flat_map(|_| round(&mut tracker, &[node("n2", vec![])], at))
        .collect();
    assert_eq!(tellings(&told), [Telling::Over]);
}

/// Promise 26.
#[test]
fn what_fails_is_tried_again_and_a_pod_that_is_gone_is_forgotten() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    let holds = [node("n1", vec![condition("shop/web", "x")])];
    round(&mut tracker, &holds, at);
    for outcome in [Outcome::Failed, Outcome::Failed, Outcome::NoPod] {
        tracker.take(&holds);
        let (writes, _) = tracker.due(at);
        assert_eq!(tellings(&writes), [Telling::Holds]);
        tracker.done(&writes[0], outcome, at);
    }
    assert!(tracker.kept.is_empty());
}

/// Promise 26.
#[test]
fn five_thousand_pods_are_no_storm_and_all_are_told() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    // 5,000 pods on 100 nodes, and one node more with all it may say.
    let mut nodes: Vec<_> = (0..100)
        .map(|n| {
            let pods = (0..50).map(|p| condition(&format!("shop/p{n}-{p}"), "x"));
            node(&format!("n{n}"), pods.collect())
        })
        .collect();
    let loud = (0..200).map(|p| condition(&format!("a/loud{p:03}"), "x"));
    nodes.push(node("loud", loud.collect()));
    tracker.take(&nodes);
    let mut told = BTreeSet::new();
    for _ in 0..60 {
        let writes = round(&mut tracker, &nodes, at);
        assert!(writes.len() <= MOST_WRITES);
        let of_loud = writes.iter().filter(|w| w.node == "loud").count();
        assert!(of_loud <= MOST_WRITES_A_NODE);
        for write in writes {
            assert!(told.insert(write.key), "told twice");
        }
    }
    assert_eq!(told.len(), 5200);
}

/// Promise 26.
#[test]
fn what_a_node_may_say_is_bounded() {
    let (mut tracker, at) = (Tracker::default(), Instant::now());
    let names = (0..100).map(|i| condition("shop/web", &format!("x{i}")));
    tracker.take(&[node("n1", names.collect())]);
    assert_eq!(tracker.kept.len(), MOST_A_POD);
    let many: Vec<_> = (0..200)
        .map(|n| {
            let pods = (0..200).map(|p| condition(&format!("a/p{n}-{p}"), "x"));
            node(&format!("n{n}"), pods.collect())
        })
        .collect();
    // Those of before count until they are seen to be gone.
    for _ in 0..2 {
        tracker.take(&many);
        assert!(tracker.kept.len() <= MOST_KEPT);
    }
    assert_eq!(tracker.kept.len(), MOST_KEPT);
    // And they go as they came.
    tracker.take(&[node("n1", vec![])]);
    assert!(tracker.kept.is_empty(), "{}", tracker.kept.len());
    assert_eq!(tracker.due(at), (vec![], 0));
}

/// Promise 26.
#[test]
fn names_that_are_none_are_not_told() {
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
    assert!(tracker.kept.is_empty(), "{tracker:?}");
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
