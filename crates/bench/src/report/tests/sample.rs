//! Runs made up for tests, as a real one would be on the test machine.

use crate::data::*;
use cofferdam_types::{CpuTime, Ledger, Reason};
use std::collections::BTreeMap;

pub fn manifest(kind: Kind) -> Manifest {
    Manifest {
        schema: SCHEMA,
        kind,
        version: "0.1.0".to_owned(),
        commit: Some("108cb0c8a2b1-dirty".to_owned()),
        command: ["cofferdam", "bench", kind.label(), "--quick"]
            .map(str::to_owned)
            .to_vec(),
        quick: true,
        started: "2026-11-21T20:00:00Z".to_owned(),
        finished: Some("2026-11-21T20:04:10Z".to_owned()),
        interrupted: false,
        kernel: "6.18.44 #1 SMP PREEMPT_DYNAMIC".to_owned(),
        cpu_model: "Example CPU @ 2.80GHz".to_owned(),
        cpus: 2,
        mitigations: BTreeMap::from([
            ("spectre_v2".to_owned(), "Mitigation: Retpolines".to_owned()),
            ("meltdown".to_owned(), "Not affected".to_owned()),
        ]),
        cgroup_layout: "hybrid".to_owned(),
        victim_cpu: 0,
        peer_cpu: 1,
        seed: 1,
        warnings: vec!["load average was 1.8 at the start: stop other work".to_owned()],
    }
}

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
    }
    .named()
}

pub fn estimate(values: &[f64]) -> Estimate {
    crate::stats::estimate(values, 1).unwrap()
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

/// The same cell, enforced down to `penalty`.
pub fn enforced(mut result: CellResult, penalty: f64) -> CellResult {
    let scale =
        |e: &Estimate, by: f64| estimate(&e.values.iter().map(|v| v * by).collect::<Vec<_>>());
    let by = penalty / result.penalty.median;
    result.treated.push(TreatedResult {
        treatment: Treatment::Enforced,
        test: scale(&result.test, by),
        penalty: scale(&result.penalty, by),
        goodput_kept: Some(estimate(&[0.98, 1.0, 0.97])),
        softirq_fraction: Some(0.02),
        received: result.received,
        offender_corrected_fraction: Some(0.51),
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
        dir: "runs/sample".into(),
        manifest: manifest(Kind::Penalty),
        samples: results.iter().flat_map(samples).collect(),
        periods: Vec::new(),
        isolation: Vec::new(),
        experiment: None,
        reservations: Vec::new(),
        ledgers: results
            .iter()
            .map(|r| ledger(r, ["flood", "victim"]))
            .collect(),
        result: Some(RunResult::Penalty(PenaltyResult {
            cells: results,
            failed: BTreeMap::from([(
                "grep/flood/receiver/veth/3x200B".to_owned(),
                "the worker 'victim' failed: no space left".to_owned(),
            )]),
        })),
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
        dir: "runs/demo".into(),
        manifest: manifest(Kind::Demo),
        samples: samples(&outcome),
        periods: Vec::new(),
        isolation: Vec::new(),
        experiment: None,
        reservations: Vec::new(),
        ledgers: vec![record.clone()],
        result: Some(RunResult::Demo(Box::new(DemoResult {
            cell: outcome,
            offender: Some("flood".to_owned()),
            victim: "victim".to_owned(),
            ledger: Some(record),
            sentence: "flood caused it".to_owned(),
        }))),
    }
}

pub fn accounting() -> RunData {
    let overhead = |load, unit: &str, goal, goodput: f64, ratios: &[f64]| OverheadRow {
        load,
        unit: unit.to_owned(),
        off: estimate(&vec![goodput; ratios.len()]),
        on: estimate(&ratios.iter().map(|r| r * goodput).collect::<Vec<_>>()),
        ratio: estimate(ratios),
        goal,
        bpf_ns_per_packet: Some(84.0),
        statistics_ns_per_run: Some(24.0),
    };
    let flood = [0.962, 0.971, 0.958, 0.975, 0.969, 0.964, 0.98];
    let stream = [0.997, 1.004, 0.991, 0.999, 1.0, 0.994, 1.002];
    let program = |name: &str, ns_per_run, runs_per_packet| ProgramRow {
        load: LoadShape::Flood64,
        name: name.to_owned(),
        runs: 12_000_000,
        ns_per_run,
        runs_per_packet,
    };
    RunData {
        dir: "runs/accounting".into(),
        manifest: manifest(Kind::Accounting),
        samples: Vec::new(),
        periods: Vec::new(),
        isolation: Vec::new(),
        experiment: None,
        reservations: Vec::new(),
        ledgers: Vec::new(),
        result: Some(RunResult::Accounting(AccountingResult {
            overhead: vec![
                overhead(LoadShape::Flood64, "packets/s", 0.96, 710e3, &flood),
                overhead(LoadShape::TcpStream, "bytes/s", 0.99, 2.1e9, &stream),
            ],
            programs: vec![
                program("softirq_entry", 62.0, 0.02),
                program("netif_receive_skb", 55.0, 1.0),
                program("net_dev_queue", 28.0, 0.4),
            ],
            conservation: vec![ConservationRow {
                load: "flood64".to_owned(),
                measured_ns: 8_123_456_789,
                attributed_ns: 8_122_000_000,
                worst_cpu_error_pct: 0.018,
            }],
            memory_bytes: Some(13_107_200),
            accuracy: vec![
                AccuracyRow {
                    case: "two receivers, packets 1:3".to_owned(),
                    quantity: "caused b ÷ caused a".to_owned(),
                    expected: 3.0,
                    measured: 2.96,
                    error_pct: -1.33,
                    error_interval_pct: Some([-1.9, -0.8]),
                },
                AccuracyRow {
                    case: "large UDP beside small TCP".to_owned(),
                    quantity: "ns per packet".to_owned(),
                    expected: 612.0,
                    measured: 655.0,
                    error_pct: 7.03,
                    error_interval_pct: None,
                },
            ],
        })),
    }
}

/// A reservation run of one batch and one interactive condition.
pub fn reservation() -> RunData {
    let cell = |target: Target, limit: NeighbourLimit| ReservationCell {
        id: format!("{target}/cpu/{limit}"),
        target,
        neighbours: Neighbours::Cpu,
        limit,
        reserved_cpus: 1.0,
        neighbour_cpus: 1.0,
        threads: 2,
        neighbour_threads: 3,
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
        checksum: (!cell.target.is_interactive()).then(|| "00ff".to_owned()),
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
                let judged = estimate(&[*slow, slow * 1.02, slow * 0.99]);
                let interactive = cell.target.is_interactive();
                PolicyRow {
                    policy: *policy,
                    elapsed_s: (!interactive).then(|| judged.clone()),
                    p99_us: interactive.then(|| judged.clone()),
                    to_alone: Some(judged),
                    cpu_got: estimate(&[1.0 / slow]),
                    host_utilisation: estimate(&[0.98]),
                }
            })
            .collect(),
    };
    RunData {
        dir: "runs/reservation".into(),
        manifest: manifest(Kind::Reservation),
        samples: Vec::new(),
        periods: Vec::new(),
        isolation: Vec::new(),
        experiment: None,
        ledgers: Vec::new(),
        result: Some(RunResult::Reservation(ReservationResult {
            cells: cells.iter().map(outcome).collect(),
            failed: [(
                "memcached/cpu/capped".to_owned(),
                "not installed".to_owned(),
            )]
            .into(),
        })),
        reservations,
    }
}

/// A dataplane run: all goals reached but the one for many connections.
pub fn dataplane() -> RunData {
    let row = |experiment, at, server, rate: f64, p50: f64, ratio: Option<f64>| DataplaneRow {
        cell: DataplaneCell {
            experiment,
            at,
            server,
        },
        requests_per_s: estimate(&[rate, rate * 1.01]),
        p50_us: estimate(&[p50]),
        p99_us: estimate(&[p50 * 2.0]),
        p999_us: estimate(&[p50 * 4.0]),
        p50_to_blocking: ratio.map(|r| estimate(&[1.0 / r])),
        rate_to_blocking: ratio.map(|r| estimate(&[r])),
        p50_to_busy: ratio.map(|r| estimate(&[2.0 / r])),
        rate_to_busy: ratio.map(|r| estimate(&[r / 2.0])),
        rate_to_inline: (server == EchoServer::Process).then(|| estimate(&[0.9])),
    };
    use DataplaneExperiment::{Batch, Connections, Load, Sizes, Unloaded};
    let rows = vec![
        row(Unloaded, 0, EchoServer::Blocking, 5e4, 20.0, None),
        row(Unloaded, 0, EchoServer::Inline, 2e5, 5.0, Some(4.0)),
        row(Connections, 100, EchoServer::Blocking, 1e5, 900.0, None),
        row(Connections, 100, EchoServer::Inline, 4e5, 200.0, Some(4.0)),
        row(
            Connections,
            10_000,
            EchoServer::Inline,
            2e5,
            900.0,
            Some(2.0),
        ),
        row(
            Connections,
            100,
            EchoServer::Process,
            3.6e5,
            250.0,
            Some(3.6),
        ),
        row(Batch, 64, EchoServer::Inline, 4e5, 200.0, None),
        row(Load, 90, EchoServer::Inline, 3.6e5, 30.0, Some(3.0)),
        row(Sizes, 16384, EchoServer::Inline, 2e4, 40.0, Some(0.7)),
    ];
    RunData {
        dir: "runs/dataplane".into(),
        manifest: manifest(Kind::Dataplane),
        samples: Vec::new(),
        periods: Vec::new(),
        ledgers: Vec::new(),
        reservations: Vec::new(),
        isolation: Vec::new(),
        experiment: None,
        result: Some(RunResult::Dataplane(DataplaneResult {
            rows,
            stage_cycles_per_packet: [("flush".to_owned(), 2000.0), ("process".to_owned(), 700.0)]
                .into(),
            congestion_control: "cubic".to_owned(),
            failed: [("sizes/64/process".to_owned(), "it ended".to_owned())].into(),
        })),
    }
}

/// Podman's network as the paper has it: saturated beside undercommitted and unrestricted.
pub fn isolation() -> RunData {
    let cell = |scenario: &str, repetition: u32, mbit: f64| {
        let noise = 1.0 + f64::from(repetition % 3) * 0.01;
        let point = |i: u32| Point {
            t_ms: f64::from(i) * 100.0,
            bytes: (mbit * noise * 12_500.0 * f64::from(i)) as u64,
            ..Point::default()
        };
        let tenant = |mbit: f64| TenantSample {
            asked: Some(2e8),
            used: mbit * 1e6 * noise,
            performance: mbit * 0.97e6 * noise,
            p99_us: Some(900.0 * noise),
            series: (0..16).map(point).collect(),
            ..TenantSample::default()
        };
        let scenario: Scenario = scenario.parse().unwrap();
        IsolationSample {
            schema: SCHEMA,
            time: "2026-11-22T00:00:00Z".to_owned(),
            key: CellKey {
                runtime: RuntimeKind::Podman,
                care: Care::Vanilla,
                resource: Resource::Network,
                scenario,
                repetition,
            },
            position: 0,
            window_s: 1.2,
            limit: 0.5,
            a: tenant(mbit),
            b: scenario.b.map(|_| tenant(2.0 * mbit)),
            acquisition_cpu_pct: 0.2,
            steal_fraction: Some(0.0),
        }
    };
    let samples: Vec<IsolationSample> = (0..5)
        .flat_map(|rep| {
            let uneven = if rep % 2 == 0 { 197.0 } else { 203.0 };
            [
                cell("a_s", rep, 200.0),
                cell("a_s_b_u", rep, uneven),
                cell("a_s_b_f", rep, 51.0),
            ]
        })
        .collect();
    let mut experiment = crate::isolation::Experiment::quick();
    experiment.runtimes = vec![RuntimeKind::Podman, RuntimeKind::Containerd];
    experiment.resources = vec![Resource::Network];
    let tables = crate::isolation::tables(&experiment, &samples);
    RunData {
        dir: "runs/isolation".into(),
        manifest: manifest(Kind::Isolation),
        samples: Vec::new(),
        periods: Vec::new(),
        reservations: Vec::new(),
        ledgers: Vec::new(),
        result: Some(RunResult::Isolation(IsolationResult {
            tables,
            unavailable: [("containerd".to_owned(), "no <ctr> here".to_owned())].into(),
            done: [15, 15],
            acquisition_cpu_pct: Some(estimate(&[0.2, 0.21])),
            ..IsolationResult::default()
        })),
        isolation: samples,
        experiment: Some(experiment),
    }
}

/// Writes `run` as a run directory.
pub fn write(run: &RunData, dir: &std::path::Path) {
    let lines = |values: Vec<String>| values.into_iter().map(|l| l + "\n").collect::<String>();
    let json = |v: &dyn erased::Json| v.json();
    let samples = match run.manifest.kind {
        Kind::Accounting => run.periods.iter().map(|p| json(p)).collect(),
        Kind::Reservation => run.reservations.iter().map(|s| json(s)).collect(),
        Kind::Isolation => run.isolation.iter().map(|s| json(s)).collect(),
        Kind::Latency | Kind::Dataplane => Vec::new(),
        Kind::Penalty | Kind::Demo => run.samples.iter().map(|s| json(s)).collect(),
    };
    std::fs::write(dir.join("manifest.json"), json(&run.manifest)).unwrap();
    std::fs::write(dir.join("samples.jsonl"), lines(samples)).unwrap();
    let ledgers = run.ledgers.iter().map(|l| json(l)).collect();
    std::fs::write(dir.join("ledger.jsonl"), lines(ledgers)).unwrap();
    if let Some(experiment) = &run.experiment {
        std::fs::write(dir.join("experiment.json"), json(experiment)).unwrap();
    }
    if let Some(result) = &run.result {
        let file = ResultFile {
            schema: SCHEMA,
            result: result.clone(),
        };
        std::fs::write(dir.join("result.json"), json(&file)).unwrap();
    }
}

mod erased {
    /// Anything that can be written as JSON.
    pub trait Json {
        fn json(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap()
        }
    }
}
