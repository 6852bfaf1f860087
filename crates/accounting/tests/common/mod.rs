//! Helpers of the accounting's tests.
#![allow(dead_code, reason = "each test binary uses its part")]

use cofferdam_accounting::{Accountant, Options, StartError};
use cofferdam_lab::fixtures::{Exclusive, Namespace, Net, VethPair, exclusive, time_limit};
use cofferdam_types::{CgroupId, ContainerLedger, Interval, Ledger, Reason, Snapshot};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// CPU that receives, and CPU of everything else.
pub const RECEIVER_CPU: usize = 0;
pub const SENDER_CPU: usize = 1;

/// Largest relative difference between the ledgers and the measured time, on each CPU.
pub const SUM_WITHIN: f64 = 0.01;

/// Runs one root test at a time, with a time limit. Asserts that nothing stays behind.
pub fn alone(seconds: u64, body: impl FnOnce() + Send + 'static) {
    let _alone: Exclusive = exclusive();
    time_limit(Duration::from_secs(seconds), body);
    cofferdam_lab::fixtures::assert_nothing_left();
}

/// Starts the accounting with room for a few containers.
pub fn accountant() -> Accountant {
    accountant_with(Options {
        slots: 64,
        measure_programs: false,
    })
}

/// Starts the accounting; waits for another one to end.
pub fn accountant_with(options: Options) -> Accountant {
    let until = Instant::now() + Duration::from_secs(40);
    loop {
        match Accountant::start(options) {
            Ok(accountant) => return accountant,
            Err(StartError::AlreadyRunning { .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(e) => panic!("{e}"),
        }
    }
}

/// Runs `body`; returns the counts of that time, and of a moment after it for the queues to empty.
pub fn during<T>(accountant: &mut Accountant, body: impl FnOnce() -> T) -> (T, Interval) {
    let before = snapshot(accountant);
    let value = body();
    follow_for_ms(accountant, 200);
    (value, snapshot(accountant).since(&before))
}

/// Runs `body` as [`during`] does, for exact counts. Runs it again if the kernel hid softirqs of
/// that time from its tracepoints (some hosted kernels hide the time slices of their supervisor):
/// such a round proves nothing about the ledger.
pub fn exactly<T>(accountant: &mut Accountant, mut body: impl FnMut() -> T) -> (T, Interval) {
    for _ in 0..20 {
        // A softirq in flight between the kernel's count and ours adds to a reading: the least
        // reading is right. (One hidden softirq can carry many packets.)
        let readings = (0..5).map(|_| snapshot(accountant).health.softirqs_unseen);
        let hidden = readings.min().unwrap_or_default();
        let (value, interval) = during(accountant, &mut body);
        if interval.health.softirqs_unseen <= hidden {
            return (value, interval);
        }
    }
    panic!("in 20 rounds the kernel never reported all softirqs");
}

pub fn follow_for_ms(accountant: &mut Accountant, milliseconds: u64) {
    let until = Instant::now() + Duration::from_millis(milliseconds);
    accountant
        .follow(until, None)
        .expect("the accounting can be followed");
}

pub fn snapshot(accountant: &mut Accountant) -> Snapshot {
    accountant.snapshot().expect("the accounting can be read")
}

/// Returns the counts of the container with this cgroup.
pub fn row(interval: &Interval, cgroup: u64) -> &ContainerLedger {
    match interval
        .containers
        .iter()
        .find(|c| c.container.cgroup == CgroupId(cgroup))
    {
        Some(row) => row,
        None => panic!(
            "cgroup {cgroup} is not among {:?}",
            interval
                .containers
                .iter()
                .map(|c| &c.container.name)
                .collect::<Vec<_>>()
        ),
    }
}

pub fn ledger(interval: &Interval, cgroup: u64) -> Ledger {
    row(interval, cgroup).ledger
}

pub fn unattributed(interval: &Interval, reason: Reason) -> u64 {
    interval.unattributed_ns.get(&reason).copied().unwrap_or(0)
}

pub fn assert_conserved(interval: &Interval) {
    let c = interval.conservation;
    assert!(c.measured_ns > 0, "nothing was measured");
    assert!(
        c.worst_cpu_error_pct <= 100.0 * SUM_WITHIN,
        "the ledgers do not add up: {c:?}"
    );
}

/// Traffic source that is no container. A plain veth pair joins it to `to`. The receiver's softirq
/// work is steered to [`RECEIVER_CPU`].
pub struct Source {
    pub namespace: Namespace,
    pairs: Vec<VethPair>,
}

impl Source {
    pub fn new() -> Source {
        Source {
            namespace: Namespace::new("source"),
            pairs: Vec::new(),
        }
    }

    /// Joins a container's namespace; returns its address at `port`.
    pub fn join(&mut self, to: &Namespace, port: u16) -> SocketAddr {
        let n = self.pairs.len() + 1;
        let device = format!("s{n}");
        self.pairs
            .push(VethPair::new((&self.namespace, &device), (to, "eth0")));
        self.namespace.address(&device, &format!("10.97.{n}.1/24"));
        self.namespace
            .address(&device, &format!("fd97:{n:x}::1/64"));
        to.address("eth0", &format!("10.97.{n}.2/24"));
        to.address("eth0", &format!("fd97:{n:x}::2/64"));
        self.namespace.ping(&format!("10.97.{n}.2"));
        self.namespace.ping(&format!("fd97:{n:x}::2"));
        to.steer("eth0", 1 << RECEIVER_CPU);
        format!("10.97.{n}.2:{port}").parse().expect("an address")
    }
}
