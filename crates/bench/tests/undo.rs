//! An experiment's changes are reverted: at its end, after a panic, after a signal, and by the next
//! run after a kill.

// Clippy's exception for tests does not cover their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_bench::data::Path;
use cofferdam_bench::run::RunData;
use cofferdam_bench::spawn::{Place, Worker};
use cofferdam_bench::topology::Topology;
use cofferdam_lab::Netns;
use cofferdam_lab::fixtures::{exclusive, time_limit, wait_until};
use common::{LIMIT, remains, spec, start_worker, worker_executable};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Promise 67.
#[test]
fn every_path_is_undone() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for &path in Path::ALL {
            let net = Topology::build(&spec(path)).unwrap();
            let parts = net.parts();
            assert_eq!(
                remains(&parts).len(),
                parts.0.len() + parts.1.len(),
                "{path}"
            );
            drop(net);
            assert_eq!(remains(&parts), [] as [String; 0], "{path}");
        }
    });
}

/// Promise 67.
#[test]
fn a_panic_undoes_it_with_processes_inside() {
    worker_executable();
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let mut parts = Default::default();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let net = Topology::build(&spec(Path::BridgeNat)).unwrap();
            parts = net.parts();
            let _burner = start_worker(&net.container(0), "burn");
            panic!("midway");
        }));
        assert!(panicked.is_err() && !parts.0.is_empty());
        assert_eq!(remains(&parts), [] as [String; 0]);
    });
}

/// Driver that measures a cell, in a child process.
struct Driver {
    child: Child,
    dir: tempfile::TempDir,
}

impl Driver {
    fn start() -> Driver {
        let driver = Driver::start_with(&["1000", "0.05", "cpu/flood/receiver/veth/3x200B"]);
        wait_until("a first pair", Duration::from_secs(60), || {
            driver.samples() >= 2
        });
        driver
    }

    /// Starts a driver; for `args` see `bin/cofferdam-bench-driver.rs`.
    fn start_with(args: &[&str]) -> Driver {
        let dir = tempfile::tempdir().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_cofferdam-bench-driver"))
            .arg(dir.path().join("run"))
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Driver { child, dir }
    }

    fn data(&self) -> RunData {
        RunData::load(&self.dir.path().join("run")).unwrap()
    }

    fn samples(&self) -> usize {
        RunData::load(&self.dir.path().join("run")).map_or(0, |d| d.samples.count())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Everything on the host that has the driver's pid in its name.
    fn traces(&self) -> Vec<String> {
        let pid = self.child.id();
        let groups = Topology::roots().unwrap().into_iter();
        let dirs = groups.chain(["/run/netns".into(), "/run".into()]);
        dirs.flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten())
            .map(|entry| entry.path().display().to_string())
            .filter(|path| path.contains(&format!("bench-{pid}-")))
            .collect()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Promise 67.
#[test]
fn a_signal_undoes_everything_and_keeps_the_samples() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let mut driver = Driver::start();
            assert!(!driver.traces().is_empty());
            driver.signal(signal);
            let status = driver.child.wait().unwrap();
            assert_eq!(status.code(), Some(130));
            assert_eq!(driver.traces(), [] as [String; 0]);
            let data = driver.data();
            assert!(data.manifest.interrupted && data.samples.count() >= 2);
            assert!(data.result.is_some());
        }
    });
}

/// The workers end with the killed driver.
/// Promise 67.
#[test]
fn the_next_run_removes_what_a_killed_driver_left() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let mut driver = Driver::start();
        driver.signal(Signal::SIGKILL);
        driver.child.wait().unwrap();
        assert!(!driver.traces().is_empty());
        let groups: Vec<_> = driver
            .traces()
            .into_iter()
            .filter(|p| p.starts_with("/sys"))
            .collect();
        wait_until("the workers' end", Duration::from_secs(20), || {
            groups.iter().all(|group| {
                ["competitor", "victim"].iter().all(|name| {
                    let procs = std::fs::read_to_string(format!("{group}/{name}/cgroup.procs"));
                    procs.is_ok_and(|p| p.is_empty())
                })
            })
        });
        drop(Topology::build(&spec(Path::Veth)).unwrap());
        assert_eq!(driver.traces(), [] as [String; 0]);
    });
}

/// Promise 67.
#[test]
fn the_next_run_removes_a_killed_runs_dataplane_socket() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let mut driver = Driver::start_with(&["1000", "0", "dataplane"]);
        let folder = format!("/run/cofferdam-bench-{}-dp0", driver.child.id());
        wait_until("a dataplane's socket", Duration::from_secs(60), || {
            std::path::Path::new(&folder)
                .join("dataplane.sock")
                .exists()
        });
        driver.signal(Signal::SIGKILL);
        driver.child.wait().unwrap();
        assert!(driver.traces().contains(&folder));
        // A worker that is just ending may write there again.
        wait_until("the sweep", Duration::from_secs(20), || {
            drop(Topology::build(&spec(Path::Veth)).unwrap());
            driver.traces().is_empty()
        });
    });
}

#[test]
fn a_worker_has_a_time_limit_of_its_own() {
    worker_executable();
    time_limit(LIMIT, || {
        let mut worker = Worker::start(&Place::default(), "burn --limit 0.2").unwrap();
        worker.go().unwrap();
        wait_until("its last line", Duration::from_secs(20), || {
            worker.has_line(Duration::from_millis(10)).unwrap()
        });
    });
}

#[test]
fn a_worker_that_cannot_work_says_why() {
    worker_executable();
    let failed = |args: &str| match Worker::start(&Place::default(), args) {
        Ok(_) => panic!("'{args}' should have failed"),
        Err(e) => e.to_string(),
    };
    assert!(failed("juggle").contains("unknown kind 'juggle'"));
    assert!(failed("burn --colour red").contains("--colour is not known"));
    let lost = Place {
        netns: Netns::named("cfbench-none"),
        ..Place::default()
    };
    let e = Worker::start(&lost, "burn").err().unwrap().to_string();
    assert!(e.contains("/run/netns/cfbench-none"), "{e}");
}
