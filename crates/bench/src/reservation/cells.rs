//! Conditions: targets × neighbours × limits, at the size of this host.

use super::options::Options;
use crate::error::BenchError;
use crate::reservation::data::{
    NeighbourLimit, Neighbours, ReservationCell, ReservationPolicy, ReservationRuntime, Target,
};

/// Part of the CPUs left by the target that pods as neighbours request. A node needs the rest for
/// itself and its system's pods.
const LEFT_TO_PODS: f64 = 0.75;
/// Most threads of a target.
const MOST_THREADS: u32 = 1_024;
/// Most neighbours: the share of each is a whole number of milliseconds of a period.
const MOST_NEIGHBOURS: u32 = 64;

/// Returns the cells that `options` select on a host with `online` CPUs, in the order of
/// measurement.
pub(super) fn cells(options: &Options, online: u32) -> Result<Vec<ReservationCell>, BenchError> {
    let usage = |text: String| Err(BenchError::Usage(text));
    if options.rounds == 0 {
        return usage("--rounds 0 measures nothing: give at least 1".to_owned());
    }
    if online < 2 {
        return Err(BenchError::Unsupported(
            "a reservation needs two CPUs, one of which stays for the others; this host has one: \
             use a larger machine"
                .to_owned(),
        ));
    }
    let reserved = options.cpus.unwrap_or(online / 2);
    if reserved == 0 || reserved >= online {
        return usage(format!(
            "--cpus {reserved} does not fit this host: give 1 to {}",
            online - 1
        ));
    }
    let or = |list: &[u32], default| match list {
        [] => vec![default],
        list => list.to_vec(),
    };
    let (threads, counts) = (
        or(&options.threads, 2 * reserved),
        or(&options.neighbour_counts, 1),
    );
    for (what, list, most) in [
        ("--threads", &threads, MOST_THREADS),
        ("--neighbour-count", &counts, MOST_NEIGHBOURS),
    ] {
        if let Some(other) = list.iter().find(|n| !(1..=most).contains(*n)) {
            return usage(format!("{what} {other}: give 1 to {most}"));
        }
    }
    if !(0.1..=60.0).contains(&options.seconds()) {
        return usage("a sample must last between 100ms and 60s".to_owned());
    }
    let runtime = options.runtime;
    if let Some(other) = options.policies.iter().find(|p| !p.is_of(runtime)) {
        return usage(format!(
            "--policy: '{other}' is none of --runtime {runtime}: give one of {}",
            policies_of(runtime)
        ));
    }
    if runtime == ReservationRuntime::Kubernetes && counts != [1] {
        return usage(
            "--neighbour-count: with --runtime kubernetes there is one neighbour".to_owned(),
        );
    }
    let part = match runtime {
        ReservationRuntime::Process => 1.0,
        ReservationRuntime::Kubernetes => LEFT_TO_PODS,
    };
    let mut cells = Vec::new();
    for &target in Target::ALL {
        for &neighbours in Neighbours::ALL {
            for &limit in NeighbourLimit::ALL {
                // A single thread that wakes has no use for another.
                let threads = match target {
                    Target::Wakeups => &[1][..],
                    _ => &threads,
                };
                let sizes = counts
                    .iter()
                    .flat_map(|n| threads.iter().map(move |t| (*n, *t)));
                for (neighbour_count, threads) in sizes {
                    let mut cell = ReservationCell {
                        id: format!("{target}/{neighbours}/{limit}"),
                        target,
                        neighbours,
                        limit,
                        reserved_cpus: f64::from(reserved),
                        neighbour_cpus: f64::from(online - reserved) * part,
                        threads,
                        neighbour_count,
                        neighbour_threads: 3 * online / 2,
                        runtime,
                    };
                    if !options.neighbour_counts.is_empty() || options.threads.len() > 1 {
                        cell.id += &format!("/{neighbour_count}x{threads}");
                    }
                    if keeps(options, &cell) {
                        cells.push(cell);
                    }
                }
            }
        }
    }
    if cells.is_empty() {
        return usage("no condition matches: remove a filter, or --quick".to_owned());
    }
    Ok(cells)
}

fn policies_of(runtime: ReservationRuntime) -> String {
    let all = ReservationPolicy::ALL.iter();
    let all = all.filter(|p| p.is_of(runtime)).map(|p| p.label());
    all.collect::<Vec<_>>().join(", ")
}

fn keeps(options: &Options, cell: &ReservationCell) -> bool {
    fn has<T: PartialEq>(list: &[T], value: &T) -> bool {
        list.is_empty() || list.contains(value)
    }
    let short = matches!(cell.target, Target::Batch | Target::Wakeups)
        && cell.neighbours == Neighbours::Cpu;
    (!options.quick || short)
        && has(&options.targets, &cell.target)
        && has(&options.neighbours, &cell.neighbours)
        && has(&options.limits, &cell.limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_condition_once_and_a_short_choice() {
        let all = cells(&Options::default(), 2).unwrap();
        let ids: BTreeSet<_> = all.iter().map(|c| &c.id).collect();
        assert_eq!(ids.len(), Target::ALL.len() * 4);
        let quick = Options {
            quick: true,
            ..Options::default()
        };
        assert_eq!(cells(&quick, 2).unwrap().len(), 4);
    }

    /// Promise 47.
    #[test]
    fn pods_have_own_policies_and_leave_the_node_some_cpu() {
        let pods = Options {
            runtime: ReservationRuntime::Kubernetes,
            ..Options::default()
        };
        let cell = &cells(&pods, 4).unwrap()[0];
        assert_eq!((cell.reserved_cpus, cell.neighbour_cpus), (2.0, 1.5));
        let labels = |options: &Options| {
            let all = options.policies();
            all.iter().map(|p| p.label()).collect::<Vec<_>>()
        };
        let all = [
            "alone",
            "shares",
            "limits",
            "cpu-manager",
            "strict",
            "lending",
        ];
        assert_eq!(labels(&pods), all);
        let own = [
            "alone",
            "none",
            "scaled",
            "scaled-threads",
            "strict",
            "lending",
        ];
        assert_eq!(labels(&Options::default()), own);
        let mixed = Options {
            policies: vec![ReservationPolicy::Scaled],
            ..pods
        };
        let reason = cells(&mixed, 4).unwrap_err();
        assert_eq!(reason.exit_code(), 2);
        assert!(reason.to_string().contains("cpu-manager"), "{reason}");
    }

    #[test]
    fn each_number_of_neighbours_and_of_threads_is_a_condition() {
        let options = Options {
            threads: vec![1, 4],
            neighbour_counts: vec![2, 8],
            targets: vec![Target::Xz, Target::Wakeups],
            neighbours: vec![Neighbours::Cpu],
            limits: vec![NeighbourLimit::Capped],
            ..Options::default()
        };
        let ids: Vec<_> = cells(&options, 2)
            .unwrap()
            .into_iter()
            .map(|c| c.id)
            .collect();
        let expected = [
            "xz/cpu/capped/2x1",
            "xz/cpu/capped/2x4",
            "xz/cpu/capped/8x1",
            "xz/cpu/capped/8x4",
            "wakeups/cpu/capped/2x1",
            "wakeups/cpu/capped/8x1",
        ];
        assert_eq!(ids, expected);
        let refused = |options| cells(&options, 2).unwrap_err().to_string();
        let many = Options {
            neighbour_counts: vec![1, 65],
            ..options.clone()
        };
        assert!(refused(many).contains("--neighbour-count 65: give 1 to 64"));
        let pods = Options {
            runtime: ReservationRuntime::Kubernetes,
            ..options
        };
        assert!(refused(pods).contains("one neighbour"));
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let code = |options: Options, online| cells(&options, online).unwrap_err().exit_code();
        let with = |cpus| Options {
            cpus: Some(cpus),
            ..Options::default()
        };
        assert_eq!(code(with(2), 2), 2);
        assert_eq!(code(with(0), 2), 2);
        assert_eq!(code(Options::default(), 1), 3);
        let none = Options {
            rounds: 0,
            ..Options::default()
        };
        assert_eq!(code(none, 2), 2);
    }
}
