//! Tests of the probes on this host. They need root.
#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made is a failed test"
)]

use cofferdam_doctor::Status;
use cofferdam_lab::fixtures::time_limit;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Lock of one test at a time: the first counts descriptors that the others would open.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn devices() -> BTreeSet<String> {
    std::fs::read_dir("/sys/class/net")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("cfprobe"))
        .collect()
}

/// Number of BPF descriptors of this process.
fn bpf_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| target.to_string_lossy().contains("bpf"))
        .count()
}

/// Promise 24.
#[test]
fn the_accounting_can_run_here_and_nothing_stays() {
    time_limit(LIMIT, || {
        let _alone = alone();
        let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let before = (devices(), bpf_descriptors(), mounts().lines().count());
        let report = cofferdam_doctor::examine();
        assert!(
            report.accounting_blocker().is_none(),
            "{:?}",
            report.accounting_blocker()
        );
        assert!(cofferdam_doctor::accounting_blocker().is_none());
        assert!(report.is_permitted());
        for id in [
            "btf",
            "tp-btf",
            "tracepoints",
            "ringbuf",
            "cgroup-layout",
            "raw-tp",
        ] {
            assert_eq!(report.check(id).unwrap().status, Status::Yes, "{id}");
        }
        let after = (devices(), bpf_descriptors(), mounts().lines().count());
        assert_eq!(before, after);
        assert_eq!(before.1, 0);
    });
}

/// JSON and table are printed from the same values.
#[test]
fn the_report_is_one_json_document() {
    time_limit(LIMIT, || {
        let _alone = alone();
        let report = cofferdam_doctor::examine();
        let value: serde_json::Value =
            serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        let checks = value["checks"].as_array().unwrap();
        assert_eq!(checks.len(), report.checks.len());
        let words = ["yes", "partly", "no"];
        assert!(
            checks
                .iter()
                .all(|c| words.contains(&c["status"].as_str().unwrap()))
        );
    });
}

/// Without root the report names what is missing, and the blocker has a remedy.
/// Promise 24.
#[test]
fn without_root_the_report_names_missing_rights() {
    time_limit(LIMIT, || {
        let _alone = alone();
        let report = std::thread::spawn(|| {
            become_nobody();
            cofferdam_doctor::examine()
        })
        .join()
        .unwrap();
        let blocker = report
            .accounting_blocker()
            .expect("the accounting cannot run");
        assert_eq!(blocker.id, "capabilities");
        assert!(blocker.detail.contains("CAP_BPF"), "{}", blocker.detail);
        assert!(blocker.remedy.as_ref().unwrap().contains("root"));
        assert!(!blocker.permitted && !report.is_permitted());
        for id in [
            "tp-btf",
            "ringbuf",
            "raw-tp",
            "xdp-native",
            "tcx",
            "veth-napi",
        ] {
            let check = report.check(id).unwrap();
            assert_eq!(check.status, Status::No, "{id}");
            assert!(!check.permitted, "{id}");
            assert!(
                check.detail.contains("needs root"),
                "{id}: {}",
                check.detail
            );
        }
        for id in ["btf", "tracepoints", "cgroup-layout", "psi"] {
            let check = report.check(id).unwrap();
            assert!(check.status == Status::Yes && check.permitted, "{id}");
        }
    });
}

/// Drops all privileges of the calling thread alone. The system calls, unlike the library's
/// functions of the same name, do not apply to the process.
fn become_nobody() {
    const NOBODY: libc::c_long = 65534;
    for call in [libc::SYS_setresgid, libc::SYS_setresuid] {
        // SAFETY: plain integers; the thread only reads files and makes system calls after it.
        let result = unsafe { libc::syscall(call, NOBODY, NOBODY, NOBODY) };
        assert_eq!(result, 0);
    }
}
