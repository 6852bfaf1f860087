//! Synthetic runs of `bench penalty` and of the demo.

use super::{estimate, run};
use crate::data::*;
use crate::demo::data::*;
use crate::penalty::data::*;
use crate::run::*;
use cofferdam_types::{CpuTime, Ledger, Reason};
use std::collections::BTreeMap;

pub fn cell(
    victim: VictimKind,
    interferer: Interferer,
    direction: Direction,
    path: Path,
    flows: u32,
    payload_bytes: Option<u32>,
) -> Cell {
    let htb = (direction == Direction::Sender).then_some(5.0);
    let protocol = interferer.protocol();
    let id = String::new();
    Cell {
        id,
        victim,
        interferer,
        protocol,
        direction,
        path,
        flows,
        payload_bytes,
        htb_gbit_per_s: htb,
        victim_share_pct: 50,
        limit: Limit::Weights,
        offenders: 1,
        victim_in: VictimIn::Container,
    }
    .named()
}

/// Five pairs around `baseline_s` and `penalty`.
pub fn result(cell: &Cell, baseline_s: f64, penalty: f64) -> CellResult {
    let wobble = [1.0, 0.96, 1.03, 1.08, 0.99];
    let baseline: Vec<f64> = wobble
        .iter()
        .map(|w| baseline_s * (1.0 + (w - 1.0) / 3.0))
        .collect();
    let test: Vec<f64> = wobble.iter().map(|w| baseline_s * penalty * w).collect();
    let factors: Vec<f64> = test.iter().zip(&baseline).map(|(t, b)| t / b).collect();
    let fraction = (1.0 - 1.0 / penalty).max(0.01);
    let rate = Rate {
        packets_per_s: 710_000.0,
        bytes_per_s: 142e6,
    };
    CellResult {
        cell: cell.clone(),
        metric: if cell.victim == VictimKind::Rpc {
            Metric::P99Us
        } else {
            Metric::ElapsedS
        },
        alone: None,
        baseline: estimate(&baseline),
        test: estimate(&test),
        penalty: estimate(&factors),
        softirq_fraction: Some(fraction),
        softirq_source: Some(SoftirqSource::Ledger),
        predicted: Some(1.0 / (1.0 - fraction)),
        offered: Some(rate),
        received: Some(Rate {
            packets_per_s: 640_000.0,
            ..rate
        }),
        offender_caused_fraction: Some(fraction),
        victim_charged_fraction: Some(fraction * 0.7),
        offender_corrected_fraction: Some(0.5 + fraction / 2.0),
        treated: Vec::new(),
    }
}

/// Adds enforcement that lowers the penalty to `penalty`.
pub fn enforced(mut result: CellResult, penalty: f64) -> CellResult {
    let scale =
        |e: &Estimate, by: f64| estimate(&e.values.iter().map(|v| v * by).collect::<Vec<_>>());
    let by = penalty / result.penalty.median;
    result.treated.push(TreatedResult {
        treatment: Treatment::Enforced,
        test: scale(&result.test, by),
        penalty: scale(&result.penalty, by),
        goodput_kept: Some(estimate(&[0.98, 1.0, 0.97])),
        idle_goodput_kept: Some(estimate(&[1.01, 0.99, 0.98])),
        softirq_fraction: Some(0.02),
        received: result.received,
        offender_corrected_fraction: Some(0.51),
        offender_corrected: Some(estimate(&[0.5, 0.51, 0.52])),
        victim_charged_fraction: Some(0.01),
    });
    result
}

pub fn samples(result: &CellResult) -> Vec<Sample> {
    let roles = [
        (Role::Alone, Treatment::Vanilla, result.alone.as_ref()),
        (Role::Compute, Treatment::Vanilla, Some(&result.baseline)),
        (Role::Traffic, Treatment::Vanilla, Some(&result.test)),
    ];
    let treated = result
        .treated
        .iter()
        .map(|t| (Role::Traffic, t.treatment, Some(&t.test)));
    let mut samples = Vec::new();
    for (position, (role, treatment, values)) in (0..).zip(roles.into_iter().chain(treated)) {
        for (pair, value) in (0..).zip(values.iter().flat_map(|e| &e.values)) {
            samples.push(Sample {
                schema: SCHEMA,
                time: "2026-11-21T20:01:00Z".to_owned(),
                cell: result.cell.id.clone(),
                pair,
                attempt: 0,
                position,
                role,
                treatment,
                elapsed_s: *value,
                victim_cpu_s: *value / 2.0,
                checksum: "abc".to_owned(),
                latency: (result.metric == Metric::P99Us).then(|| Latency {
                    p99_us: *value,
                    ..Latency::default()
                }),
                softirq_fraction: result.softirq_fraction,
                softirq_source: result.softirq_source,
                steal_fraction: None,
                offered: result.offered,
                received: result.received,
                received_idle: None,
                offender_caused_fraction: None,
                offender_corrected_fraction: None,
                victim_charged_fraction: None,
            });
        }
    }
    samples
}

pub fn ledger(result: &CellResult, names: [&str; 2]) -> LedgerRecord {
    let caused = (result.offender_caused_fraction.unwrap_or(0.0) * 1e9) as u64;
    let paid = (result.victim_charged_fraction.unwrap_or(0.0) * 1e9) as u64;
    let container = |name: &str, caused: u64, charged: u64, packets: u64| {
        let ledger = Ledger {
            caused_rx_ns: caused,
            charged_network_ns: charged,
            rx_packets: packets,
            cpu_usage_ns: 500_000_000,
            ..Ledger::default()
        };
        LedgerContainer {
            name: name.to_owned(),
            cgroup_path: format!("/cofferdam/{name}"),
            ledger,
            owed_ns: ledger.owed_ns(),
            corrected_cpu_ns: ledger.corrected_cpu_ns(),
            caused_by_cpu_ns: vec![caused, 0],
            charged_by_cpu_ns: vec![charged, 0],
        }
    };
    LedgerRecord {
        schema: SCHEMA,
        time: "2026-11-21T20:01:00Z".to_owned(),
        interval_s: 1.0,
        cell: result.cell.id.clone(),
        pair: 0,
        attempt: 0,
        role: Some(Role::Traffic),
        treatment: Treatment::Vanilla,
        cpus: (0..2)
            .map(|cpu| LedgerCpu {
                cpu,
                time: CpuTime::default(),
            })
            .collect(),
        containers: vec![
            container(names[0], caused, caused - paid, 640_000),
            container(names[1], 0, paid, 0),
        ],
        unattributed_ns: BTreeMap::from([(Reason::HostTraffic, 1_000_000)]),
        conservation_error_pct: 0.02,
    }
}

pub fn penalty() -> RunData {
    use Direction::{Receiver, Sender};
    let cells = [
        (
            cell(
                VictimKind::Cpu,
                Interferer::Flood,
                Receiver,
                Path::Veth,
                1,
                Some(64),
            ),
            2.0,
            2.1,
        ),
        (
            cell(
                VictimKind::Cpu,
                Interferer::Flood,
                Receiver,
                Path::Veth,
                3,
                Some(200),
            ),
            2.0,
            5.6,
        ),
        (
            cell(
                VictimKind::Wordcount,
                Interferer::Flood,
                Receiver,
                Path::BridgeNat,
                100,
                Some(200),
            ),
            2.4,
            4.9,
        ),
        (
            cell(
                VictimKind::Rpc,
                Interferer::Flood,
                Receiver,
                Path::Veth,
                3,
                Some(200),
            ),
            310.0,
            3.2,
        ),
        (
            cell(
                VictimKind::Cpu,
                Interferer::Stream,
                Receiver,
                Path::Routed,
                10,
                Some(1448),
            ),
            2.0,
            1.9,
        ),
        (
            cell(
                VictimKind::Cpu,
                Interferer::Stream,
                Sender,
                Path::Veth,
                10,
                Some(16384),
            ),
            2.0,
            1.02,
        ),
        (
            cell(
                VictimKind::Pi,
                Interferer::Shuffle,
                Sender,
                Path::BridgeNat,
                30,
                None,
            ),
            2.0,
            0.97,
        ),
    ];
    let results: Vec<CellResult> = cells.iter().map(|(c, b, p)| result(c, *b, *p)).collect();
    RunData {
        samples: RunSamples::Penalty(PenaltySamples {
            samples: results.iter().flat_map(samples).collect(),
            repeated: Vec::new(),
        }),
        ledgers: results
            .iter()
            .map(|r| ledger(r, ["flood", "victim"]))
            .collect(),
        result: Some(RunResult::Penalty(PenaltyResult {
            containers_by: None,
            done: [0, 0],
            repeated: 0,
            cells: results,
            failed: BTreeMap::from([(
                "grep/flood/receiver/veth/3x200B".to_owned(),
                "the worker 'victim' failed: no space left".to_owned(),
            )]),
        })),
        ..run("sample", Kind::Penalty)
    }
}

pub fn demo() -> RunData {
    let cell = cell(
        VictimKind::Cpu,
        Interferer::Flood,
        Direction::Receiver,
        Path::Veth,
        3,
        Some(200),
    );
    let mut outcome = result(&cell, 1.0, 5.4);
    outcome.alone = Some(estimate(&[0.5, 0.51, 0.5]));
    let record = ledger(&outcome, ["flood", "victim"]);
    RunData {
        samples: RunSamples::Demo(DemoSamples {
            flood: samples(&outcome),
            reservations: Vec::new(),
        }),
        ledgers: vec![record.clone()],
        result: Some(RunResult::Demo(Box::new(DemoResult {
            cell: outcome,
            offender: Some("flood".to_owned()),
            victim: "victim".to_owned(),
            ledger: Some(record),
            sentence: "flood caused it".to_owned(),
            reservation: None,
        }))),
        ..run("demo", Kind::Demo)
    }
}
