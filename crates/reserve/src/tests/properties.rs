//! Properties of plans.

use super::host::{Change, any_amount, any_change, any_host, apply, cpus, host};
use crate::planner::Scene;
use crate::work::Work;
use crate::{Impossible, Plan, PlanOptions, plan, plan_what_fits};
use cofferdam_types::{CgroupId, CpuAmount, CpuId, Topology};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Requests = Vec<(CgroupId, CpuAmount)>;

/// Checks the properties of any plan, whatever was requested.
pub fn check(
    topology: &Topology,
    options: PlanOptions,
    requests: &Requests,
    now: &Plan,
    no: &[Impossible],
) {
    let usable: BTreeSet<CpuId> = topology.usable().map(|c| c.cpu).collect();
    let mut owner: BTreeMap<CpuId, CgroupId> = BTreeMap::new();
    let mut promised: BTreeMap<CpuId, u32> = BTreeMap::new();
    for (id, placement) in &now.placements {
        assert!(
            requests.iter().any(|(other, _)| other == id),
            "{id} did not ask"
        );
        for cpu in &placement.own {
            assert!(usable.contains(cpu), "CPU {cpu} cannot be used");
            assert_eq!(owner.insert(*cpu, *id), None, "CPU {cpu} has two owners");
        }
        if let Some((cpu, milli)) = placement.slice {
            assert!(usable.contains(&cpu), "CPU {cpu} cannot be used");
            assert!((1..1000).contains(&milli));
            *promised.entry(cpu).or_default() += milli;
        }
    }
    for (cpu, milli) in &promised {
        assert!(*milli <= 1000, "CPU {cpu} is promised {milli} thousandths");
        assert!(!owner.contains_key(cpu), "CPU {cpu} is owned and shared");
    }
    let reserved = now.reserved();
    assert!(now.shared.is_disjoint(&reserved));
    assert_eq!(
        now.shared
            .union(&reserved)
            .copied()
            .collect::<BTreeSet<_>>(),
        usable
    );
    let least = usable.len().min(options.keep_cpus as usize);
    assert!(now.shared.len() >= least, "{} CPUs left", now.shared.len());
    let refused: BTreeSet<CgroupId> = no.iter().map(|one| one.id).collect();
    for (id, amount) in requests.iter().filter(|(id, _)| !refused.contains(id)) {
        assert_eq!(now.placements[id].milli_cpus(), amount.milli_cpus(), "{id}");
        assert_eq!(
            now.placements[id].own.len() as u32,
            amount.whole_cpus(),
            "{id}"
        );
    }
}

/// Cores whose CPUs belong to more than one tenant. The shared CPUs count as one tenant, and so do
/// the containers on a slice CPU.
fn split_cores(topology: &Topology, plan: &Plan) -> BTreeSet<u32> {
    let mut tenants: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for cpu in topology.usable() {
        let tenant = plan
            .placements
            .iter()
            .find_map(|(id, placement)| placement.own.contains(&cpu.cpu).then_some(id.0))
            .unwrap_or(if plan.shared.contains(&cpu.cpu) {
                u64::MAX
            } else {
                1_000_000 + u64::from(cpu.cpu.0)
            });
        tenants.entry(cpu.core).or_default().insert(tenant);
    }
    tenants
        .into_iter()
        .filter(|(_, who)| who.len() > 1)
        .map(|(core, _)| core)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// A history of requests: every plan keeps the rules and is reproducible, and an amount
    /// reported to fit does fit.
    /// Promise 38.
    #[test]
    fn any_history_keeps_the_rules(
        topology in any_host(),
        keep_cpus in 0u32..4,
        changes in prop::collection::vec(any_change(), 1..40),
    ) {
        let options = PlanOptions { keep_cpus };
        let (mut requests, mut now) = (Requests::new(), Plan::default());
        for change in &changes {
            apply(&mut requests, change);
            let (next, no) = plan_what_fits(&topology, &now, &requests, options);
            check(&topology, options, &requests, &next, &no);
            prop_assert_eq!(
                &(next.clone(), no.clone()),
                &plan_what_fits(&topology, &now, &requests, options)
            );
            let strictly = plan(&topology, &now, &requests, options);
            prop_assert_eq!(strictly.is_ok(), no.is_empty());
            for one in &no {
                let fits = one.fits.map_or(0, CpuAmount::milli_cpus);
                prop_assert!(fits < one.asked.milli_cpus());
                let Some(amount) = one.fits else { continue };
                // The only impossible request gets the reported amount.
                let less: Requests = requests
                    .iter()
                    .filter(|(id, _)| *id == one.id || !no.iter().any(|other| other.id == *id))
                    .map(|(id, asked)| (*id, if *id == one.id { amount } else { *asked }))
                    .collect();
                let mut rest = next.clone();
                rest.placements
                    .retain(|id, _| !no.iter().any(|other| other.id == *id && *id != one.id));
                let (_, still) = plan_what_fits(&topology, &rest, &less, options);
                prop_assert!(
                    !still.iter().any(|other| other.id == one.id),
                    "{amount} does not fit {one}"
                );
            }
            now = next;
        }
    }

    /// Repeating or removing requests moves nothing. Adding or changing one never moves own CPUs,
    /// and moves slices only if it would not fit otherwise.
    /// Promise 38.
    #[test]
    fn one_change_moves_few(
        topology in any_host(),
        changes in prop::collection::vec(any_change(), 1..30),
        last in any_change(),
    ) {
        let options = PlanOptions::default();
        let (mut requests, mut now) = (Requests::new(), Plan::default());
        for change in &changes {
            apply(&mut requests, change);
            now = plan_what_fits(&topology, &now, &requests, options).0;
        }
        // Refused requests are removed: the change could let them in, which would be another
        // change.
        requests.retain(|(id, amount)| {
            now.placements
                .get(id)
                .is_some_and(|p| p.milli_cpus() == amount.milli_cpus())
        });
        now = plan_what_fits(&topology, &now, &requests, options).0;
        let again = plan_what_fits(&topology, &now, &requests, options).0;
        prop_assert_eq!(&again, &now);
        apply(&mut requests, &last);
        let (next, no) = plan_what_fits(&topology, &now, &requests, options);
        let id = match last {
            Change::Ask(id, _) | Change::Leave(id) => id,
        };
        let moved: Vec<CgroupId> = next
            .moved_since(&now)
            .into_iter()
            .filter(|m| *m != id)
            .collect();
        for other in &moved {
            prop_assert_eq!(&next.placements[other].own, &now.placements[other].own);
        }
        if matches!(last, Change::Leave(_)) || !no.is_empty() {
            prop_assert!(moved.is_empty(), "{moved:?} moved");
        } else if !moved.is_empty() {
            // Without moves there are too few CPUs: all others keep their CPUs, so the slice CPUs
            // in use stay in use.
            let asked = requests
                .iter()
                .find(|(other, _)| *other == id)
                .map(|(_, a)| *a)
                .unwrap();
            let mut fixed = now.clone();
            fixed.placements.remove(&id);
            let used = fixed.reserved().len();
            let mut bins: BTreeMap<CpuId, u32> = BTreeMap::new();
            for p in fixed.placements.values() {
                if let Some((cpu, milli)) = p.slice {
                    *bins.entry(cpu).or_default() += milli;
                }
            }
            let room = bins.values().map(|used| 1000 - used).max().unwrap_or(0);
            let fraction = asked.fraction_milli_cpus();
            let need = asked.whole_cpus() as usize + usize::from(fraction > room);
            prop_assert!(
                used + need + 1 > topology.usable().count(),
                "{moved:?} moved for nothing"
            );
        }
    }

    /// On a host with enough CPUs, a container with an even number of whole CPUs shares no SMT
    /// core.
    /// Promise 38.
    #[test]
    fn siblings_stay_together(
        topology in any_host(),
        amounts in prop::collection::vec(any_amount(), 1..30),
    ) {
        let requests: Requests = (1..).map(CgroupId).zip(amounts).collect();
        let Ok(now) = plan(&topology, &Plan::default(), &requests, PlanOptions::default()) else {
            return Ok(());
        };
        let split = split_cores(&topology, &now);
        let core: BTreeMap<CpuId, u32> = topology.usable().map(|c| (c.cpu, c.core)).collect();
        // Enough CPUs: every request could have cores of its own.
        let mut threads: BTreeMap<u32, u32> = BTreeMap::new();
        for cpu in topology.usable() {
            *threads.entry(cpu.core).or_default() += 1;
        }
        let pairs = threads.values().filter(|count| **count == 2).count() as u32;
        let asked: u32 = requests
            .iter()
            .map(|(_, amount)| amount.milli_cpus().div_ceil(2000))
            .sum();
        for (id, amount) in requests.iter().filter(|_| asked < pairs) {
            let mine: Vec<u32> = now.placements[id].own.iter().map(|c| core[c]).collect();
            let shares = mine.iter().filter(|c| split.contains(c)).count();
            let odd = usize::from(amount.whole_cpus() % 2 == 1);
            prop_assert!(shares <= odd, "{id} ({amount}) shares {shares} cores");
        }
        // Odd ones pair up, so that at most one core of a cache is split with the shared CPUs. A
        // slice stays in the cache of its container's own CPUs rather than fill a core elsewhere.
        let mut with_shared: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for cpu in topology
            .usable()
            .filter(|c| split.contains(&c.core) && now.shared.contains(&c.cpu))
        {
            with_shared.entry(cpu.llc).or_default().insert(cpu.core);
        }
        for (llc, cores) in with_shared {
            prop_assert!(
                cores.len() <= 1,
                "cores {cores:?} of cache {llc} are split with the shared CPUs"
            );
        }
    }

    /// A request stays in one cache or node if an empty host has one that is large enough.
    /// Promise 38.
    #[test]
    fn a_request_stays_in_one_cache(
        sockets in 1u32..=4,
        caches in 1u32..=4,
        cores in 1u32..=16,
        threads in 1u32..=2,
        whole in 1u32..64,
    ) {
        let topology = host(sockets, caches, cores, threads);
        let amount = cpus(f64::from(whole));
        let request = vec![(CgroupId(1), amount)];
        let Ok(now) = plan(&topology, &Plan::default(), &request, PlanOptions::default()) else {
            return Ok(());
        };
        let places: Vec<_> = topology
            .usable()
            .filter(|c| now.placements[&CgroupId(1)].own.contains(&c.cpu))
            .collect();
        let llcs: BTreeSet<u32> = places.iter().map(|c| c.llc).collect();
        let nodes: BTreeSet<u32> = places.iter().map(|c| c.node).collect();
        if whole <= cores * threads {
            prop_assert_eq!(llcs.len(), 1);
        }
        let per_node = cores * threads * caches;
        if whole <= per_node {
            prop_assert_eq!(nodes.len(), 1);
        }
        let fewest = whole.div_ceil(cores * threads) as usize;
        prop_assert!(
            llcs.len() <= fewest.max(2) + 1,
            "{} caches where {fewest} would do",
            llcs.len()
        );
        prop_assert!(now.shared.contains(&CpuId(0)), "CPU 0 is taken last");
    }

    /// The cost grows with CPUs × requests, not faster.
    /// Promise 38.
    #[test]
    fn the_cost_is_bounded(
        topology in any_host(),
        amounts in prop::collection::vec(any_amount(), 1..200),
    ) {
        let requests: Requests = (1..).map(CgroupId).zip(amounts).collect();
        let work = Work::default();
        let scene = Scene {
            topology: &topology,
            limits: Default::default(),
            keep: PlanOptions::default().keep_cpus as usize,
            work: &work,
        };
        let (state, _) = scene.solve(&Plan::default(), &requests);
        let now = state.into_plan();
        let _ = scene.solve(&now, &requests);
        let (cpus, count) = (topology.cpus.len() as u64, requests.len() as u64);
        let regions = topology
            .cpus
            .iter()
            .map(|c| (c.llc, c.node))
            .collect::<BTreeSet<_>>()
            .len() as u64
            + 8;
        let bound = 16 * (cpus + 1) * (count + 1) * regions + 64 * count * count;
        prop_assert!(
            work.steps() <= bound,
            "{} steps, {bound} allowed",
            work.steps()
        );
    }
}
