//! Single cases.

use super::host::{cpus, host};
use crate::{Plan, PlanOptions, plan, plan_what_fits};
use cofferdam_types::{CgroupId, CpuAmount, CpuId};
use std::collections::BTreeSet;

const A: CgroupId = CgroupId(1);
const B: CgroupId = CgroupId(2);
const C: CgroupId = CgroupId(3);

fn set<const N: usize>(numbers: [u32; N]) -> BTreeSet<CpuId> {
    numbers.into_iter().map(CpuId).collect()
}

fn fresh(host: &cofferdam_types::Topology, requests: &[(CgroupId, CpuAmount)]) -> Plan {
    plan(host, &Plan::default(), requests, PlanOptions::default()).unwrap()
}

#[test]
fn two_cpus_give_one_away() {
    let host = host(1, 1, 2, 1);
    let now = fresh(&host, &[(A, cpus(1.0))]);
    assert_eq!(now.placements[&A].own, set([1]));
    assert_eq!(now.shared, set([0]));
}

/// Promise 38.
#[test]
fn the_impossible_is_named_with_what_would_fit() {
    let host = host(1, 1, 4, 1);
    let requests = [(A, cpus(2.0)), (B, cpus(1.5)), (C, cpus(0.25))];
    let error = plan(&host, &Plan::default(), &requests, PlanOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this host cannot reserve 1.5 CPUs for container 2: 0.75 would fit"
    );
    let (now, _) = plan_what_fits(&host, &Plan::default(), &requests, PlanOptions::default());
    assert_eq!(now.placements[&A].milli_cpus(), 2000);
    assert_eq!(now.placements[&C].milli_cpus(), 250);
    assert!(!now.placements.contains_key(&B));
}

#[test]
fn a_change_that_is_impossible_keeps_what_was() {
    let host = host(1, 1, 4, 1);
    let before = fresh(&host, &[(A, cpus(1.0)), (B, cpus(2.0))]);
    let wanted = [(A, cpus(3.0)), (B, cpus(2.0))];
    let (after, no) = plan_what_fits(&host, &before, &wanted, PlanOptions::default());
    assert_eq!(after, before);
    assert_eq!((no[0].id, no[0].fits), (A, Some(cpus(1.0))));
}

#[test]
fn fractions_share_a_cpu() {
    let host = host(1, 1, 4, 1);
    let now = fresh(&host, &[(A, cpus(0.5)), (B, cpus(1.3)), (C, cpus(0.2))]);
    let slices: BTreeSet<CpuId> = now
        .placements
        .values()
        .filter_map(|p| p.slice.map(|s| s.0))
        .collect();
    assert_eq!(slices.len(), 1);
    assert_eq!(now.shared.len(), 2);
}

#[test]
fn the_slice_is_on_the_sibling_of_the_odd_cpu() {
    let host = host(1, 1, 4, 2);
    let now = fresh(&host, &[(A, cpus(1.5))]);
    assert_eq!(now.placements[&A].cpus(), set([3, 7]));
}

#[test]
fn growing_heals_a_split_core() {
    let host = host(1, 1, 4, 2);
    let before = fresh(&host, &[(A, cpus(1.0))]);
    let after = plan(&host, &before, &[(A, cpus(2.0))], PlanOptions::default()).unwrap();
    assert_eq!(after.placements[&A].own, set([3, 7]));
}

#[test]
fn shrinking_gives_up_the_split_core() {
    let host = host(1, 1, 4, 2);
    let before = fresh(&host, &[(A, cpus(3.0))]);
    let after = plan(&host, &before, &[(A, cpus(2.0))], PlanOptions::default()).unwrap();
    assert!(
        after.placements[&A]
            .own
            .is_subset(&before.placements[&A].own)
    );
    let cores: BTreeSet<u32> = after.placements[&A].own.iter().map(|c| c.0 % 4).collect();
    assert_eq!(cores.len(), 1);
}

#[test]
fn slices_are_merged_when_a_cpu_is_needed() {
    // Two slice CPUs are half full each, after others left. The new container needs a whole CPU.
    let host = host(1, 1, 4, 1);
    let four = [
        (A, cpus(0.4)),
        (B, cpus(0.4)),
        (C, cpus(0.55)),
        (CgroupId(4), cpus(0.55)),
    ];
    let before = fresh(&host, &four);
    assert_eq!(before.reserved().len(), 2);
    let two = [(A, cpus(0.4)), (B, cpus(0.4)), (CgroupId(5), cpus(2.0))];
    let after = plan(&host, &before, &two, PlanOptions::default()).unwrap();
    assert_eq!(
        after.placements[&A].slice.map(|s| s.0),
        after.placements[&B].slice.map(|s| s.0)
    );
    assert_eq!(after.moved_since(&before).len(), 1);
}

#[test]
fn a_cpu_that_goes_offline_is_replaced() {
    let full = host(1, 1, 4, 1);
    let before = fresh(&full, &[(A, cpus(1.0)), (B, cpus(1.0))]);
    let mut less = full.clone();
    less.cpus
        .retain(|c| !before.placements[&A].own.contains(&c.cpu));
    let after = plan(
        &less,
        &before,
        &[(A, cpus(1.0)), (B, cpus(1.0))],
        PlanOptions::default(),
    )
    .unwrap();
    assert_eq!(after.placements[&B], before.placements[&B]);
    assert_eq!(after.placements[&A].own.len(), 1);
}

#[test]
fn an_invalid_previous_plan_does_no_harm() {
    let host = host(1, 1, 4, 1);
    let mut bad = Plan::default();
    for id in [A, B] {
        let place = bad.placements.entry(id).or_default();
        place.own = set([0, 1, 2, 3, 99]);
        place.slice = Some((CpuId(1), 5000));
    }
    let now = plan(
        &host,
        &bad,
        &[(A, cpus(1.0)), (B, cpus(1.5))],
        PlanOptions::default(),
    )
    .unwrap();
    assert_eq!(now.reserved().len(), 3);
}
