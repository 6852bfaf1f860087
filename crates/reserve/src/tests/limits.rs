//! Plans within the cpusets of the cgroups above.

use super::host::{Change, any_change, any_host, apply, cpus, host};
use super::properties::check;
use crate::{Limits, Plan, PlanOptions, plan_within};
use cofferdam_types::{CgroupId, CpuId, Topology};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeSet;

const A: CgroupId = CgroupId(1);
const B: CgroupId = CgroupId(2);

fn set<const N: usize>(numbers: [u32; N]) -> BTreeSet<CpuId> {
    numbers.into_iter().map(CpuId).collect()
}

fn limits(allowed: &[(CgroupId, BTreeSet<CpuId>)], shared: &[BTreeSet<CpuId>]) -> Limits {
    Limits {
        allowed: allowed.iter().cloned().collect(),
        shared: shared.to_vec(),
    }
}

#[test]
fn a_request_is_placed_where_the_cgroup_above_allows_it() {
    let host = host(1, 1, 4, 1);
    let within = limits(&[(A, set([0, 1]))], &[]);
    let requests = [(B, cpus(2.0)), (A, cpus(1.0))];
    let options = PlanOptions::default();
    let (now, no) = plan_within(&host, &Plan::default(), &requests, options, &within);
    assert!(no.is_empty(), "{no:?}");
    assert_eq!(now.placements[&A].own, set([1]));
    assert_eq!(now.placements[&B].own, set([2, 3]));
}

#[test]
fn the_last_cpu_of_a_standard_container_is_not_taken() {
    let host = host(1, 1, 4, 1);
    let within = limits(&[(A, set([3]))], &[set([3]), set([0, 1, 2, 3])]);
    let requests = [(A, cpus(1.0)), (B, cpus(1.0))];
    let options = PlanOptions::default();
    let (now, no) = plan_within(&host, &Plan::default(), &requests, options, &within);
    assert_eq!((no.len(), no[0].id, no[0].fits), (1, A, None));
    assert_eq!(now.placements[&B].own, set([2]));
}

#[test]
fn a_place_stays_despite_a_bound_standard_container() {
    let host = host(1, 1, 2, 1);
    let options = PlanOptions::default();
    let requests = [(A, cpus(1.0))];
    let free = Limits::default();
    let (before, _) = plan_within(&host, &Plan::default(), &requests, options, &free);
    assert_eq!(before.placements[&A].own, set([1]));
    // The container moves if it can.
    let (moved, no) = plan_within(
        &host,
        &before,
        &requests,
        options,
        &limits(&[], &[set([1])]),
    );
    assert_eq!((moved.placements[&A].own.clone(), no.len()), (set([0]), 0));
    let bound = limits(&[(A, set([1]))], &[set([1])]);
    let (remaining, no) = plan_within(&host, &before, &requests, options, &bound);
    assert_eq!((remaining, no.len()), (before, 0));
}

#[test]
fn a_narrowed_parent_moves_its_container_or_names_it() {
    let host = host(1, 1, 4, 1);
    let options = PlanOptions::default();
    let requests = [(A, cpus(2.0))];
    let free = Limits::default();
    let (before, _) = plan_within(&host, &Plan::default(), &requests, options, &free);
    assert_eq!(before.placements[&A].own, set([2, 3]));
    let narrowed = limits(&[(A, set([0, 1, 2]))], &[]);
    let (moved, no) = plan_within(&host, &before, &requests, options, &narrowed);
    assert!(no.is_empty() && moved.placements[&A].own.contains(&CpuId(2)));
    let one = limits(&[(A, set([0]))], &[]);
    let (_, no) = plan_within(&host, &before, &requests, options, &one);
    assert_eq!((no[0].id, no[0].fits), (A, Some(cpus(1.0))));
    let (back, no) = plan_within(&host, &moved, &requests, options, &free);
    assert_eq!((back, no.len()), (moved, 0));
}

#[test]
fn slices_are_packed_where_each_may_run() {
    let host = host(1, 1, 4, 1);
    let within = limits(&[(A, set([0])), (B, set([3]))], &[]);
    let requests = [(A, cpus(0.5)), (B, cpus(0.5)), (CgroupId(3), cpus(0.5))];
    let options = PlanOptions::default();
    let (now, no) = plan_within(&host, &Plan::default(), &requests, options, &within);
    assert!(no.is_empty(), "{no:?}");
    assert_eq!(now.placements[&A].slice, Some((CpuId(0), 500)));
    assert_eq!(now.placements[&B].slice, Some((CpuId(3), 500)));
    assert_eq!(
        now.reserved(),
        set([0, 3]),
        "the third shares with one of them"
    );
}

/// Ranges of CPUs for some requests, and disjoint sets of standard containers.
type Ranges = (Vec<(u64, Index, Index)>, Vec<Index>);

fn any_ranges() -> impl Strategy<Value = Ranges> {
    let allowed = prop::collection::vec((1u64..40, any::<Index>(), any::<Index>()), 0..12);
    (allowed, prop::collection::vec(any::<Index>(), 0..6))
}

fn limits_of(topology: &Topology, (allowed, cuts): &Ranges) -> Limits {
    let all: Vec<CpuId> = topology.cpus.iter().map(|c| c.cpu).collect();
    let range = |(id, a, b): &(u64, Index, Index)| {
        let (a, b) = (a.index(all.len()), b.index(all.len()));
        let cpus = all[a.min(b)..=a.max(b)].iter().copied().collect();
        (CgroupId(*id), cpus)
    };
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(all.len())).collect();
    cuts.sort_unstable();
    let sets = cuts
        .windows(2)
        .map(|w| all[w[0]..w[1]].iter().copied().collect());
    Limits {
        allowed: allowed.iter().map(range).collect(),
        shared: sets.collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// A history of requests, and of cgroups that are narrowed and widened. No container gets a
    /// forbidden CPU, no standard container loses its last one to a new container, and requests
    /// that fit are met. A plan that is made again is the same, or gives a standard container a
    /// CPU back.
    /// Promise 38.
    #[test]
    fn any_history_stays_within_the_cgroups_above(
        topology in any_host(),
        keep_cpus in 0u32..4,
        eras in prop::collection::vec(
            (any_ranges(), prop::collection::vec(any_change(), 1..12)),
            1..5,
        ),
    ) {
        let options = PlanOptions { keep_cpus };
        let (mut requests, mut now) = (Vec::new(), Plan::default());
        let usable: BTreeSet<CpuId> = topology.usable().map(|c| c.cpu).collect();
        for (ranges, changes) in &eras {
            let within = limits_of(&topology, ranges);
            for change in changes {
                apply(&mut requests, change);
                let (next, no) = plan_within(&topology, &now, &requests, options, &within);
                check(&topology, options, &requests, &next, &no);
                for (id, place) in &next.placements {
                    let allowed = within.allowed.get(id);
                    prop_assert!(
                        allowed.is_none_or(|cpus| place.cpus().is_subset(cpus)),
                        "{id}"
                    );
                }
                for cpus in &within.shared {
                    let cpus: BTreeSet<CpuId> = cpus.intersection(&usable).copied().collect();
                    let is_limit = !cpus.is_empty() && cpus != usable;
                    // Only containers that had their places before may have the last CPU.
                    let had = now.reserved();
                    let newly_taken = cpus.is_disjoint(&next.shared) && !cpus.is_subset(&had);
                    prop_assert!(!(is_limit && newly_taken), "{cpus:?}");
                }
                let again = |plan| plan_within(&topology, plan, &requests, options, &within).0;
                let second = again(&next);
                if no.is_empty() && second != next {
                    // Places that stayed in the first plan may move in the second, so that a
                    // standard container has a CPU again.
                    let without_cpu = |plan: &Plan| {
                        let usable = within.shared.iter().map(|cpus| cpus & &usable);
                        let sets = usable.filter(|cpus| !cpus.is_empty());
                        sets.filter(|cpus| cpus.is_disjoint(&plan.shared)).count()
                    };
                    prop_assert!(
                        without_cpu(&second) < without_cpu(&next),
                        "{next:?} {second:?}"
                    );
                    prop_assert_eq!(&again(&second), &second);
                }
                now = next;
            }
        }
    }

    /// Without limits the plan is that of the host alone.
    /// Promise 38.
    #[test]
    fn wide_cgroups_change_no_plan(
        topology in any_host(),
        changes in prop::collection::vec(any_change(), 1..20),
    ) {
        let all: BTreeSet<CpuId> = topology.cpus.iter().map(|c| c.cpu).collect();
        let mut requests = Vec::new();
        changes
            .iter()
            .for_each(|change| apply(&mut requests, change));
        let ids = changes.iter().map(|change| match change {
            Change::Ask(id, _) | Change::Leave(id) => *id,
        });
        let wide = Limits {
            allowed: ids.map(|id| (id, all.clone())).collect(),
            shared: vec![all.clone()],
        };
        let plan = |limits: &Limits| {
            plan_within(
                &topology,
                &Plan::default(),
                &requests,
                PlanOptions::default(),
                limits,
            )
        };
        prop_assert_eq!(plan(&wide), plan(&Limits::default()));
    }
}
