//! Isolation benchmark as a user runs it, as short as possible.

// Clippy's exception for tests does not cover their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_bench::isolation::data::{
    GeneratorKind, IsolationResult, IsolationSample, IsolationSamples, IsolationTable, Level,
    Point, Resource, RuntimeKind,
};
use cofferdam_bench::isolation::quantity::{Size, Span};
use cofferdam_bench::isolation::{Experiment, Limits, Options, run};
use cofferdam_bench::run::{RunData, RunResult};
use cofferdam_bench::{BenchError, SilentProgress};
use cofferdam_lab::fixtures::{exclusive, time_limit};
use common::LIMIT;
use nix::fcntl::{Flock, FlockArg};
use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

fn experiment(runtime: RuntimeKind, scenarios: &[&str]) -> Experiment {
    let mut experiment = Experiment {
        name: "test".to_owned(),
        runtimes: vec![runtime],
        resources: Resource::ALL.to_vec(),
        scenarios: scenarios.iter().map(|s| s.parse().unwrap()).collect(),
        repetitions: 1,
        warmup: Span(Duration::from_millis(100)),
        measure: Span(Duration::from_millis(400)),
        // One measurement a cell, whatever the host's hypervisor does.
        attempts: 1,
        limits: Limits {
            memory: Some(Size(64 << 20)),
            disk_iops: Some(1000),
            disk_file: Size(4 << 20),
            llc: Some(Size(1 << 20)),
            ..Limits::default()
        },
        ..Experiment::quick()
    };
    experiment.complete();
    experiment
}

fn options(experiment: Experiment, dir: &Path) -> Options {
    Options {
        experiment,
        quick: false,
        output: Some(dir.to_owned()),
        stop_after: None,
    }
}

fn measure(options: Options) -> RunData {
    let _alone = exclusive();
    time_limit(LIMIT, move || {
        let dir = run(&options, &mut SilentProgress).unwrap();
        RunData::load(dir.path()).unwrap()
    })
}

fn result(data: &RunData) -> &IsolationResult {
    match &data.result {
        Some(RunResult::Isolation(result)) => result,
        other => panic!("{other:?}"),
    }
}

/// Objects of this process that are left on the host.
fn leftovers() -> Vec<String> {
    let mine = format!("{}-", std::process::id());
    let places = [
        "/var/tmp",
        "/run/netns",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup/cpu",
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/blkio",
        "/sys/fs/cgroup/systemd",
    ];
    places
        .iter()
        .flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten())
        .map(|entry| entry.path().display().to_string())
        .filter(|name| name.contains(&format!("bench-{mine}")))
        .collect()
}

fn assert_whole_run(runtime: RuntimeKind) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("run");
    let data = measure(options(experiment(runtime, &["a_s_b_o"]), &dir));
    let result = result(&data);
    assert_eq!(result.failed, Default::default());
    assert_eq!(result.unavailable, Default::default());
    assert_eq!(result.done, [14, 14], "two scenarios of seven resources");
    assert_eq!(result.tables.len(), 7);
    for sample in &IsolationSamples::of(&data).samples {
        let b = sample.key.scenario.b.is_some();
        assert_eq!(sample.b.is_some(), b, "{}", sample.key);
        let tenants = std::iter::once(&sample.a).chain(&sample.b);
        for tenant in tenants {
            // Buffered reads need no device, and a slow one may not have served a write yet.
            let served = sample.key.resource == Resource::DiskBuffered || tenant.used > 0.0;
            assert!(served, "{}: {tenant:?}", sample.key);
            assert!(!tenant.series.is_empty(), "{}", sample.key);
            assert!(
                tenant.asked.is_some_and(|asked| asked > 0.0),
                "{}",
                sample.key
            );
        }
    }
    // Tenant b receives the peer's packets: at the time of a reading its interface has counted at
    // least those.
    let flooded = |s: &&IsolationSample| s.key.resource == Resource::NetworkCpu && s.b.is_some();
    let sample = IsolationSamples::of(&data)
        .samples
        .iter()
        .find(flooded)
        .unwrap();
    let b = sample.b.as_ref().unwrap();
    assert!(b.series.last().unwrap().ops > 0, "{:?}", b.series);
    for point in &b.series {
        assert!(point.ops <= point.rx_packets, "{point:?}");
    }
    assert!(b.performance > 0.0 && b.p99_us.is_some(), "{b:?}");
    assert_eq!(b.asked, Some(200_000.0), "twice the default");
    // The limit works: b asks for half of the host, and may use a quarter. In a short window the
    // edges of the quota's periods add to that.
    let cpu = |t: &&IsolationTable| t.resource == Resource::Cpu;
    let rows = result.tables.iter().find(cpu).unwrap().rows.iter();
    let of_b: Vec<f64> = rows
        .filter_map(|r| Some(r.b_utilisation_pct.as_ref()?.median))
        .collect();
    assert!(of_b.len() == 1 && of_b[0] < 45.0, "{of_b:?}");
    for file in [
        "samples.parquet",
        "samples.csv",
        "result.csv",
        "experiment.json",
    ] {
        assert!(dir.join(file).exists(), "{file}");
    }
    assert_eq!(leftovers(), Vec::<String>::new());
    cofferdam_bench::report::render(&dir).unwrap();
}

/// The kernel's two ways to count agree on one load: cgroup files, and BPF.
/// Promise 45.
#[test]
fn tracepoints_and_cgroup_files_agree() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("run");
    let mut short = experiment(RuntimeKind::Runc, &["a_s"]);
    short.resources = vec![Resource::Memory, Resource::Disk, Resource::Network];
    let data = measure(options(short, &dir));
    assert_eq!(result(&data).failed, Default::default());
    assert_eq!(IsolationSamples::of(&data).samples.len(), 3);
    for sample in &IsolationSamples::of(&data).samples {
        let last = sample.a.series.last().unwrap();
        let traced = last.traced.unwrap();
        match sample.key.resource {
            Resource::Memory => {
                // Resident are 0.9 of 64 MiB, the program and its tables.
                let set_bytes = 0.9 * f64::from(64 << 20);
                let resident = |p: &&Point| p.traced.map_or(0, |t| t.rss_bytes);
                let middle = sample.a.series.iter().max_by_key(resident).unwrap();
                let rss = middle.traced.unwrap().rss_bytes as f64;
                assert!(
                    rss > 0.95 * set_bytes && rss < 1.2 * set_bytes,
                    "{middle:?}"
                );
                let anonymous = middle.rss_bytes as f64;
                assert!((rss - anonymous).abs() < 0.1 * set_bytes, "{middle:?}");
                assert!((sample.a.used - rss).abs() < 0.05 * set_bytes, "{sample:?}");
                // The sink has ended by now, and its counters with it.
                assert!(traced.rss_bytes < 16 << 20, "{last:?}");
            }
            Resource::Disk => {
                // Blocks of 4 KiB by O_DIRECT: the device served the operations that the limit
                // admitted. Adjacent ones may have become one request.
                let (file, device) = (last.io_bytes as f64, traced.device_bytes as f64);
                let few = 16.0 * 4096.0;
                assert!(
                    device > 0.0 && (file - device).abs() <= 0.1 * file + few,
                    "{last:?}"
                );
                let blocks = traced.device_bytes / 4096;
                assert_eq!(traced.device_bytes, blocks * 4096, "{last:?}");
                assert!(
                    traced.device_ops > 0 && traced.device_ops <= blocks,
                    "{last:?}"
                );
            }
            _ => {
                // 1400 bytes and the headers of UDP, IP and Ethernet; a few packets may be the
                // kernel's. Every datagram at the sink left through the interface.
                let (packets, bytes) = (last.tx_packets as f64, last.tx_bytes as f64);
                let most = packets * 1442.0;
                assert!(bytes <= most && bytes >= most - 16.0 * 1442.0, "{last:?}");
                assert!(last.ops > 0, "{last:?}");
                for point in &sample.a.series {
                    assert!(point.ops <= point.tx_packets, "{point:?}");
                }
            }
        }
        // The acquisition reports its own cost, with that of the programs.
        assert!(sample.acquisition_cpu_pct > 0.0);
    }
    assert_eq!(leftovers(), Vec::<String>::new());
}

/// Promise 43.
/// Promise 45.
/// Promise 46.
#[test]
fn a_process_run_is_whole_and_leaves_nothing() {
    assert_whole_run(RuntimeKind::Process);
}

/// Promise 43.
/// Promise 46.
#[test]
fn a_podman_run_is_whole_and_leaves_nothing() {
    assert_whole_run(RuntimeKind::Podman);
    let names = std::process::Command::new("podman")
        .args(["ps", "--all", "--format", "{{.Names}} {{.Image}}"])
        .output()
        .unwrap();
    let names = String::from_utf8_lossy(&names.stdout).into_owned();
    assert!(
        !names.contains(&format!("bench-{}-", std::process::id())),
        "{names}"
    );
}

/// Promise 43.
#[test]
fn a_bundle_of_runc_is_whole_and_leaves_nothing() {
    assert_whole_run(RuntimeKind::Runc);
}

/// Promise 43.
#[test]
fn a_run_of_nspawn_is_whole_and_leaves_nothing() {
    assert_whole_run(RuntimeKind::Nspawn);
}

/// Runs a generator: its tenants use what they demand, its figures are there, and no process is
/// left.
fn assert_generator_runs(
    generator: GeneratorKind,
    contended: &str,
    check: impl Fn(&IsolationSample),
) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("run");
    let mut short = experiment(RuntimeKind::Process, &["a_u", contended]);
    short.generator = generator;
    short.resources = generator.resources().to_vec();
    short.warmup = Span(Duration::from_millis(600));
    // iperf3 reports tenths of a second: some of them are complete whatever pauses there are.
    short.measure = Span(Duration::from_millis(1400));
    let data = measure(options(short, &dir));
    let result = result(&data);
    assert_eq!(result.failed, Default::default());
    let version = &result.environment.host["load generator"];
    assert!(version.contains(generator.label()), "{version}");
    assert_eq!(
        IsolationSamples::of(&data).samples.len(),
        3 * generator.resources().len()
    );
    for sample in &IsolationSamples::of(&data).samples {
        assert!(sample.a.performance > 0.0, "{}: {sample:?}", sample.key);
        let b = sample.b.as_ref();
        assert!(
            b.is_none_or(|b| b.performance > 0.0),
            "{}: {sample:?}",
            sample.key
        );
        check(sample);
    }
    assert_eq!(leftovers(), Vec::<String>::new());
    cofferdam_bench::report::render(&dir).unwrap();
}

/// Promise 46.
#[test]
fn stress_ng_loads_cpu_and_memory() {
    assert_generator_runs(GeneratorKind::StressNg, "a_s_b_f", |sample| {
        let set_bytes = sample.limit
            * if sample.key.scenario.a == Level::Undercommitted {
                0.5
            } else {
                0.9
            };
        match sample.key.resource {
            // A late start does not shorten its run.
            Resource::Cpu => assert!(sample.a.series.last().unwrap().cpu_ms > 0.0, "{sample:?}"),
            _ => {
                // The tenant has its set and its own pages; an unlimited neighbour may delay it.
                let most = sample
                    .a
                    .series
                    .iter()
                    .filter_map(|p| p.traced)
                    .map(|t| t.rss_bytes);
                let most = most.max().unwrap() as f64;
                assert!(
                    most > 0.9 * set_bytes,
                    "{most} of {set_bytes}: {}",
                    sample.key
                );
            }
        }
    });
}

/// Promise 46.
#[test]
fn fio_loads_the_disk() {
    assert_generator_runs(GeneratorKind::Fio, "a_s_b_f", |sample| {
        if sample.key.resource == Resource::Disk {
            assert!(sample.a.series.last().unwrap().io_ops > 0, "{sample:?}");
            assert!(sample.a.p99_us.is_some_and(|us| us > 0.0), "{sample:?}");
        }
    });
}

/// Promise 46.
#[test]
fn iperf3_loads_the_network() {
    // A neighbour that leaves part of the link free: client and server negotiate by TCP over it.
    assert_generator_runs(GeneratorKind::Iperf3, "a_s_b_u", |sample| {
        let sent = sample.a.series.last().unwrap().tx_bytes;
        assert!(sent > 0, "{sample:?}");
    });
}

/// However often the hypervisor disturbs it: a cell's attempts are numbered, the calmest counts,
/// and a finished run stays finished.
/// Promise 44.
#[test]
fn a_finished_run_keeps_all_its_attempts() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("run");
    let mut short = experiment(RuntimeKind::Process, &["a_u", "a_s", "a_u_b_u"]);
    short.resources = vec![Resource::Cpu];
    short.attempts = 3;
    let data = measure(options(short.clone(), &dir));
    assert_eq!(IsolationSamples::of(&data).samples.len(), 3);
    assert!(
        IsolationSamples::of(&data).repeated.len() <= 2,
        "half as many as a block has cells"
    );
    assert_eq!(
        result(&data).repeated as usize,
        IsolationSamples::of(&data).repeated.len()
    );
    for sample in &IsolationSamples::of(&data).samples {
        let others = IsolationSamples::of(&data)
            .repeated
            .iter()
            .filter(|s| s.key == sample.key);
        let mut attempts: Vec<u32> = others.clone().map(|s| s.attempt).collect();
        attempts.push(sample.attempt);
        attempts.sort_unstable();
        assert_eq!(attempts, (0..attempts.len() as u32).collect::<Vec<u32>>());
        for other in others {
            assert!(other.steal() >= sample.steal(), "{}", sample.key);
        }
    }
    let first = IsolationSamples::of(&data)
        .samples
        .iter()
        .chain(&IsolationSamples::of(&data).repeated);
    assert!(first.filter(|s| s.attempt == 0).count() == 3);
    let again = measure(options(short, &dir));
    assert_eq!(IsolationSamples::of(&again), IsolationSamples::of(&data));
}

/// A limit that the host decides is the same for all cells, also after resuming.
/// Promise 43.
#[test]
fn limits_by_the_hosts_measure_hold_for_the_whole_run() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("run");
    let mut short = experiment(RuntimeKind::Process, &["a_u", "a_s", "a_o"]);
    short.resources = vec![Resource::Disk];
    short.limits.disk_iops = None;
    let mut first = options(short.clone(), &dir);
    // The calibration takes three cells of its own; then there is time for one, not for all.
    first.stop_after = Some(Duration::from_millis(600));
    let before = IsolationSamples::of(&measure(first)).samples.len();
    let data = measure(options(short, &dir));
    assert_eq!(result(&data).failed, Default::default());
    assert!(
        before < 3 && IsolationSamples::of(&data).samples.len() == 3,
        "{before}"
    );
    let limit = IsolationSamples::of(&data).samples[0].limit;
    assert!(limit >= 1.0 && limit.fract() == 0.0, "{limit}");
    for sample in &IsolationSamples::of(&data).samples {
        assert_eq!(sample.limit, limit, "{}", sample.key);
    }
    // Each level asks for its part of that limit.
    let asked: HashSet<u64> = IsolationSamples::of(&data)
        .samples
        .iter()
        .map(|s| (s.a.asked.unwrap() / limit * 2.0).round() as u64)
        .collect();
    assert_eq!(asked, [1, 2, 4].into());
    assert_eq!(leftovers(), Vec::<String>::new());
}

/// Promise 44.
#[test]
fn a_stopped_run_resumes_and_measures_nothing_twice() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("run");
    let mut short = experiment(RuntimeKind::Process, &["a_u", "a_s", "a_u_b_u"]);
    short.resources = vec![Resource::Cpu];
    let mut first = options(short.clone(), &dir);
    // Time for at least one cell, and not for all three on any machine.
    first.stop_after = Some(Duration::from_millis(1400));
    let data = measure(first);
    let before = IsolationSamples::of(&data).samples.len();
    assert!(before < 3, "{before}");
    // Killed in the middle of a line: the incomplete cell is measured again.
    let mut samples = OpenOptions::new()
        .append(true)
        .open(dir.join("samples.jsonl"))
        .unwrap();
    samples.write_all(b"{\"schema\":1,\"ti").unwrap();
    drop(samples);
    let data = measure(options(short.clone(), &dir));
    let keys: HashSet<String> = IsolationSamples::of(&data)
        .samples
        .iter()
        .map(|s| s.key.to_string())
        .collect();
    assert_eq!(
        (keys.len(), IsolationSamples::of(&data).samples.len()),
        (3, 3)
    );
    assert_eq!(result(&data).done, [3, 3]);
    // The next call has nothing left to do.
    let again = measure(options(short.clone(), &dir));
    assert_eq!(
        IsolationSamples::of(&again).samples,
        IsolationSamples::of(&data).samples
    );
    // The result still names the runtime of its cells.
    let runtimes = &result(&again).environment.runtimes;
    assert!(runtimes["process"].contains("cofferdam"), "{runtimes:?}");
    // Another experiment in the same directory is refused.
    let other = Experiment { seed: 2, ..short };
    let error = run(&options(other, &dir), &mut SilentProgress).unwrap_err();
    assert!(matches!(error, BenchError::Usage(_)), "{error}");
    assert!(error.to_string().contains("another experiment"), "{error}");
}

/// Refused are a directory that another run locks, and one of a newer version or another
/// experiment.
/// Promise 44.
#[test]
fn unsuitable_run_directories_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("run");
    let mut short = experiment(RuntimeKind::Process, &["a_u"]);
    short.resources = vec![Resource::Cpu];
    measure(options(short.clone(), &dir));
    // Two runs at once: the first locks the directory.
    let file = OpenOptions::new()
        .append(true)
        .open(dir.join("samples.jsonl"))
        .unwrap();
    let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, e)| e)
        .unwrap();
    let error = run(&options(short.clone(), &dir), &mut SilentProgress).unwrap_err();
    assert!(error.to_string().contains("another run"), "{error}");
    drop(lock);
    let manifest = fs::read_to_string(dir.join("manifest.json")).unwrap();
    fs::write(
        dir.join("manifest.json"),
        manifest.replace("\"schema\": 2", "\"schema\": 99"),
    )
    .unwrap();
    let error = run(&options(short.clone(), &dir), &mut SilentProgress).unwrap_err();
    assert!(error.to_string().contains("schema 99"), "{error}");
    fs::write(
        dir.join("manifest.json"),
        manifest.replace("\"isolation\"", "\"demo\""),
    )
    .unwrap();
    let error = run(&options(short, &dir), &mut SilentProgress).unwrap_err();
    assert!(error.to_string().contains("demo"), "{error}");
    assert_eq!(error.exit_code(), 2);
}

/// Promise 43.
#[test]
fn a_missing_runtime_is_reported_and_the_others_are_measured() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("run");
    let mut both = experiment(RuntimeKind::Containerd, &["a_u"]);
    both.runtimes.push(RuntimeKind::Process);
    both.resources = vec![Resource::Cpu];
    let data = measure(options(both, &dir));
    let result = result(&data);
    assert!(
        result.unavailable["containerd"].contains("ctr"),
        "{:?}",
        result.unavailable
    );
    assert_eq!(result.tables.len(), 1);
    assert_eq!(result.tables[0].runtime, RuntimeKind::Process);
}

/// Promise 43.
#[test]
fn a_tenant_that_cannot_start_fails_its_cells_alone() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("run");
    let mut short = experiment(RuntimeKind::Process, &["a_u"]);
    short.resources = vec![Resource::Disk, Resource::Cpu];
    // Larger than any disk: refused before a byte is written.
    short.limits.disk_file = Size(1 << 52);
    let data = measure(options(short, &dir));
    let result = result(&data);
    let failed: Vec<&String> = result.failed.keys().collect();
    assert_eq!(failed, ["process/disk/a_u#0"]);
    assert!(
        result.failed["process/disk/a_u#0"].contains("MiB free"),
        "{:?}",
        result.failed
    );
    assert_eq!(result.tables.len(), 1);
    assert_eq!(leftovers(), Vec::<String>::new());
}
