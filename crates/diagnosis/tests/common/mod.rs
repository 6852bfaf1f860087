//! Helpers of the diagnosis tests.
#![allow(dead_code, reason = "each test binary uses its part")]

use cofferdam_accounting::hidden_softirqs_by_reference;
use cofferdam_diagnosis::{Diagnosis, DiagnosisOptions, DiagnosisReading};
use cofferdam_host::Inventory;
use cofferdam_lab::fixtures::{
    Exclusive, FakeContainer, ForkedProcess, exclusive, fork, repeat_when_hidden, time_limit,
    wait_until,
};
use cofferdam_types::{CgroupId, Container, CpuAmount, DiagnosedContainer, ScheduleInterval};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Slices that ended with another task than they began with: the kernel hid the switch between them
/// from the tracepoints.
static HIDDEN_SWITCHES: AtomicU64 = AtomicU64::new(0);

/// Adds the hidden switches of `interval` to [`alone`]'s count. A slice with a hidden start counts
/// for the task that ran before, and may last as long as a thread has its CPU to itself.
pub fn note_hidden(interval: &ScheduleInterval) {
    HIDDEN_SWITCHES.fetch_add(interval.health.mismatches, Ordering::Relaxed);
}

/// Runs one root test at a time, with a time limit. Asserts that it leaves nothing behind.
pub fn alone(seconds: u64, body: impl FnMut() + Send + 'static) {
    let _alone: Exclusive = exclusive();
    time_limit(Duration::from_secs(5 * seconds), || {
        let mut softirqs = hidden_softirqs_by_reference().expect("the reference clock loads");
        let hidden = || softirqs() + HIDDEN_SWITCHES.load(Ordering::Relaxed);
        repeat_when_hidden(hidden, body);
    });
    cofferdam_lab::fixtures::assert_nothing_left();
}

pub fn diagnosis() -> Diagnosis {
    match Diagnosis::start(DiagnosisOptions {
        slots: 256,
        ..DiagnosisOptions::default()
    }) {
        Ok(diagnosis) => diagnosis,
        Err(e) => panic!("{e}"),
    }
}

pub fn read(diagnosis: &mut Diagnosis) -> DiagnosisReading {
    diagnosis
        .snapshot(&containers())
        .expect("the diagnosis can be read")
}

/// Containers of this host.
pub fn containers() -> Vec<Arc<Container>> {
    let inventory = Inventory::scan().expect("the host can be scanned");
    inventory.containers().cloned().collect()
}

/// Interval of `length`, started once all of `runners` are counted.
pub fn during(
    diagnosis: &mut Diagnosis,
    runners: &[&FakeContainer],
    length: Duration,
) -> ScheduleInterval {
    await_runners(diagnosis, runners);
    let before = read(diagnosis);
    std::thread::sleep(length);
    read(diagnosis).since(&before)
}

/// Waits until each container has been counted. The slice of a thread that already runs when its
/// container becomes known counts for the host. On an uncontended CPU that slice may last more than
/// 0.1 s, so each thread is stopped once.
pub fn await_runners(diagnosis: &mut Diagnosis, runners: &[&FakeContainer]) {
    let first = read(diagnosis);
    runners.iter().for_each(|container| pause(container));
    wait_until("the containers to be seen", Duration::from_secs(30), || {
        let interval = read(diagnosis).since(&first);
        runners.iter().all(|c| of(&interval, c).time.run_ns > 0)
    });
}

/// Stops each process of the container and resumes it.
fn pause(container: &FakeContainer) {
    let file = container.cgroup().controller("cpu").join("cgroup.procs");
    let processes = std::fs::read_to_string(file).expect("its processes");
    for process in processes.lines() {
        let pid: i32 = process.parse().expect("a number");
        // SAFETY: plain values.
        let signal = |signal| assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "{pid}");
        signal(libc::SIGSTOP);
        wait_until("a process to stop", Duration::from_secs(10), || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.is_ok_and(|stat| stat.contains(") T "))
        });
        signal(libc::SIGCONT);
    }
}

pub fn reserve(diagnosis: &mut Diagnosis, of: &FakeContainer, cpus: f64) {
    let amount = CpuAmount::try_from(cpus).expect("an amount");
    diagnosis.set_reserved(BTreeMap::from([(CgroupId(of.id()), amount)]));
}

pub fn of<'a>(interval: &'a ScheduleInterval, container: &FakeContainer) -> &'a DiagnosedContainer {
    let id = CgroupId(container.id());
    let found = interval
        .containers
        .iter()
        .find(|c| c.container.cgroup == id);
    found.unwrap_or_else(|| panic!("{} is not among the diagnosed", container.name()))
}

/// Starts a thread of the container that runs until it is dropped, on `cpu` alone if given.
pub fn spin(container: &FakeContainer, cpu: Option<usize>) -> ForkedProcess {
    fork(container, cpu, |child| {
        child.ready(0)?;
        loop {
            std::hint::spin_loop();
        }
    })
}

/// Starts a thread that alternately runs for `run` and sleeps for `sleep`.
pub fn doze(
    container: &FakeContainer,
    cpu: Option<usize>,
    run: Duration,
    sleep: Duration,
) -> ForkedProcess {
    fork(container, cpu, move |child| {
        child.ready(0)?;
        loop {
            let until = Instant::now() + run;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            std::thread::sleep(sleep);
        }
    })
}

/// Gives the container a quota of `us` microseconds per 100 ms.
pub fn quota(container: &FakeContainer, us: u64) {
    let dir = container.cgroup().controller("cpu");
    let (file, text) = if dir.join("cpu.max").exists() {
        ("cpu.max", format!("{us} 100000"))
    } else {
        ("cpu.cfs_quota_us", us.to_string())
    };
    if let Err(e) = std::fs::write(dir.join(file), text) {
        panic!("cannot set a quota in {}: {e}", dir.display());
    }
}

/// Asserts that the four losses of each container add up to its missing time, and that the CPUs'
/// times add up to wall-clock time.
pub fn assert_sums(interval: &ScheduleInterval) {
    for one in &interval.containers {
        let loss = &one.loss;
        assert_eq!(
            loss.forced_sharing_ns + loss.phantom_ns + loss.throttled_ns + loss.lack_ns,
            loss.lost_ns(),
            "{one:?}"
        );
    }
    let ran: u64 = interval.containers.iter().map(|c| c.time.run_ns).sum();
    let seen = ran + interval.idle_ns + interval.host_ns;
    let wall = interval.length.as_nanos() as u64 * interval.cpus as u64;
    assert!(
        seen.abs_diff(wall) * 100 < wall,
        "{seen} ns seen on {} CPUs in {:?}: {:?}",
        interval.cpus,
        interval.length,
        interval.health
    );
}

/// Largest relative error of a loss between two readings.
pub const WITHIN: f64 = 0.05;

/// `part` of `whole`, percent.
pub fn pct(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}
