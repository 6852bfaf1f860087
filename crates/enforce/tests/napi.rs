//! Threaded NAPI: the container's receive work runs in its own cgroup, and is reverted.

mod common;

use cofferdam_affinity::run_on;
use cofferdam_enforce::{EnforceOptions, Enforcer, RevertReport};
use cofferdam_lab::fixtures::{FakeContainer, Net, Router, wait_until};
use cofferdam_types::{Container, CpuId, Means};
use common::*;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Threads in our leaf below a container's cgroup.
fn leaf_threads(directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(directory.join("cofferdam.napi/cgroup.procs"));
    let names = text.unwrap_or_default();
    let comm = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    names
        .lines()
        .map(|pid| comm(pid).trim().to_owned())
        .collect()
}

/// Promise 31.
#[test]
fn the_napi_thread_runs_in_the_containers_cgroup() {
    alone(60, || {
        let mut scene = Scene::prepared(|offender| offender.steer("eth0", 1));
        let (o, v) = (scene.o.clone(), scene.v.clone());
        until_napi_in_force(&mut scene.enforcer, &o, &interval(&o, &v, 10));

        assert!(!means(&scene.enforcer, &v, Means::NapiThread).in_force);
        for controller in ["unified", "cpu", "cpuacct"] {
            let threads = leaf_threads(scene.offender.cgroup().controller(controller));
            assert_eq!(threads.len(), 1, "{controller}: {threads:?}");
            assert!(threads[0].starts_with("napi/eth0-"), "{threads:?}");
        }
        let changed = scene.state();
        assert!(changed.contains("generic-receive-offload: on"));
        let rps = scene
            .offender
            .sh("cat /sys/class/net/eth0/queues/rx-0/rps_cpus");
        assert_eq!(rps.trim(), "0");

        // The kernel charges its received packets to it.
        let used = || fs::read_to_string(leaf_usage(&scene.offender)).unwrap();
        let earlier: u64 = used().trim().parse().unwrap();
        scene.router.sh(&format!(
            "busybox ping -q -c 200 -i 0.001 {} > /dev/null || busybox ping -q -c 3 {}",
            scene.port.ipv4, scene.port.ipv4
        ));
        assert!(used().trim().parse::<u64>().unwrap() > earlier);

        scene.ends_as_it_began(|_| {});
    });
}

/// Thread that keeps a CPU busy until it is dropped.
struct Burner(Arc<AtomicBool>);

impl Burner {
    fn on(cpu: CpuId) -> Burner {
        let over = Arc::new(AtomicBool::new(false));
        let theirs = over.clone();
        std::thread::spawn(move || {
            run_on(cpu).expect("a CPU of ours");
            while !theirs.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Burner(over)
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Promise 28.
#[test]
fn withheld_time_is_returned_to_the_victims() {
    alone(60, || {
        let (offender, victim) = (FakeContainer::new("offender"), FakeContainer::new("victim"));
        let folder = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        let (o, v) = (found(&offender), found(&victim));
        enforcer.set(enforce(&[&o, &v]));
        let interval = interval(&o, &v, 4);
        // Competitors wait only on a CPU without idle time.
        let _burner = Burner::on(CpuId(0));
        // A container that leaves part of its share is not lowered.
        let _busy = offender.start("taskset -c 0 sha256sum /dev/zero");
        let returned = |enforcer: &Enforcer, of: &Container| {
            let status = enforcer.status();
            let mut all = status.containers.iter();
            let one = all.find(|c| c.cgroup == of.cgroup).unwrap();
            one.network.as_ref().unwrap().returned_ns
        };
        cofferdam_lab::fixtures::wait_until("a return", Duration::from_secs(20), || {
            enforcer.step(&interval);
            std::thread::sleep(Duration::from_millis(20));
            returned(&enforcer, &v) > 0
        });
        assert!(means(&enforcer, &o, Means::WeightCorrection).in_force);
        assert_eq!(returned(&enforcer, &o), 0, "it paid for nobody");
        // Never more than the charge: 2 ms of each interval of 20 ms.
        let before = returned(&enforcer, &v);
        enforcer.step(&interval);
        assert!(returned(&enforcer, &v) - before <= 2_000_000);
        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
    });
}

/// Promise 31.
#[test]
fn moving_a_thread_does_not_hold_up_a_step() {
    alone(60, || {
        let mut scene = Scene::new();
        let (o, v) = (scene.o.clone(), scene.v.clone());
        let interval = interval(&o, &v, 10);
        scene.enforcer.step(&interval);
        let napi = means(&scene.enforcer, &o, Means::NapiThread);
        assert!(napi.why.contains("its weight alone"), "{}", napi.why);
        // Rates are smoothed, and a starting stream takes this much for a moment: the work must
        // exceed what the weight compensates for 0.2 s.
        for _ in 0..16 {
            scene.enforcer.step(&interval);
        }
        // The move is pending or done: the step did not wait for it, and reports it.
        let napi = means(&scene.enforcer, &o, Means::NapiThread);
        assert!(
            napi.in_force || napi.why.contains("is being moved"),
            "{}",
            napi.why
        );
        until_napi_in_force(&mut scene.enforcer, &o, &interval);
        // While the thread is leaving it stays untouched; then the state is as before.
        scene.enforcer.set(enforce(&[&v]));
        cofferdam_lab::fixtures::wait_until("it to leave", Duration::from_secs(20), || {
            scene.enforcer.step(&interval);
            scene.state() == scene.before
        });
        scene.enforcer.set(enforce(&[&o, &v]));
        until_napi_in_force(&mut scene.enforcer, &o, &interval);
        scene.ends_as_it_began(|_| {});
    });
}

/// The weight compensates the stream, and is known even while no competitor waits.
/// Promise 31.
#[test]
fn a_stream_on_an_idle_cpu_gets_no_napi_thread() {
    alone(60, || {
        let mut scene = Scene::new();
        let mut interval = interval(&scene.o, &scene.v, 8);
        // Full segments with answers: more than a flood may take without a thread, and little
        // enough for a weight.
        let stream = &mut interval.containers[0].ledger;
        (stream.rx_packets, stream.rx_bytes) = (500, 700_000);
        (stream.tx_packets, stream.tx_bytes) = (50, 2_600);
        interval.cpus[0].1.interruptions = 0;
        for _ in 0..60 {
            scene.enforcer.step(&interval);
            let napi = means(&scene.enforcer, &scene.o, Means::NapiThread);
            let is_threaded = scene.offender.sh("cat /sys/class/net/eth0/threaded");
            assert!(!napi.in_force && is_threaded.trim() == "0", "{}", napi.why);
            std::thread::sleep(Duration::from_millis(20));
        }
        scene.ends_as_it_began(|_| {});
    });
}

/// Starting a thread takes longer than a step: weights and limits follow in between.
/// Promise 31.
#[test]
fn one_step_starts_threads_of_one_offender() {
    alone(60, || {
        let offenders = [FakeContainer::new("first"), FakeContainer::new("second")];
        let victim = FakeContainer::new("victim");
        let router = Router::new("router");
        offenders.iter().chain([&victim]).for_each(|container| {
            router.attach(container);
        });
        let folder = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        let ([first, second], v) = (offenders.each_ref().map(found), found(&victim));
        enforcer.set(enforce(&[&first, &second, &v]));
        let mut interval = interval(&first, &v, 10);
        let mut other = interval.containers[0].clone();
        other.container = second;
        interval.containers.push(other);
        let threaded = || {
            let is_on = |c: &&FakeContainer| c.sh("cat /sys/class/net/eth0/threaded").trim() == "1";
            offenders.iter().filter(is_on).count()
        };
        let mut before = threaded();
        for _ in 0..40 {
            enforcer.step(&interval);
            let now = threaded();
            assert!(now <= before + 1, "{now} at once, {before} before");
            before = now;
        }
        assert_eq!(before, 2);
        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        assert_eq!(threaded(), 0);
    });
}

fn leaf_usage(container: &FakeContainer) -> std::path::PathBuf {
    let directory = container.cgroup().controller("cpuacct");
    directory.join("cofferdam.napi/cpuacct.usage")
}

/// Promise 27.
#[test]
fn a_container_without_victims_is_left_alone() {
    alone(60, || {
        let (busy, idle) = (FakeContainer::new("busy"), FakeContainer::new("idle"));
        let router = Router::new("router");
        let port = router.attach(&busy);
        router.attach(&idle);
        let before = state(&busy, &*router, &port.device);
        let folder = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        let (b, i) = (found(&busy), found(&idle));
        enforcer.set(enforce(&[&b, &i]));
        let mut interval = interval(&b, &i, 10);
        interval.containers[1].charged_by_cpu_ns = vec![0, 0];
        for _ in 0..5 {
            enforcer.step(&interval);
        }
        assert_eq!(enforcer.status().changes_in_force, 0);
        assert_eq!(state(&busy, &*router, &port.device), before);
        assert_eq!(enforcer.revert(), RevertReport::default());
    });
}

/// Promise 36.
#[test]
fn an_ending_container_finds_its_cgroup_free() {
    alone(60, || {
        let victim = FakeContainer::new("victim");
        let router = Router::new("router");
        let folder = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        let offender = FakeContainer::new("offender");
        router.attach(&offender);
        let (o, v) = (found(&offender), found(&victim));
        enforcer.set(enforce(&[&o, &v]));
        let interval = interval(&o, &v, 10);
        until_napi_in_force(&mut enforcer, &o, &interval);
        // The process ends; the runtime removes the cgroup next.
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(offender.pid().cast_signed()),
            nix::sys::signal::Signal::SIGKILL,
        )
        .unwrap();
        cofferdam_lab::fixtures::wait_until(
            "the cgroup to be free",
            Duration::from_secs(10),
            || {
                enforcer.step(&interval);
                let leaf = offender.cgroup().dir().join("cofferdam.napi");
                !leaf.exists()
            },
        );
        drop(offender);
        enforcer.set(enforce(&[&v]));
        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
    });
}

/// Promise 36.
#[test]
fn a_cgroup_and_a_namespace_that_vanished_are_no_failure() {
    alone(60, || {
        let victim = FakeContainer::new("victim");
        let router = Router::new("router");
        let folder = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        let offender = FakeContainer::new("offender");
        router.attach(&offender);
        let (o, v) = (found(&offender), found(&victim));
        enforcer.set(enforce(&[&o, &v]));
        until_napi_in_force(&mut enforcer, &o, &interval(&o, &v, 10));
        assert!(enforcer.status().changes_in_force > 5);
        drop(offender); // cgroup, namespace and device
        let report = enforcer.revert();
        assert!(report.is_clean(), "{report:?}");
        assert!(report.vanished > 0, "{report:?}");
    });
}

/// The processes are in cgroups below the container's, as with LXC or systemd in docker.
/// Promise 31.
#[test]
fn a_container_with_a_napi_thread_freezes_and_thaws() {
    alone(60, || {
        let mut scene = Scene::engaged();
        let own = scene.offender.cgroup().dir().to_owned();
        let below = own.join("init.scope");
        fs::create_dir(&below).unwrap();
        let processes = fs::read_to_string(own.join("cgroup.procs")).unwrap();
        let move_all = |to: &Path| {
            for pid in processes.lines() {
                fs::write(to.join("cgroup.procs"), pid).unwrap();
            }
        };
        move_all(&below);
        let (o, v) = (scene.o.clone(), scene.v.clone());
        for frozen in ["1", "0", "1", "0"] {
            fs::write(own.join("cgroup.freeze"), frozen).unwrap();
            let wanted = format!("frozen {frozen}");
            wait_until(&wanted, Duration::from_secs(10), || {
                let events = fs::read_to_string(own.join("cgroup.events"));
                events.unwrap().contains(&wanted)
            });
            // A flood is meanwhile charged to the container as before.
            scene.enforcer.step(&interval(&o, &v, 10));
            assert!(means(&scene.enforcer, &o, Means::NapiThread).in_force);
            assert_eq!(leaf_threads(&own).len(), 1);
        }
        move_all(&own);
        fs::remove_dir(below).unwrap();
        scene.ends_as_it_began(|_| {});
    });
}

/// Only threaded cgroups may be below its cgroup, and no further ones.
/// Promise 31.
#[test]
fn a_full_threaded_cgroup_gets_its_napi_thread() {
    alone(60, || {
        let mut scene = Scene::prepared(|offender| {
            let own = offender.cgroup().dir();
            fs::create_dir(own.join("vcpu0")).unwrap();
            fs::write(own.join("vcpu0/cgroup.type"), "threaded").unwrap();
            fs::write(own.join("cgroup.max.descendants"), "1").unwrap();
        });
        let own = scene.offender.cgroup().dir().to_owned();
        let limit = || fs::read_to_string(own.join("cgroup.max.descendants")).unwrap();
        let (o, v) = (scene.o.clone(), scene.v.clone());
        until_napi_in_force(&mut scene.enforcer, &o, &interval(&o, &v, 10));
        let threads = fs::read_to_string(own.join("cofferdam.napi/cgroup.threads")).unwrap();
        assert_eq!((threads.lines().count(), limit().trim()), (1, "2"));
        scene.ends_as_it_began(|_| assert_eq!(limit().trim(), "1"));
    });
}

/// Promise 66.
#[test]
fn a_second_enforcer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = EnforceOptions {
        folder: folder.path().to_owned(),
        ..EnforceOptions::default()
    };
    let _first = Enforcer::open(options.clone()).unwrap();
    let error = Enforcer::open(options).err().unwrap().to_string();
    assert!(error.contains("already running"), "{error}");
}
