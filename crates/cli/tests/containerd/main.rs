//! Tests of the agent with a real containerd, whose pods it discovers over NRI. They need root, and
//! the programs that `scripts/kubernetes/build containerd crictl` builds.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[path = "../agent/harness.rs"]
#[expect(dead_code, reason = "it is the agent's tests'; these need less of it")]
mod harness;
mod node;

use cofferdam_lab::fixtures::wait_until;
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::status::{ContainerRecord, NriRecord};
use harness::{Agent, alone_for};
use nix::sys::signal::Signal;
use node::{Node, Pod, RunningPod};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);
/// CPU shares that the kubelet writes for one CPU.
const ONE_CPU: u64 = 1024;
/// Number of pods that are created and removed.
const COMES_AND_GOES: u32 = 12;
const STRICT: &[(&str, &str)] = &[
    ("cofferdam.dev/cpu", "strict"),
    ("cofferdam.dev/lend", "false"),
];

fn strict(name: &str) -> Pod<'_> {
    Pod {
        namespace: "shop",
        name,
        annotations: STRICT,
        cpu_shares: ONE_CPU,
        ..Pod::default()
    }
}

fn standard(name: &str) -> Pod<'_> {
    Pod {
        namespace: "shop",
        name,
        cpu_shares: 102,
        ..Pod::default()
    }
}

fn agent(node: &Node) -> Agent {
    let agent = Agent::start(&config(node));
    connected(&agent, 1);
    agent
}

fn config(node: &Node) -> String {
    format!("[nri]\nsocket = \"{}\"\nmay_ask = [\"shop\"]\n", node.nri())
}

fn nri(agent: &Agent) -> NriRecord {
    agent.status().nri.unwrap()
}

fn connected(agent: &Agent, sessions: u64) {
    wait_until("a session with containerd", LIMIT, || {
        let nri = nri(agent);
        nri.connected && nri.sessions >= sessions
    });
}

/// Waits until these numbers of pods, containers and changes are left.
#[track_caller]
fn left(agent: &Agent, wanted: (u64, u64, u64)) {
    let until = Instant::now() + LIMIT;
    loop {
        let status = agent.status();
        let nri = status.nri.as_ref().unwrap();
        let now = (nri.pods, nri.containers, status.changes_in_force);
        if now == wanted {
            return;
        }
        let late = Instant::now() > until;
        assert!(!late, "{now:?} and not {wanted:?}: {status:#?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn record(agent: &Agent, started: &RunningPod) -> Option<ContainerRecord> {
    let all = agent.status().containers;
    let path = started.cgroup.as_str();
    all.into_iter()
        .find(|c| c.cgroup_path.as_deref() == Some(path))
}

/// Names of the degradations of the container.
fn problems(agent: &Agent, started: &RunningPod) -> Vec<String> {
    let record = record(agent, started);
    let degraded = record.map(|c| c.degraded).unwrap_or_default();
    degraded.into_iter().map(|d| d.name).collect()
}

fn own_cpus(agent: &Agent, started: &RunningPod) -> Vec<u32> {
    let reservation = record(agent, started).and_then(|c| c.reservation);
    reservation.map(|r| r.own_cpus).unwrap_or_default()
}

/// CPUs of this host, and the one that is reserved first.
fn cpus() -> (String, String) {
    let all = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let all = all.trim().to_owned();
    let last = all.rsplit(['-', ',']).next().unwrap().to_owned();
    (all, last)
}

/// Promise 37.
/// No neighbour runs on them.
#[test]
fn a_strict_container_has_its_cpus_from_its_first_instruction() {
    alone_for(Duration::from_secs(240), || {
        let (all, last) = cpus();
        let mut node = Node::start();
        let agent = agent(&node);
        let before = node.run(&standard("before"));
        assert_eq!(before.first_cpus(), all);
        let strict = node.run(&strict("web"));
        assert_eq!(strict.first_cpus(), last);
        // The neighbour had left the CPU when the container started.
        let others = before.cpuset();
        assert!(!others.split(['-', ',']).any(|cpu| cpu == last), "{others}");
        // A later container never runs there.
        let after = node.run(&standard("after"));
        assert_eq!(after.first_cpus(), others);
        wait_until("it is in force", LIMIT, || {
            own_cpus(&agent, &strict) == [last.parse::<u32>().unwrap()]
        });
        assert_eq!(problems(&agent, &strict), [""; 0]);
        // The ledger has the runtime's name, which is not in the files.
        let output = agent.ask(&["top", "--once", "--json"]);
        let ledger: AccountingRecord = serde_json::from_slice(&output.stdout).unwrap();
        let found = ledger
            .containers
            .iter()
            .find(|c| c.cgroup_path == strict.cgroup);
        let found = found.unwrap();
        assert_eq!(
            (found.name.as_str(), found.pod.as_deref()),
            ("app", Some("shop/web"))
        );
        // The end of the agent gives the containers all CPUs, as they would have had.
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
        for one in [&before, &strict, &after] {
            assert_eq!(one.cpuset(), all);
        }
    });
}

/// Promise 39.
#[test]
fn an_impossible_reservation_is_refused_and_every_pod_runs() {
    alone_for(Duration::from_secs(240), || {
        let (all, last) = cpus();
        let mut node = Node::start();
        let agent = agent(&node);
        let foreign = node.run(&Pod {
            namespace: "other",
            ..strict("foreign")
        });
        let garbage = node.run(&Pod {
            annotations: &[
                ("cofferdam.dev/cpu", "yes please"),
                ("cofferdam.dev/cpus", "1"),
            ],
            ..strict("garbage")
        });
        let without = node.run(&Pod {
            cpu_shares: 2,
            ..strict("without")
        });
        let pinned = node.run(&Pod {
            cpuset: "0",
            ..strict("pinned")
        });
        let huge = node.run(&Pod {
            cpu_shares: 64 * ONE_CPU,
            ..strict("huge")
        });
        for (started, cpus, names) in [
            (&foreign, all.as_str(), &["namespace_may_not_ask"][..]),
            (
                &garbage,
                &all,
                &["annotation_invalid", "annotation_unknown"],
            ),
            (&without, &all, &["cpu_request_missing"]),
            (&pinned, "0", &["cpu_manager_conflict"]),
            (&huge, &all, &["reservation_impossible"]),
        ] {
            assert_eq!(started.first_cpus(), cpus, "{names:?}");
            wait_until(names[0], LIMIT, || problems(&agent, started) == names);
        }
        // The kubelet's CPU manager assigns CPUs to a container that has reserved ones already.
        let taken = node.run(&strict("taken"));
        assert_eq!(taken.first_cpus(), last);
        node.cri(&["update", "--cpuset-cpus", "0", &taken.container]);
        wait_until("the report of the conflict", LIMIT, || {
            problems(&agent, &taken) == ["cpu_manager_conflict"]
        });
        assert_eq!(taken.cpuset(), "0");
        assert!(own_cpus(&agent, &taken).is_empty());
    });
}

/// For the runtime all of these are containers.
/// Promise 39.
#[test]
fn init_and_ephemeral_containers_and_sidecars_have_their_cpus() {
    alone_for(Duration::from_secs(240), || {
        let (all, last) = cpus();
        let mut node = Node::start();
        let agent = agent(&node);
        let web = strict("web");
        let init = node.run(&web);
        assert_eq!(init.first_cpus(), last);
        // The init container has ended: its CPU is free for the next container.
        node.cri(&["stop", "-t", "0", &init.container]);
        node.cri(&["rm", &init.container]);
        let main = node.run_in_pod(&init, "main", &web);
        assert_eq!(main.first_cpus(), last);
        // Neither of these requests a CPU, and the pod's annotation applies to them too.
        let little = Pod {
            cpu_shares: 2,
            ..web
        };
        for name in ["sidecar", "debugger"] {
            let other = node.run_in_pod(&init, name, &little);
            let cpus = other.first_cpus();
            assert_ne!(cpus, all);
            assert!(!cpus.split(['-', ',']).any(|cpu| cpu == last), "{cpus}");
            wait_until("the report", LIMIT, || {
                problems(&agent, &other) == ["cpu_request_missing"]
            });
        }
        assert_eq!(main.cpuset(), last);
        assert_eq!(own_cpus(&agent, &main), [last.parse::<u32>().unwrap()]);
        assert_eq!(problems(&agent, &main), [""; 0]);
    });
}

/// Promise 63.
#[test]
fn a_stopped_agent_blocks_no_pod_and_catches_up() {
    alone_for(Duration::from_secs(240), || {
        let (all, last) = cpus();
        let mut node = Node::start();
        let agent = agent(&node);
        agent.signal(Signal::SIGSTOP);
        let strict = node.run(&strict("web"));
        assert_eq!(strict.first_cpus(), all, "it could not be asked");
        agent.signal(Signal::SIGCONT);
        // The runtime has disconnected the agent; it connects again and is sent the pod.
        connected(&agent, 2);
        wait_until("its CPUs after all", LIMIT, || strict.cpuset() == last);
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
        assert_eq!(strict.cpuset(), all);
    });
}

/// Promise 63.
#[test]
fn reservations_survive_a_restart_of_containerd() {
    alone_for(Duration::from_secs(240), || {
        let (_, last) = cpus();
        let mut node = Node::start();
        let agent = agent(&node);
        let strict = node.run(&strict("web"));
        assert_eq!(strict.first_cpus(), last);
        node.end_containerd();
        wait_until("the report of its absence", LIMIT, || {
            let degraded = agent.status().degraded;
            degraded.iter().any(|d| d.name == "nri_unavailable")
        });
        assert_eq!(strict.cpuset(), last);
        node.start_containerd();
        connected(&agent, 2);
        wait_until("the rows are rebuilt", LIMIT, || {
            let nri = nri(&agent);
            (nri.pods, nri.containers) == (1, 1)
        });
        assert_eq!(strict.cpuset(), last);
        assert!(agent.status().degraded.is_empty());
        node.remove(&strict);
        left(&agent, (0, 0, 0));
    });
}

/// Promise 63.
#[test]
fn reservations_survive_an_agent_that_is_killed() {
    alone_for(Duration::from_secs(240), || {
        let (all, last) = cpus();
        let mut node = Node::start();
        let agent = agent(&node);
        let neighbour = node.run(&standard("neighbour"));
        let strict = node.run(&strict("web"));
        assert_eq!(strict.first_cpus(), last);
        assert_eq!(agent.end(Signal::SIGKILL), None);
        // Without an agent the container keeps its cpuset.
        assert_eq!(strict.cpuset(), last);
        let again = self::agent(&node);
        wait_until("the reservation is complete again", LIMIT, || {
            own_cpus(&again, &strict).len() == 1 && strict.cpuset() == last
        });
        assert_ne!(neighbour.cpuset(), all);
        assert_eq!(again.end(Signal::SIGTERM), Some(0));
        assert_eq!((strict.cpuset(), neighbour.cpuset()), (all.clone(), all));
    });
}

/// Promise 37.
#[test]
fn a_changed_request_changes_the_reservation() {
    alone_for(Duration::from_secs(240), || {
        let (_, last) = cpus();
        let mut node = Node::start();
        let agent = agent(&node);
        let strict = node.run(&strict("web"));
        assert_eq!(strict.first_cpus(), last);
        node.cri(&["update", "--cpu-share", "512", &strict.container]);
        wait_until("a slice instead of a CPU", LIMIT, || {
            let reservation = record(&agent, &strict).and_then(|c| c.reservation);
            reservation.is_some_and(|r| r.slice_cpus == Some(0.5) && r.own_cpus.is_empty())
        });
        assert_eq!(problems(&agent, &strict), [""; 0]);
    });
}

/// Creates and removes pods, one of them between two calls of its kubelet.
/// Promise 63.
#[test]
fn short_lived_pods_leave_no_row_and_no_reservation() {
    alone_for(Duration::from_secs(240), || {
        let (all, last) = cpus();
        let mut node = Node::start();
        let agent = agent(&node);
        let keeper = node.run(&standard("keeper"));
        for round in 0..COMES_AND_GOES {
            let name = format!("pod-{round}");
            let short = match round % 2 {
                0 => node.run(&strict(&name)),
                _ => node.make(&strict(&name)),
            };
            node.remove(&short);
        }
        left(&agent, (1, 1, 0));
        assert_eq!(keeper.cpuset(), all);
        let strict = node.run(&strict("web"));
        assert_eq!(strict.first_cpus(), last);
    });
}
