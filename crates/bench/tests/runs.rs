//! Whole experiments, as short as possible: the run directory has every measurement.

// Clippy's exception for tests does not cover their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_bench::accounting::data::Watch;
use cofferdam_bench::data::{Role, Sample, SoftirqSource, Treatment, VictimKind};
use cofferdam_bench::penalty::data::PenaltyResult;
use cofferdam_bench::reservation::data::{
    NeighbourLimit, Neighbours, ReservationPolicy, ReservationSample, Target,
};
use cofferdam_bench::run::{RunData, RunResult};
use cofferdam_bench::simulation::data::SimulationSample;
use cofferdam_bench::{SilentProgress, accounting, demo, penalty, reservation, simulation};
use cofferdam_host::{CgroupLayout, HostFs};
use cofferdam_lab::fixtures::{exclusive, time_limit};
use common::{LIMIT, worker_executable};

fn penalty_of(ids: &[&str], pairs: u32) -> (RunData, tempfile::TempDir) {
    treated_penalty_of(ids, pairs, 0.3, Vec::new())
}

fn treated_penalty_of(
    ids: &[&str],
    pairs: u32,
    victim_seconds: f64,
    treatments: Vec<Treatment>,
) -> (RunData, tempfile::TempDir) {
    worker_executable();
    let _alone = exclusive();
    let dir = tempfile::tempdir().unwrap();
    let options = penalty::Options {
        output: Some(dir.path().join("run")),
        pairs,
        victim_seconds: Some(victim_seconds),
        treatments,
        filter: penalty::Filter {
            ids: ids.iter().map(|i| (*i).to_owned()).collect(),
            ..Default::default()
        },
        ..Default::default()
    };
    let data = time_limit(LIMIT, move || {
        let dir = penalty::run(&options, &mut SilentProgress).unwrap();
        RunData::load(dir.path()).unwrap()
    });
    (data, dir)
}

fn penalty_result(data: &RunData) -> &PenaltyResult {
    match &data.result {
        Some(RunResult::Penalty(result)) => result,
        other => panic!("{other:?}"),
    }
}

/// Promise 44.
#[test]
fn a_stopped_penalty_run_resumes_and_measures_nothing_twice() {
    time_limit(LIMIT, || {
        worker_executable();
        let _alone = exclusive();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let options = |pairs| penalty::Options {
            output: Some(path.clone()),
            pairs,
            victim_seconds: Some(0.02),
            filter: penalty::Filter {
                ids: vec![
                    "cpu/flood/receiver/veth/1x64B".to_owned(),
                    "cpu/flood/receiver/veth/3x200B".to_owned(),
                ],
                ..penalty::Filter::default()
            },
            ..penalty::Options::default()
        };
        // The time is up at once: nothing is measured, the plan is written.
        let stopped = penalty::Options {
            stop_after: Some(std::time::Duration::ZERO),
            ..options(2)
        };
        penalty::run(&stopped, &mut SilentProgress).unwrap();
        let data = RunData::load(&path).unwrap();
        assert_eq!(penalty_result(&data).done, [0, 2]);
        assert_eq!(Sample::of(&data).len(), 0);
        let whole = |wanted: usize| {
            penalty::run(&options(2), &mut SilentProgress).unwrap();
            let data = RunData::load(&path).unwrap();
            assert_eq!(penalty_result(&data).done, [2, 2]);
            let samples = Sample::of(&data).to_vec();
            assert_eq!(samples.len(), wanted);
            samples
        };
        let first = whole(8);
        // Cut in the middle of a pair, and of a line: that pair is measured again, the rest stays.
        let file = path.join("samples.jsonl");
        let text = std::fs::read_to_string(&file).unwrap();
        let length = text.len() - text.lines().last().unwrap().len() / 2;
        std::fs::write(&file, &text[..length]).unwrap();
        let second = whole(8);
        assert_eq!(second[..6], first[..6]);
        assert!(second[6..].iter().all(|s| s.attempt == 1));
        assert_eq!(whole(8), second);
        let other = penalty::run(&options(3), &mut SilentProgress).unwrap_err();
        assert_eq!(other.exit_code(), 2, "{other}");
    });
}

/// Promise 42.
#[test]
fn a_penalty_run_is_whole() {
    let ids = [
        "cpu/flood/receiver/veth/3x200B",
        "wordcount/shuffle/receiver/veth/24",
    ];
    let (data, _dir) = penalty_of(&ids, 2);
    let result = penalty_result(&data);
    assert_eq!(result.failed, Default::default());
    assert_eq!(result.cells.len(), ids.len());
    assert!(data.manifest.finished.is_some() && !data.manifest.interrupted);
    for cell in &result.cells {
        let samples: Vec<_> = Sample::of(&data)
            .iter()
            .filter(|s| s.cell == cell.cell.id)
            .collect();
        assert_eq!(samples.len(), 4);
        assert!(samples.iter().all(|s| s.checksum == samples[0].checksum));
        assert!(
            samples
                .iter()
                .all(|s| s.elapsed_s > 0.0 && s.victim_cpu_s > 0.0)
        );
        assert_eq!(cell.penalty.values.len(), 2);
        // Under a full flood the sink may not read a packet in such a short time; its stack counts
        // them all the same.
        let ledgers = || data.ledgers.iter().filter(|l| l.cell == cell.cell.id);
        assert_eq!(ledgers().count(), 4);
        let beside_traffic: Vec<_> = ledgers()
            .filter(|l| l.role == Some(Role::Traffic))
            .collect();
        assert_eq!(beside_traffic.len(), 2);
        for ledger in beside_traffic {
            let competitor = ledger.containers.iter().find(|c| c.name == "competitor");
            assert!(
                competitor.is_some_and(|c| c.ledger.rx_packets > 0),
                "{}: {competitor:?}",
                cell.cell.id
            );
        }
        assert_eq!(cell.softirq_source, Some(SoftirqSource::Ledger));
    }
}

/// Promise 42.
#[test]
fn the_ledger_names_the_receiver_and_the_victim_pays() {
    let (data, _dir) = penalty_of(&["cpu/flood/receiver/veth/3x200B"], 1);
    let flooded = data
        .ledgers
        .iter()
        .find(|l| l.role == Some(Role::Traffic))
        .unwrap();
    let named = |name: &str| flooded.containers.iter().find(|c| c.name == name).unwrap();
    assert!(named("competitor").ledger.caused_rx_ns > 0);
    assert_eq!(named("victim").ledger.caused_ns(), 0);
    assert!(named("victim").ledger.charged_network_ns > 0);
}

/// Promise 42.
#[test]
fn an_enforced_offender_pays_for_its_own_flood() {
    let id = "cpu/flood/receiver/veth/3x200B";
    // Long enough for means that take time on a busy host.
    let (data, _dir) = treated_penalty_of(&[id], 1, 1.0, vec![Treatment::Enforced]);
    let result = penalty_result(&data);
    assert_eq!(result.failed, Default::default());
    let cell = &result.cells[0];
    let enforced = &cell.treated[0];
    assert_eq!(enforced.treatment, Treatment::Enforced);
    let paid = |share: Option<f64>| share.unwrap();
    let (vanilla, now) = (
        paid(cell.victim_charged_fraction),
        paid(enforced.victim_charged_fraction),
    );
    assert!(vanilla > 0.02 && now < vanilla / 2.0, "{vanilla} {now}");
    // Part of its packets' cost that ran in its own time; others were charged for the rest.
    let own_part = |treatment| {
        let under = data
            .ledgers
            .iter()
            .find(|l| l.role == Some(Role::Traffic) && l.treatment == treatment);
        let containers = &under.unwrap().containers;
        let offender = containers.iter().find(|c| c.name == "competitor").unwrap();
        offender.ledger.charged_network_ns as f64 / offender.ledger.caused_ns() as f64
    };
    let (vanilla, now) = (own_part(Treatment::Vanilla), own_part(Treatment::Enforced));
    assert!(now > 1.5 * vanilla, "{vanilla} {now}");
    // All changes are reverted: nothing is left to revert.
    let journal = std::path::Path::new("/run/cofferdam/journal");
    let left = std::fs::read_to_string(journal).unwrap_or_default();
    assert_eq!(left.trim(), "");
}

/// Promise 42.
#[test]
fn many_offenders_and_quotas_have_their_own_containers_and_shares() {
    let ids = [
        "cpu/flood/receiver/veth/3x200B/10offenders",
        "cpu/stream/receiver/veth/3x65536B/share80/quota",
    ];
    let (data, _dir) = penalty_of(&ids, 1);
    let result = penalty_result(&data);
    assert_eq!(result.failed, Default::default());
    assert_eq!(result.cells.len(), 2);
    let flooded = data
        .ledgers
        .iter()
        .find(|l| l.cell == ids[0] && l.role == Some(Role::Traffic))
        .unwrap();
    let offenders = flooded
        .containers
        .iter()
        .filter(|c| c.name.starts_with("competitor-") && c.ledger.caused_rx_ns > 0);
    assert_eq!(offenders.count(), 10);
    let capped = data
        .ledgers
        .iter()
        .find(|l| l.cell == ids[1] && l.role == Some(Role::Compute))
        .unwrap();
    let used = |name: &str| {
        let container = capped.containers.iter().find(|c| c.name == name).unwrap();
        container.ledger.cpu_usage_ns as f64 / 1e9 / capped.interval_s
    };
    assert!(used("competitor") < 0.3, "{}", used("competitor"));
    assert!(
        used("victim") > 1.4 * used("competitor"),
        "{}",
        used("victim")
    );
}

/// Promise 42.
#[test]
fn the_request_response_victim_is_judged_by_its_p99() {
    let (data, _dir) = penalty_of(&["rpc/flood/receiver/veth/3x200B"], 1);
    for sample in Sample::of(&data) {
        let latency = sample.latency.unwrap();
        assert_eq!(latency.lost, 0);
        assert!(latency.p50_us <= latency.p99_us && latency.p99_us <= latency.max_us);
    }
    let result = penalty_result(&data);
    assert_eq!(result.cells[0].cell.victim, VictimKind::Rpc);
    assert_eq!(result.cells[0].metric, cofferdam_bench::data::Metric::P99Us);
}

/// Promise 42.
#[test]
fn the_demo_names_the_offender() {
    worker_executable();
    let _alone = exclusive();
    let dir = tempfile::tempdir().unwrap();
    let output = Some(dir.path().to_owned());
    let data = time_limit(LIMIT, move || {
        let options = demo::Options {
            output,
            rounds: 1,
            victim_seconds: 0.05,
            reservation_rounds: 1,
            reservation_seconds: 0.2,
            ..Default::default()
        };
        let dir = demo::run(&options, &mut SilentProgress).unwrap();
        RunData::load(dir.path()).unwrap()
    });
    let Some(RunResult::Demo(result)) = &data.result else {
        panic!("{:?}", data.result)
    };
    assert_eq!(result.offender.as_deref(), Some("competitor"));
    assert!(
        result.sentence.contains("'competitor' caused"),
        "{}",
        result.sentence
    );
    assert!(result.cell.alone.is_some() && result.ledger.is_some());
    let reservation = result.reservation.as_ref().expect("it was measured");
    use ReservationPolicy::{Alone, Lending, None as Nothing};
    let policies: Vec<_> = reservation.rows.iter().map(|r| r.policy).collect();
    assert_eq!(policies, [Alone, Nothing, Lending]);
    assert_eq!(ReservationSample::of(&data).len(), 3);
    assert!(
        ReservationSample::of(&data)
            .iter()
            .all(|s| s.entitled.is_some())
    );
}

/// Promise 2.
/// Promise 47.
#[test]
fn an_accounting_run_is_whole() {
    worker_executable();
    let _alone = exclusive();
    let dir = tempfile::tempdir().unwrap();
    let output = Some(dir.path().to_owned());
    // Thousands of batches, each of which waits for its two CPUs: on a busy host that takes
    // minutes.
    let data = time_limit(5 * LIMIT, move || {
        let options = accounting::Options {
            output,
            quick: true,
            pairs: 2,
            period_seconds: Some(0.2),
            ..Default::default()
        };
        let dir = accounting::run(&options, &mut SilentProgress).unwrap();
        RunData::load(dir.path()).unwrap()
    });
    let Some(RunResult::Accounting(result)) = &data.result else {
        panic!("{:?}", data.result)
    };
    // The flood as carried and as read, and the stream; exact, sampled and empty programs.
    assert_eq!(result.overhead.len(), 9);
    // Two loads, two rounds of off and of these, and the period with program statistics.
    assert_eq!(data.samples.count(), 18);
    for row in &result.overhead {
        let exact = row.mode == Watch::Exact;
        assert_eq!(row.bpf_ns_per_packet.is_some(), exact, "{row:?}");
        assert_eq!(row.goal.is_none(), row.mode == Watch::Nothing, "{row:?}");
        assert_eq!(row.ratio.values.len(), 2);
    }
    assert!(
        result
            .programs
            .iter()
            .all(|row| row.runs > 0 && row.ns_per_run >= 0.0)
    );
    let marker = result
        .programs
        .iter()
        .find(|row| row.name == "netif_receive_skb");
    assert!(marker.is_some_and(|row| row.runs_per_packet > 0.0));
    assert!(result.memory_bytes.is_some_and(|bytes| bytes > 0));
    // The flood, the stream and the accuracy table. A reading is consistent, whatever the length of
    // the period and the load of the machine: this asserts no time.
    assert_eq!(result.conservation.len(), 3);
    for row in &result.conservation {
        assert!(row.measured_ns > 0 && row.attributed_ns > 0, "{row:?}");
        assert!(row.worst_cpu_error_pct < 1.0, "{row:?}");
    }
    // The rates, and both sides of six pairs, each with its interval. Their distance from 0 depends
    // on the machine, and the run judges it. `cofferdam_replay` tests the division itself.
    assert_eq!(result.accuracy.len(), 13, "{:?}", result.accuracy);
    for row in &result.accuracy {
        let [low, high] = row.error_interval_pct.unwrap();
        assert!(low <= row.error_pct && row.error_pct <= high, "{row:?}");
        assert!(row.expected > 0.0 && row.measured > 0.0, "{row:?}");
    }
}

/// Promise 47.
#[test]
fn a_reservation_run_is_whole_and_leaves_nothing() {
    worker_executable();
    let _alone = exclusive();
    let dir = tempfile::tempdir().unwrap();
    let output = Some(dir.path().to_owned());
    let data = time_limit(LIMIT, move || {
        let options = reservation::Options {
            output,
            rounds: 1,
            seconds: Some(0.3),
            targets: vec![
                Target::Batch,
                Target::Xz,
                Target::Wakeups,
                Target::Memcached,
            ],
            neighbours: vec![Neighbours::Cpu],
            limits: vec![NeighbourLimit::Burstable],
            neighbour_counts: vec![2],
            ..Default::default()
        };
        let dir = reservation::run(&options, &mut SilentProgress).unwrap();
        RunData::load(dir.path()).unwrap()
    });
    let Some(RunResult::Reservation(result)) = &data.result else {
        panic!("{:?}", data.result)
    };
    assert_eq!(result.failed, Default::default());
    let rows: Vec<usize> = result.cells.iter().map(|c| c.rows.len()).collect();
    assert_eq!(rows, [6, 6, 5, 6]);
    let mut rows = result.cells.iter().flat_map(|c| &c.rows);
    assert!(rows.all(|row| row.entitled.is_some()));
    for sample in ReservationSample::of(&data) {
        assert!(sample.elapsed_s > 0.0 && sample.cpu_s > 0.0, "{sample:?}");
        let busy = sample.policy != ReservationPolicy::Alone;
        assert_eq!(sample.neighbour_cpu_s > 0.0, busy, "{sample:?}");
        let batch = ["batch/cpu/burstable/2x2", "xz/cpu/burstable/2x2"];
        let interactive = !batch.contains(&sample.cell.as_str());
        let answered = sample
            .latency
            .is_some_and(|l| l.requests > 100 && l.p99_us > 0.1);
        assert_eq!(answered, interactive, "{sample:?}");
        assert_eq!(sample.checksum.is_some(), !interactive);
        let entitled = sample.entitled.as_ref().expect("the diagnosis runs here");
        let lost: f64 = entitled.losses().into_iter().sum();
        assert!(entitled.entitled_cpus > 0.0, "{sample:?}");
        assert!(lost <= entitled.entitled_cpus + 1e-6, "{sample:?}");
    }
    nothing_is_left();
}

/// Checks that neither a cgroup of this process nor a journal is left.
fn nothing_is_left() {
    let own = format!("cofferdam-bench-{}-", std::process::id());
    let layout = CgroupLayout::read(&HostFs::host()).unwrap();
    for root in layout.v1_mounts.values().chain([&layout.v2_mount]) {
        let names = std::fs::read_dir(root).unwrap().flatten();
        let left = names.filter(|e| e.file_name().to_string_lossy().starts_with(&own));
        assert_eq!(left.count(), 0);
    }
    assert!(!std::path::Path::new("/run/cofferdam/journal").exists());
}

/// Promise 47.
#[test]
fn a_simulation_run_is_whole_and_leaves_nothing() {
    worker_executable();
    let _alone = exclusive();
    let dir = tempfile::tempdir().unwrap();
    let output = Some(dir.path().to_owned());
    let data = time_limit(LIMIT, move || {
        let cases = [
            "spin/1x1/1:1",
            "quota/target-50%",
            "periodic/target-long",
            "lending/",
        ];
        let options = simulation::Options {
            output,
            rounds: 1,
            seconds: Some(0.3),
            cases: cases.map(str::to_owned).into(),
            ..Default::default()
        };
        let dir = simulation::run(&options, &mut SilentProgress).unwrap();
        RunData::load(dir.path()).unwrap()
    });
    let Some(RunResult::Simulation(result)) = &data.result else {
        panic!("{:?}", data.result)
    };
    assert_eq!(result.failed, Default::default());
    assert_eq!(result.cases.len(), 5);
    for case in &result.cases {
        assert_eq!(case.rows.len(), case.case.tenants.len());
        // On a loaded host one of them may get no CPU in such a short time.
        let measured: f64 = case.rows.iter().map(|row| row.measured.median).sum();
        assert!(measured > 0.0, "{case:?}");
        for row in &case.rows {
            assert!(row.simulated.median > 0.0, "{row:?}");
        }
    }
    for sample in SimulationSample::of(&data) {
        let shares: f64 = sample.shares().into_iter().sum();
        assert!((0.0..=1.01).contains(&shares), "{sample:?}");
        assert!(
            sample.taken_s >= 0.0 && sample.elapsed_s > 0.29,
            "{sample:?}"
        );
    }
    nothing_is_left();
}
