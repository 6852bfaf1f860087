//! Test of a reservation by the agent for a container that podman runs.

use crate::harness::*;
use cofferdam_lab::fixtures::{FakeContainer, Network, PodmanContainer, run, wait_until};
use cofferdam_records::status::ContainerRecord;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

fn file(controller: &str, path: &std::path::Path, name: &str) -> PathBuf {
    let below = path.strip_prefix("/").unwrap();
    let v1 = PathBuf::from("/sys/fs/cgroup").join(controller).join(below);
    if v1.is_dir() {
        return v1.join(name);
    }
    PathBuf::from("/sys/fs/cgroup").join(below).join(name)
}

/// Parses a list of CPUs such as `0-2,5`.
fn cpus(text: &str) -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<u32>().unwrap()..=last.parse::<u32>().unwrap());
    }
    all
}

/// Promise 37.
#[test]
fn a_strict_podman_container_keeps_its_cpus() {
    alone(|| {
        let strict = PodmanContainer::new("strict", Network::None);
        let other = FakeContainer::new("other");
        let path = strict.cgroup_path();
        let cpuset = file("cpuset", &path, "cpuset.cpus");
        let weight = [
            file("cpu", &path, "cpu.shares"),
            file("cpu", &path, "cpu.weight"),
        ];
        let weight = weight.into_iter().find(|file| file.exists()).unwrap();
        let read = |file: &PathBuf| std::fs::read_to_string(file).unwrap();
        let (weight_before, others) = (read(&weight), other.cgroup().controller("cpuset"));
        let others = others.join("cpuset.cpus");
        let others_before = read(&others);
        let name = strict.name().to_owned();
        let agent = Agent::start(&format!(
            "[[rule]]\nmatch = \"{name}\"\nnetwork_cpu = \"enforce\"\ncpu = \"strict\"\n\
             cpus = 1.0\n"
        ));
        let report = || -> Option<ContainerRecord> {
            let status = agent.status();
            status.containers.into_iter().find(|c| c.name == name)
        };
        let own = || -> BTreeSet<u32> {
            let reservation = report().and_then(|c| c.reservation);
            reservation.map_or_else(BTreeSet::new, |r| r.own_cpus.into_iter().collect())
        };
        let limit = Duration::from_secs(30);
        wait_until("a CPU of its own", limit, || own().len() == 1);
        let reserved = own();
        wait_until("its cpuset", limit, || cpus(&read(&cpuset)) == reserved);
        // The CPUs as the container sees them.
        let seen = strict.exec("grep Cpus_allowed_list /proc/self/status");
        let seen = seen.split_whitespace().last().unwrap().to_owned();
        assert_eq!(cpus(&seen), reserved);
        assert!(report().unwrap().degraded.is_empty(), "{:?}", report());
        // While the container is idle its CPU may be lent; a CPU that is not lent is closed to
        // others.
        let lent = report().unwrap().reservation.unwrap().lent_cpus;
        if lent.is_empty() {
            wait_until("the others to leave", limit, || {
                cpus(&read(&others)).is_disjoint(&reserved)
            });
        }
        // The weight has one owner.
        let network = report().unwrap().network.unwrap();
        let correction = network
            .means
            .iter()
            .find(|m| m.means == "weight_correction");
        assert!(!correction.unwrap().in_force);

        // The runtime writes the cpuset that it knows: the agent corrects and reports it.
        let all = read(&PathBuf::from("/sys/devices/system/cpu/online"));
        let all = all.trim();
        run(&[
            "podman",
            "--runtime",
            "runc",
            "update",
            "--cpuset-cpus",
            all,
            &name,
        ]);
        wait_until("the rewrite to be noticed", limit, || {
            let reservation = report().and_then(|c| c.reservation);
            reservation.is_some_and(|r| r.rewrites > 0)
        });
        wait_until("its cpuset again", limit, || {
            cpus(&read(&cpuset)) == reserved
        });
        // At the end the container has the last cpuset of its runtime.
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
        assert_eq!(cpus(&read(&cpuset)), cpus(all));
        assert_eq!(read(&weight), weight_before);
        assert_eq!(read(&others), others_before);
    });
}
