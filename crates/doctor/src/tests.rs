use super::*;

/// The report is complete and sound on any machine.
/// Promise 24.
#[test]
fn report_is_complete_and_sound() {
    let report = examine();
    let mut ids: Vec<_> = report.checks.iter().map(|c| c.id).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are unique");
    assert!(
        report
            .checks
            .iter()
            .all(|c| !c.detail.is_empty() && !c.enables.is_empty())
    );
    assert!(
        serde_json::to_string(&report)
            .unwrap()
            .contains("\"required_for_accounting\":true")
    );
}

#[test]
fn small_parsers() {
    assert_eq!(
        limits::chosen("none [integrity] confidentiality\n"),
        Some("integrity")
    );
    assert_eq!(limits::chosen("none"), None);
    assert_eq!(
        limits::effective("Name:\tx\nCapEff:\t000001ffffffffff\n"),
        Some(0x1ff_ffff_ffff)
    );
    assert_eq!(limits::effective("CapEff:\tzz\n"), None);
}

/// Tests a pure v2 host whose root enables cpu for its children, but not cpuset.
/// Promise 7.
#[test]
fn controllers_of_a_pure_v2_host() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "proc/self/mountinfo",
        "1 2 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    );
    write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n");
    write("sys/fs/cgroup/cgroup.subtree_control", "cpu\n");
    write("sys/fs/cgroup/system.slice/cpu.max", "max 100000\n");
    let fs = HostFs::below(root.path());
    assert_eq!(cgroup::layout(&fs).status, Status::Yes);
    let checks = cgroup::controllers(&fs);
    let found: Vec<_> = checks.iter().map(|c| (c.id, c.status)).collect();
    let expected = [
        ("cfs-quota", Status::Yes),
        ("cpuset", Status::Partly),
        ("psi", Status::No),
    ];
    assert_eq!(found, expected);
    assert!(
        checks[1]
            .remedy
            .as_ref()
            .unwrap()
            .starts_with("echo +cpuset")
    );
    assert!(cgroup::layout(&HostFs::below("/nonexistent")).blocks_accounting());
}
