//! Synthetic run of `bench reservation`.

use super::{estimate, five, run};
use crate::data::*;
use crate::reservation::data::*;
use crate::run::*;

/// Reservation run of one batch and one interactive condition.
pub fn reservation() -> RunData {
    let cell = |target: Target, limit: NeighbourLimit| ReservationCell {
        id: format!("{target}/cpu/{limit}"),
        target,
        neighbours: Neighbours::Cpu,
        limit,
        reserved_cpus: 1.0,
        neighbour_cpus: 1.0,
        threads: 2,
        neighbour_count: 1,
        neighbour_threads: 3,
        runtime: ReservationRuntime::Process,
    };
    let sample = |cell: &ReservationCell, policy, slow: f64| ReservationSample {
        schema: SCHEMA,
        time: "2026-11-03T10:00:00Z".to_owned(),
        cell: cell.id.clone(),
        policy,
        round: 0,
        position: 1,
        elapsed_s: slow,
        cpu_s: 1.0,
        cpu_got: 1.0 / slow,
        latency: cell.target.is_interactive().then(|| Latency {
            requests: 1_000,
            p99_us: 90.0 * slow,
            ..Latency::default()
        }),
        host_utilisation: 0.98,
        neighbour_cpu_s: 1.0,
        lendings: 1,
        entitled: None,
        checksum: (!cell.target.is_interactive()).then(|| "00ff".to_owned()),
        phases: None,
    };
    let cells = [
        cell(Target::Batch, NeighbourLimit::Capped),
        cell(Target::Wakeups, NeighbourLimit::Burstable),
    ];
    let policies = [
        (ReservationPolicy::Alone, 1.0),
        (ReservationPolicy::None, 1.6),
        (ReservationPolicy::Strict, 1.01),
        (ReservationPolicy::Lending, 1.03),
    ];
    let reservations: Vec<ReservationSample> = cells
        .iter()
        .flat_map(|cell| policies.map(|(policy, slow)| sample(cell, policy, slow)))
        .collect();
    let outcome = |cell: &ReservationCell| ReservationCellResult {
        cell: cell.clone(),
        rows: policies
            .iter()
            .map(|(policy, slow)| {
                let judged = five(*slow);
                let interactive = cell.target.is_interactive();
                PolicyRow {
                    policy: *policy,
                    elapsed_s: (!interactive).then(|| judged.clone()),
                    p99_us: interactive.then(|| judged.clone()),
                    to_alone: Some(judged),
                    cpu_got: five(1.0 / slow),
                    host_utilisation: five(0.985),
                    entitled: Some(Entitlements {
                        entitled_cpus: estimate(&[1.0]),
                        forced_sharing_cpus: estimate(&[0.31 * (slow - 1.0)]),
                        phantom_cpus: estimate(&[0.2 * (slow - 1.0)]),
                        throttled_cpus: estimate(&[0.0]),
                        lack_cpus: estimate(&[0.02]),
                    }),
                }
            })
            .collect(),
    };
    RunData {
        result: Some(RunResult::Reservation(ReservationResult {
            cells: cells.iter().map(outcome).collect(),
            failed: [(
                "memcached/cpu/capped".to_owned(),
                "not installed".to_owned(),
            )]
            .into(),
        })),
        samples: RunSamples::Reservation(reservations),
        ..run("reservation", Kind::Reservation)
    }
}
