//! Accounting in windows, on this host's kernel: which programs are attached at which time, and
//! that estimates add up.

mod common;

use cofferdam_accounting::{Accountant, WindowOptions};
use cofferdam_lab::fixtures::leftovers::attached_programs;
use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{Cgroup, FakeContainer};
use cofferdam_types::{AccountingMode, CgroupId, Interval, Sampling};
use common::*;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const WINDOWS: WindowOptions = WindowOptions {
    window: Duration::from_millis(50),
    period: Duration::from_millis(400),
};
/// Name of one program of either kind.
const MARKER: &str = "netif_receive_s"; // the kernel keeps 15 characters
const LIFECYCLE: &str = "sched_process_e";

fn is_attached(name: &str) -> bool {
    attached_programs().contains(name)
}

/// Begins sampling, and waits until it takes effect.
fn take_windows(accountant: &mut Accountant) {
    accountant.sample(WINDOWS).expect("windows can be taken");
    assert_eq!(
        accountant.mode(),
        AccountingMode::Exact,
        "until it is asked to"
    );
    accountant.set_exact(false).expect("it can be asked");
    follow_until(accountant, |a| a.mode() == AccountingMode::Sampled);
}

fn follow_until(accountant: &mut Accountant, reached: impl Fn(&Accountant) -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !reached(accountant) {
        assert!(Instant::now() < until, "it never came");
        follow_for_ms(accountant, 5);
    }
}

/// Returns the number of windows so far.
fn windows(accountant: &mut Accountant) -> u64 {
    let sampling = snapshot(accountant).sampling;
    sampling.map_or(0, |sampling| sampling.windows)
}

fn sampling(interval: &Interval) -> &Sampling {
    interval
        .sampling
        .as_ref()
        .expect("an accounting that samples says so")
}

/// The programs that see packets are also attached while everything is counted.
///
/// Promise 4.
#[test]
fn programs_that_see_packets_are_attached_in_windows() {
    alone(90, || {
        let mut accountant = accountant();
        assert!(is_attached(MARKER) && is_attached(LIFECYCLE));
        take_windows(&mut accountant);
        let (mut with, mut without) = (0, 0);
        let first = windows(&mut accountant);
        let until = Instant::now() + Duration::from_secs(60);
        while windows(&mut accountant) < first + 4 || with == 0 || without == 0 {
            assert!(
                Instant::now() < until,
                "{with} times attached, {without} not"
            );
            match is_attached(MARKER) {
                true => with += 1,
                false => without += 1,
            }
            assert!(is_attached(LIFECYCLE), "containers come at any time");
            follow_for_ms(&mut accountant, 5);
        }
        // A container that comes between windows is discovered at once.
        let container = FakeContainer::new("between");
        follow_until(&mut accountant, |a| {
            let all = a.containers();
            all.iter().any(|c| c.cgroup == CgroupId(container.id()))
        });
        assert!(accountant.become_exact(Duration::from_secs(20)).unwrap());
        assert_eq!(accountant.mode(), AccountingMode::Exact);
        for _ in 0..100 {
            assert!(is_attached(MARKER), "for as long as everything is counted");
            follow_for_ms(&mut accountant, 5);
        }
        accountant.set_exact(false).unwrap();
        follow_until(&mut accountant, |a| a.mode() == AccountingMode::Sampled);
        drop(accountant);
        assert!(!is_attached(MARKER) && !is_attached(LIFECYCLE));
    });
}

/// An accounting that cannot sample continues to count everything.
#[test]
fn without_a_descriptor_for_it_everything_is_counted_as_before() {
    alone(60, || {
        let mut accountant = accountant();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        // No descriptor is free below the lowest free one.
        let lowest = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
        setrlimit(Resource::RLIMIT_NOFILE, lowest as u64, hard).unwrap();
        let refused = accountant.sample(WINDOWS).unwrap_err().to_string();
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        assert!(refused.contains("cannot take windows"), "{refused}");
        assert!(is_attached(MARKER));
        accountant.set_exact(false).unwrap();
        follow_for_ms(&mut accountant, 50);
        assert_eq!(accountant.mode(), AccountingMode::Exact);
        assert!(is_attached(MARKER), "windows are not taken");
        // With a descriptor it can.
        take_windows(&mut accountant);
    });
}

/// The number of tasks is limited, as in a container or a systemd unit.
#[test]
fn without_a_thread_for_it_everything_is_counted_as_before() {
    alone(60, || {
        let mut accountant = accountant();
        let full = Cgroup::new("full");
        let directory = full.controller("pids");
        let home = own_cgroup(directory);
        let own = std::process::id().to_string();
        fs::write(directory.join("cgroup.procs"), &own).unwrap();
        fs::write(directory.join("pids.max"), "1").unwrap();
        let refused = accountant.sample(WINDOWS);
        fs::write(home.join("cgroup.procs"), &own).unwrap();
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("cannot take windows"), "{refused}");
        assert!(is_attached(MARKER));
        take_windows(&mut accountant);
    });
}

/// Returns the folder of this process's cgroup in the hierarchy of the cgroup `other`.
fn own_cgroup(other: &Path) -> PathBuf {
    let root = other.parent().expect("a hierarchy");
    let text = fs::read_to_string("/proc/self/cgroup").expect("procfs");
    let is_pids = |line: &&str| line.contains(":pids:") || line.contains(",pids");
    let line = text.lines().find(is_pids);
    let line = line.or_else(|| text.lines().find(|line| line.starts_with("0::")));
    let path = line.and_then(|line| Some(line.rsplit_once(':')?.1));
    root.join(path.expect("a cgroup").trim_start_matches('/'))
}

/// Promise 4.
#[test]
fn an_estimate_adds_up_and_states_its_quality() {
    alone(120, || {
        let container = FakeContainer::new("sampled");
        let mut accountant = accountant();
        let mut source = Source::new();
        let to = source.join(container.namespace(), 9000);
        take_windows(&mut accountant);
        let before = snapshot(&mut accountant);
        let _sink = traffic::udp_sink(&container, Some(RECEIVER_CPU), to, u64::MAX);
        let _flood = traffic::udp_send(
            &source.namespace,
            Some(SENDER_CPU),
            Udp::to(to).flood(Duration::from_secs(60)),
        );
        let first = windows(&mut accountant);
        follow_until(&mut accountant, |a| a.window().is_some());
        while windows(&mut accountant) < first + 6 {
            follow_for_ms(&mut accountant, 50);
        }
        let after = snapshot(&mut accountant);
        let estimated = after.since(&before);
        assert_conserved(&estimated);
        let counts = ledger(&estimated, container.id());
        let sampling = sampling(&estimated);
        assert_eq!(sampling.mode, AccountingMode::Sampled);
        assert!(sampling.observed_ns < sampling.estimated_ns, "{sampling:?}");
        // The estimate covers the time that the windows represent.
        let length_ns = estimated.length.as_nanos() as u64;
        assert!(
            length_ns.abs_diff(sampling.estimated_ns) < 1_000_000,
            "{estimated:?}"
        );
        let spread = sampling.spreads[&CgroupId(container.id())];
        let total = counts.caused_ns() as f64;
        let [low, high] = sampling.interval_95(total, &spread.caused, estimated.cpus.len(), false);
        assert!(spread.caused.seen > 0.0, "the flood was met");
        assert!(spread.caused.seen <= low && low <= total && total <= high);
        assert!(counts.rx_packets > 0 && counts.rx_bytes > 0);
        // The counts of the windows themselves are not estimated.
        let window = accountant.window().unwrap();
        assert!(window.sampling.is_none());
        assert!(ledger(&window, container.id()).caused_ns() <= counts.caused_ns());
        // In the exact mode counts continue from the estimate.
        assert!(accountant.become_exact(Duration::from_secs(20)).unwrap());
        let exact = snapshot(&mut accountant);
        follow_for_ms(&mut accountant, 300);
        let later = snapshot(&mut accountant).since(&exact);
        assert!(!later.is_estimated());
        assert!(ledger(&later, container.id()).rx_packets > 0);
        assert_conserved(&later);
        for (now, before) in exact.containers.iter().zip(&after.containers) {
            assert_eq!(now.container.cgroup, before.container.cgroup);
            assert!(now.ledger.caused_ns() >= before.ledger.caused_ns());
            assert!(now.ledger.cpu_usage_ns >= before.ledger.cpu_usage_ns);
        }
    });
}
