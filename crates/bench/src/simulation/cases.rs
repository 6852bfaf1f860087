//! Conditions for a host of any size: the target has as many threads as the host has CPUs.

use crate::simulation::data::{CaseTenant, ReservationMode, SimulationCase, Work};

/// Frequent and short runs, like a timer.
const OFTEN: Work = Work::Periodic {
    run_us: 100,
    sleep_us: 900,
};
/// Rarer runs, longer than a slice.
const LONG: Work = Work::Periodic {
    run_us: 5_000,
    sleep_us: 5_000,
};

/// Number of neighbours, and the properties of each.
#[derive(Clone, Copy)]
struct Shape {
    neighbours: u32,
    threads: u32,
    weight: u32,
}

fn tenant(name: &str, threads: u32) -> CaseTenant {
    CaseTenant {
        name: name.to_owned(),
        weight: 100,
        quota_cpus: None,
        pinned: None,
        reserved_cpus: None,
        threads,
        work: Work::Spin,
    }
}

fn case(id: String, cpus: u32, shape: Shape, edit: impl Fn(&mut CaseTenant)) -> SimulationCase {
    let target = tenant("target", cpus);
    let neighbours = (1..=shape.neighbours).map(|i| CaseTenant {
        weight: shape.weight,
        ..tenant(&format!("n{i}"), shape.threads)
    });
    let mut tenants: Vec<CaseTenant> = std::iter::once(target).chain(neighbours).collect();
    tenants.iter_mut().for_each(edit);
    SimulationCase {
        id,
        reservation: ReservationMode::Standard,
        tenants,
    }
}

/// All cases of a host with `cpus` CPUs; with `quick`, every kind once or twice.
pub(super) fn cases(cpus: u32, quick: bool) -> Vec<SimulationCase> {
    let shape = |neighbours, threads, weight| Shape {
        neighbours,
        threads,
        weight,
    };
    let is_target = |t: &CaseTenant| t.name == "target";
    let mut all = Vec::new();
    let counts: &[(u32, u32)] = match quick {
        true => &[(1, 2), (4, 1), (8, 4)],
        false => &[
            (1, 1),
            (1, 2),
            (1, 4),
            (2, 1),
            (2, 2),
            (2, 4),
            (4, 1),
            (4, 2),
            (4, 4),
            (8, 1),
            (8, 2),
            (8, 4),
        ],
    };
    for (n, threads) in counts {
        let id = format!("spin/{n}x{threads}/1:1");
        all.push(case(id, cpus, shape(*n, *threads, 100), |_| {}));
    }
    for weight in [400, 900] {
        for (n, threads) in [(1, 1), (1, 2), (3, 1), (3, 2)] {
            if quick && (n, threads) != (1, 2) {
                continue;
            }
            let id = format!("spin/{n}x{threads}/1:{}", weight / 100);
            all.push(case(id, cpus, shape(n, threads, weight), |_| {}));
        }
    }
    for quota in [20, 50, 100] {
        if quick && quota == 20 {
            continue;
        }
        let limited = f64::from(quota) / 100.0;
        let id = format!("quota/target-{quota}%/2x2");
        all.push(case(id, cpus, shape(2, 2, 100), |t| {
            t.quota_cpus = is_target(t).then_some(limited);
        }));
        let id = format!("quota/neighbours-{quota}%/2x2");
        all.push(case(id, cpus, shape(2, 2, 100), |t| {
            t.quota_cpus = (!is_target(t)).then_some(limited);
        }));
    }
    let last = cpus.saturating_sub(1) as usize;
    all.push(case(
        "pinned/target/2x2".to_owned(),
        cpus,
        shape(2, 2, 100),
        |t| {
            t.pinned = is_target(t).then_some(last);
        },
    ));
    all.push(case(
        "pinned/all/2x2/1:4".to_owned(),
        cpus,
        shape(2, 2, 400),
        |t| {
            t.pinned = Some(last);
        },
    ));
    for (name, work) in [("often", OFTEN), ("long", LONG)] {
        all.push(case(
            format!("periodic/target-{name}/2x2"),
            cpus,
            shape(2, 2, 100),
            |t| {
                if is_target(t) {
                    t.work = work;
                }
            },
        ));
        if quick {
            continue;
        }
        all.push(case(
            format!("periodic/neighbours-{name}/2x2"),
            cpus,
            shape(2, 2, 100),
            |t| {
                if !is_target(t) {
                    t.work = work;
                }
            },
        ));
    }
    for (name, reservation) in [
        ("strict", ReservationMode::Strict),
        ("lending", ReservationMode::StrictLending),
    ] {
        for (what, work) in [("busy", Work::Spin), ("half", LONG)] {
            let mut one = case(
                format!("{name}/target-{what}/2x2"),
                cpus,
                shape(2, 2, 100),
                |t| {
                    if is_target(t) {
                        t.reserved_cpus = Some((cpus / 2).max(1));
                        t.threads = (cpus / 2).max(1);
                        t.work = work;
                    }
                },
            );
            one.reservation = reservation;
            all.push(one);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_has_its_own_name() {
        for quick in [true, false] {
            let all = cases(2, quick);
            let ids: BTreeSet<&String> = all.iter().map(|c| &c.id).collect();
            assert_eq!(ids.len(), all.len());
        }
        assert!(cases(2, true).len() * 2 < cases(2, false).len());
        let full = cases(2, false);
        assert!(full.iter().any(|c| c.tenants.len() == 9));
        assert!(
            full.iter()
                .any(|c| c.reservation == ReservationMode::StrictLending)
        );
    }
}
