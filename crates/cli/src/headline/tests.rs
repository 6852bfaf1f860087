use super::*;
use crate::fixture::{entry, interval};
use cofferdam_types::Interval;

fn of(interval: &Interval) -> String {
    super::of(&[AccountingRecord::new(interval)], &Agent::NotPermitted)
}

/// Promise 11.
/// Promise 12.
#[test]
fn the_headline_is_the_worst_finding() {
    let sentence = "web-3 takes 0.31 CPUs from db-1 for its packets.";
    assert_eq!(of(&interval()), sentence);
}

#[test]
fn an_offender_on_an_idle_cpu_harms_no_other() {
    let mut quiet = interval();
    quiet.containers = vec![entry(1, "web", 1000, 200, 0, 5), entry(2, "db", 0, 0, 0, 0)];
    assert_eq!(
        of(&quiet),
        "No container takes 0.05 CPUs from another: `web` caused the most network work, \
         20% of a CPU"
    );
}

/// Promise 11.
#[test]
fn packets_of_the_host_may_take_a_little() {
    let mut host = interval();
    host.containers = vec![entry(1, "db", 0, 0, 30, 900)];
    host.unattributed_ns
        .insert(Reason::HostTraffic, 180_000_000);
    assert_eq!(
        of(&host),
        "`db` paid 3% of a CPU for packets that belong to no container (the host's own traffic)"
    );
}

#[test]
fn an_empty_host_and_an_empty_interval_have_a_headline() {
    let mut empty = interval();
    empty.containers.clear();
    assert_eq!(of(&empty), "No container on this host yet.");
    let mut zero = interval();
    zero.length = std::time::Duration::ZERO;
    assert!(of(&zero).starts_with("No container takes CPU time from another"));
    assert_eq!(
        super::of(&[], &Agent::NotPermitted),
        "Nothing was measured."
    );
}

/// Promise 74.
#[test]
fn names_cannot_control_the_terminal() {
    let mut evil = interval();
    evil.containers[0] = entry(11, "a\u{1b}[2J\nb", 0, 0, 310, 620);
    let text = of(&evil);
    assert!(text.starts_with("web-3 takes"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\n'), "{text}");
}
