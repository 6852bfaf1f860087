//! Properties of every simulation.
#![allow(clippy::unwrap_used)]

use cofferdam_simulate::{
    Behaviour, Cgroup, Host, Load, Outcome, Policy, Quota, Scenario, Shape, Tenant, Tenants, input,
    report, simulate, simulate_while,
};
use cofferdam_types::CpuAmount;
use proptest::prelude::*;
use std::cell::Cell;
use std::time::Duration;

/// Tolerance for the weights' shares of equal threads on one CPU.
const WEIGHT_WITHIN: f64 = 0.01;
/// Least part of its reservation, or of its demand, that a strict tenant gets.
const STRICT_GOT: f64 = 0.97;
/// Least utilisation of a host whose CPUs are lent while others want them.
const LENDING_USED: f64 = 0.97;
/// Part of its reservation that an owner must leave idle to lend.
const LEAVES: f64 = 0.2;
/// Tolerance for a quota over seconds.
const QUOTA_WITHIN: f64 = 0.05;

fn host(nodes: u32, llcs: u32, cores: u32, smt: u32) -> Host {
    let shape = Shape {
        nodes,
        llcs_per_node: llcs,
        cores_per_llc: cores,
        threads_per_core: smt,
    };
    Host::new(shape.topology().unwrap())
}

fn tenant(name: &str, threads: u32, behaviour: Behaviour) -> Tenant {
    Tenant {
        cgroup: Cgroup {
            name: name.to_owned(),
            parent: None,
            weight: 100,
            quota: None,
            cpus: None,
        },
        reserved: None,
        loads: vec![Load { threads, behaviour }],
    }
}

fn spin(name: &str, threads: u32) -> Tenant {
    tenant(name, threads, Behaviour::CpuBound)
}

fn strict(mut one: Tenant, milli_cpus: u32) -> Tenant {
    one.reserved = CpuAmount::from_milli_cpus(milli_cpus);
    one
}

fn run(host: &Host, tenants: &[Tenant], policy: Policy, seed: u64) -> Outcome {
    let tenants = Tenants {
        groups: vec![],
        tenants: tenants.to_vec(),
    };
    input::check(&tenants, host).unwrap();
    simulate(&Scenario {
        host,
        tenants: &tenants,
        policy,
        duration: Duration::from_secs(3),
        seed,
        keep_cpus: 1,
    })
}

fn cpus(outcome: &Outcome, tenant: usize) -> f64 {
    outcome.tenants[tenant].loss.got_ns as f64 / outcome.duration_ns as f64
}

fn conserved(outcome: &Outcome) {
    let got: u64 = outcome.tenants.iter().map(|t| t.loss.got_ns).sum();
    let idle: u64 = outcome.idle_ns.iter().sum();
    assert_eq!(
        got + idle,
        outcome.duration_ns * outcome.idle_ns.len() as u64
    );
    for one in &outcome.tenants {
        let loss = &one.loss;
        let parts = loss.forced_sharing_ns + loss.phantom_ns + loss.throttled_ns + loss.lack_ns;
        assert_eq!(parts, loss.lost_ns());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Promise 48.
    #[test]
    fn time_is_conserved_and_strict_tenants_get_theirs(
        cores in 2..9u32,
        smt in 1..3u32,
        neighbours in 1..5usize,
        threads in 1..9u32,
        own in 1..6u32,
        reserved in 200..3_000u32,
        run_ns in 100_000..30_000_000u64,
        sleep_ns in prop_oneof![Just(0), 0..30_000_000u64],
        policy in prop::sample::select(Policy::ALL.to_vec()),
        seed in any::<u64>(),
    ) {
        let host = host(1, 2, cores, smt);
        let behaviour = Behaviour::Periodic { run_ns, sleep_ns };
        let mut all = vec![strict(tenant("strict", own, behaviour), reserved)];
        all.extend((0..neighbours).map(|i| spin(&format!("n{i}"), threads)));
        let outcome = run(&host, &all, policy, seed);
        conserved(&outcome);
        if policy == Policy::Standard || !outcome.impossible.is_empty() {
            return Ok(());
        }
        // A thread that sleeps wants what it would run without neighbours on its own CPUs.
        let alone = run(&host, &all[..1], Policy::Strict, seed);
        let wanted = cpus(&alone, 0).min(f64::from(reserved) / 1000.0);
        let got = cpus(&outcome, 0);
        // Threads that sleep may share one of their CPUs: docs/src/reservations.md, Limits.
        if sleep_ns == 0 {
            prop_assert!(got >= STRICT_GOT * wanted, "{got} of {wanted}");
        }
        let demand = f64::from(threads) * neighbours as f64;
        let all_cpus = f64::from(2 * cores * smt);
        // An owner that uses most of its promise lends nothing: neither the rest of a CPU, nor a
        // CPU for which it has no thread.
        let used = cpus(&alone, 0) / (f64::from(reserved) / 1000.0);
        let fills_its_cpus = sleep_ns == 0 && own >= reserved.div_ceil(1000);
        let lends = fills_its_cpus || used <= 1.0 - LEAVES;
        if policy == Policy::StrictLending && demand >= all_cpus && lends {
            prop_assert!(
                outcome.utilisation() >= LENDING_USED,
                "{}",
                outcome.utilisation()
            );
        }
    }

    /// Promise 48.
    #[test]
    fn equal_threads_on_one_cpu_share_by_weight(
        weights in prop::collection::vec(10..2_000u32, 2..6),
        threads in 1..4u32,
    ) {
        let host = host(1, 1, 1, 1);
        let all = weights.iter().enumerate().map(|(i, weight)| {
            let mut one = spin(&format!("t{i}"), threads);
            one.cgroup.weight = *weight;
            one
        });
        let all: Vec<Tenant> = all.collect();
        let outcome = run(&host, &all, Policy::Standard, 1);
        let sum: u32 = weights.iter().sum();
        for (i, weight) in weights.iter().enumerate() {
            let share = f64::from(*weight) / f64::from(sum);
            prop_assert!((cpus(&outcome, i) - share).abs() <= WEIGHT_WITHIN);
        }
    }
}

/// Promise 48.
#[test]
fn a_quota_is_kept() {
    let host = host(1, 1, 4, 1);
    for (quota_ms, threads) in [(20, 1), (50, 4), (100, 4), (250, 8)] {
        let mut capped = spin("capped", threads);
        capped.cgroup.quota = Some(Quota {
            quota_ns: quota_ms * 1_000_000,
            period_ns: 100_000_000,
        });
        let outcome = run(&host, &[capped, spin("n", 1)], Policy::Standard, 1);
        let (got, quota) = (cpus(&outcome, 0), quota_ms as f64 / 100.0);
        assert!(got <= quota * (1.0 + QUOTA_WITHIN), "{got} of {quota}");
        assert!(got >= quota * (1.0 - QUOTA_WITHIN), "{got} of {quota}");
    }
}

/// A parallel program with barriers that has requested two of four CPUs.
fn program() -> Tenant {
    let phases = Behaviour::Phases { run_ns: 1_300_000 };
    strict(tenant("program", 2, phases), 2000)
}

/// Promise 48.
#[test]
fn a_reservation_prevents_forced_sharing_at_barriers() {
    let host = host(1, 1, 4, 1);
    let all = [program(), spin("n", 8)];
    let standard = run(&host, &all, Policy::Standard, 1);
    let loss = &standard.tenants[0].loss;
    assert!(cpus(&standard, 0) < 1.8, "{loss:?}");
    assert!(loss.forced_sharing_ns > loss.phantom_ns, "{loss:?}");
    for policy in [Policy::Strict, Policy::StrictLending] {
        let reserved = run(&host, &all, policy, 1);
        assert!(cpus(&reserved, 0) >= 2.0 * STRICT_GOT);
        assert!(reserved.utilisation() >= LENDING_USED);
        assert!(reserved.tenants[0].rounds > standard.tenants[0].rounds);
    }
}

/// Promise 48.
#[test]
fn neighbours_that_are_throttled_leave_phantom_time() {
    let host = host(1, 1, 4, 1);
    let mut n = spin("n", 8);
    n.cgroup.quota = Some(Quota {
        quota_ns: 200_000_000,
        period_ns: 100_000_000,
    });
    let outcome = run(&host, &[program(), n], Policy::Standard, 1);
    let loss = &outcome.tenants[0].loss;
    assert!(loss.phantom_ns > loss.forced_sharing_ns, "{loss:?}");
    assert!(outcome.utilisation() < 1.0);
}

/// Promise 48.
#[test]
fn a_reservation_that_does_not_fit_is_refused_by_name() {
    let host = host(1, 1, 2, 1);
    let outcome = run(
        &host,
        &[strict(spin("big", 2), 2000), spin("n", 2)],
        Policy::Strict,
        1,
    );
    assert_eq!(outcome.impossible.len(), 1);
    let tenants = Tenants {
        groups: vec![],
        tenants: vec![strict(spin("big", 2), 2000), spin("n", 2)],
    };
    let document = report(&tenants, &[outcome], 1);
    assert_eq!(document.runs[0].refused[0].name, "big");
    assert_eq!(document.runs[0].refused[0].fits_cpus, Some(1.0));
}

/// Promise 48.
#[test]
fn equal_seeds_give_equal_documents() {
    let host = host(2, 2, 2, 2);
    let bursts = Behaviour::Bursts {
        mean_run_ns: 2_000_000,
        mean_sleep_ns: 3_000_000,
    };
    let all = [strict(tenant("b", 6, bursts), 2500), spin("n", 20)];
    let tenants = Tenants {
        groups: vec![],
        tenants: all.to_vec(),
    };
    let of = |seed| {
        let outcome = run(&host, &all, Policy::StrictLending, seed);
        report(&tenants, &[outcome], 0)
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

/// Promise 67.
#[test]
fn a_simulation_ends_on_request() {
    let host = host(1, 1, 2, 1);
    let tenants = Tenants {
        groups: vec![],
        tenants: vec![spin("a", 2)],
    };
    let scenario = Scenario {
        host: &host,
        tenants: &tenants,
        policy: Policy::Standard,
        duration: Duration::from_secs(3600),
        seed: 1,
        keep_cpus: 1,
    };
    let asked = Cell::new(0);
    let go_on = || {
        asked.set(asked.get() + 1);
        asked.get() < 100
    };
    assert!(simulate_while(&scenario, &go_on).is_none());
    assert_eq!(asked.get(), 100);
}
