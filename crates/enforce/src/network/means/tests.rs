use super::*;
use crate::journal::fake_kernel::FakeKernel;
use cofferdam_host::HostFs;
use std::fs;
use std::path::PathBuf;

/// Host with v1 cgroups and a kernel that refuses what the real one refuses.
struct Host {
    root: tempfile::TempDir,
    journal: Journal,
    applied: AppliedMeans,
    /// Number of steps, one second each.
    steps: u32,
}

/// Directory of a cgroup below the mount, its quota and its burst, microseconds per 100 ms.
type CgroupValues<'a> = (&'a str, &'a str, &'a str);

impl Host {
    fn new(cgroups: &[CgroupValues<'_>]) -> Host {
        let root = tempfile::tempdir().unwrap();
        for (name, quota, burst) in cgroups {
            let directory = root.path().join("sys/fs/cgroup/cpu").join(name);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("cpu.cfs_quota_us"), quota).unwrap();
            fs::write(directory.join("cpu.cfs_burst_us"), burst).unwrap();
            fs::write(directory.join("cpu.cfs_period_us"), "100000").unwrap();
        }
        let cpus = crate::cpus::read_list("0-1").unwrap();
        let kernel = FakeKernel {
            v1: true,
            possible: cpus.clone(),
            online: cpus,
            ..FakeKernel::default()
        };
        kernel.install();
        Host {
            journal: open(root.path()),
            applied: AppliedMeans::default(),
            steps: 0,
            root,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join("sys/fs/cgroup/cpu").join(name)
    }

    fn place(&self, name: &str) -> Place {
        Place {
            directories: Vec::new(),
            cpu: Some((self.at(name), false)),
            cpuset: None,
            is_pods: false,
        }
    }

    /// Corrects the quota of a cgroup.
    fn correct(&mut self, name: &str, quota_us: f64) {
        self.steps += 1;
        let (place, now) = (self.place(name), Duration::from_secs(self.steps.into()));
        self.applied
            .set_quota(&mut self.journal, &place, quota_us, now);
    }

    fn revert(&mut self) {
        self.applied.quota.revert(&mut self.journal);
        self.applied.quota_followers.revert_all(&mut self.journal);
        assert_eq!(self.journal.in_force(), 0);
    }

    /// Quota and burst of a cgroup.
    fn values(&self, name: &str) -> (String, String) {
        let read = |file: &str| fs::read_to_string(self.at(name).join(file)).unwrap();
        let text = |file: &str| read(file).trim().to_owned();
        (text("cpu.cfs_quota_us"), text("cpu.cfs_burst_us"))
    }

    fn assert_values(&self, wanted: &[CgroupValues<'_>]) {
        let refused = self.applied.quota.refused().map(ToString::to_string);
        for (name, quota, burst) in wanted {
            let values = self.values(name);
            let wanted = ((*quota).to_owned(), (*burst).to_owned());
            assert_eq!(values, wanted, "{name}: {refused:?}");
        }
    }
}

fn open(root: &std::path::Path) -> Journal {
    Journal::open_on(HostFs::below(root), &root.join("run"))
        .unwrap()
        .0
}

/// Promise 33.
#[test]
fn a_burst_follows_the_quota_and_is_reverted() {
    let before = [("web", "50000", "50000")];
    let mut host = Host::new(&before);
    for (value, quota, burst) in [
        (30_000.4, "30000", "30000"),
        (45_000.0, "45000", "45000"),
        (60_000.0, "60000", "50000"),
        (1_000.0, "1000", "1000"),
    ] {
        host.correct("web", value);
        host.assert_values(&[("web", quota, burst)]);
        assert!(host.applied.quota.refused().is_none());
    }
    host.revert();
    host.assert_values(&before);
}

/// Promise 33.
#[test]
fn quotas_of_cgroups_below_follow_a_pods_quota() {
    let before = [
        ("pod", "100000", "0"),
        ("pod/all", "100000", "20000"),
        ("pod/all/below", "80000", "80000"),
        ("pod/half", "50000", "0"),
        ("pod/none", "-1", "0"),
        ("pod/none/below", "70000", "0"),
    ];
    let mut host = Host::new(&before);
    host.correct("pod", 60_000.0);
    host.assert_values(&[
        ("pod", "60000", "0"),
        ("pod/all", "60000", "20000"),
        ("pod/all/below", "60000", "60000"),
        ("pod/half", "50000", "0"),
        ("pod/none", "-1", "0"),
        ("pod/none/below", "60000", "0"),
    ]);
    host.correct("pod", 10_000.0);
    host.assert_values(&[("pod", "10000", "0"), ("pod/all", "10000", "10000")]);
    host.correct("pod", 90_000.0);
    host.assert_values(&[
        ("pod", "90000", "0"),
        ("pod/all", "90000", "20000"),
        ("pod/all/below", "80000", "80000"),
        ("pod/half", "50000", "0"),
        ("pod/none/below", "70000", "0"),
    ]);
    host.correct("pod", 20_000.0);
    host.revert();
    host.assert_values(&before);
}

/// Promise 33.
#[test]
fn a_quota_stays_within_the_parents() {
    let mut host = Host::new(&[("pod", "80000", "0"), ("pod/web", "50000", "0")]);
    host.correct("pod/web", 90_000.0);
    host.assert_values(&[("pod/web", "80000", "0")]);
}

/// Promise 33.
#[test]
fn a_restart_reverts_quota_and_bursts_in_any_order() {
    let before = [("pod", "50000", "40000"), ("pod/web", "50000", "50000")];
    // The burst is lowered after the quota, or before.
    for values in [&[45_000.0, 20_000.0][..], &[20_000.0]] {
        let mut host = Host::new(&before);
        values.iter().for_each(|value| host.correct("pod", *value));
        host.assert_values(&[("pod", "20000", "20000"), ("pod/web", "20000", "20000")]);
        let root = host.root.path().to_owned();
        host.journal = {
            let elsewhere = tempfile::tempdir().unwrap();
            open(elsewhere.path())
        };
        let journal = open(&root);
        assert_eq!(journal.in_force(), 0);
        host.assert_values(&before);
    }
}

/// Promise 33.
#[test]
fn a_burst_that_another_program_writes_stays() {
    let mut host = Host::new(&[("web", "50000", "50000")]);
    host.correct("web", 30_000.0);
    fs::write(host.at("web/cpu.cfs_burst_us"), "7000").unwrap();
    host.correct("web", 40_000.0);
    host.assert_values(&[("web", "40000", "7000")]);
    host.revert();
    host.assert_values(&[("web", "50000", "7000")]);
}

/// A value that the kernel refused is not ours, however often it is tried.
/// Promise 36.
#[test]
fn an_applied_value_is_reverted_after_refused_writes() {
    let mut host = Host::new(&[("web", "50000", "50000")]);
    let file = host.at("web/cpu.cfs_quota_us");
    let mut set = |value: &str| {
        host.journal
            .set_file(&file, crate::journal::Form::Text, value)
    };
    set("50023").unwrap();
    for refused in ["43364", "49030", "43364"] {
        assert!(set(refused).is_err());
    }
    assert!(host.journal.revert_all().foreign.is_empty());
    host.assert_values(&[("web", "50000", "50000")]);
}

/// Promise 36.
#[test]
fn an_idle_cgroup_is_reported_and_its_weight_left_alone() {
    let mut host = Host::new(&[("web", "-1", "0")]);
    for (file, text) in [("cpu.idle", "1\n"), ("cpu.shares", "3\n")] {
        fs::write(host.at("web").join(file), text).unwrap();
    }
    let place = host.place("web");
    let applied = &mut host.applied;
    applied.set_weight(&mut host.journal, &place, 2.0, Duration::ZERO);
    assert!(applied.weight_is_idle && !applied.weight.is_corrected());
    assert_eq!(host.journal.failed_changes(), 0);
    // The weight is corrected again once it is no longer idle.
    fs::write(host.at("web/cpu.idle"), "0\n").unwrap();
    fs::write(host.at("web/cpu.shares"), "1024\n").unwrap();
    let applied = &mut host.applied;
    applied.set_weight(&mut host.journal, &place, 512.0, Duration::ZERO);
    assert!(!applied.weight_is_idle && applied.weight.is_corrected());
}

/// When the correction returns to the file's value, the refused write has not succeeded.
/// Promise 36.
#[test]
fn a_refusal_stays_until_a_write_succeeds() {
    let mut host = Host::new(&[("web", "50000", "50000")]);
    let file = host.at("web/cpu.cfs_quota_us");
    let journal = &mut host.journal;
    let mut corrected = CorrectedFile::default();
    let mut set = |value: f64, seconds| {
        let now = Duration::from_secs(seconds);
        corrected.set(journal, &file, value, &format!("{value:.0}"), now);
        (corrected.refused().is_some(), corrected.is_corrected())
    };
    assert_eq!(set(40_000.0, 0), (true, false));
    assert_eq!(set(50_000.0, 0), (true, false), "not tried again so soon");
    assert_eq!(set(60_000.0, 2), (false, true));
}
