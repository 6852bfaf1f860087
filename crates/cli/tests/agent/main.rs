//! Tests of the agent on a real host: start and end, clients, and its traces. They need root.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod harness;
mod history;
mod killed;
mod sampled;
mod service;
mod strict;
mod web;

use cofferdam_lab::fixtures::traffic::compute;
use cofferdam_lab::fixtures::{Cgroup, FakeContainer, leftovers, wait_until};
use cofferdam_records::accounting::{ACCOUNTING, AccountingRecord};
use cofferdam_records::status::STATUS;
use harness::*;
use nix::sys::signal::Signal;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Promise 63.
#[test]
fn sigterm_reverts_the_enforcement_of_a_container() {
    alone(|| {
        let mut testbed = Testbed::new();
        let before = testbed.state();
        let programs = leftovers::bpf_programs();
        let glob = format!("{}*", testbed.flooded.name());
        let agent = Agent::start(&enforce(&glob));
        testbed.load();
        let limit = Duration::from_secs(30);
        wait_until("a means is in force", limit, || {
            let status = agent.status();
            assert_eq!(status.schema, STATUS);
            status.containers.first().is_some_and(|c| {
                let network = c.network.as_ref();
                network.is_some_and(|n| n.means.iter().any(|m| m.in_force))
            })
        });
        let status = agent.status();
        assert_eq!(status.containers.len(), 1, "the victim is under no rule");
        assert_eq!(status.containers[0].name, testbed.flooded.name());
        assert_eq!(status.rules[0].containers, 1);
        assert!(
            status.changes_in_force > 0 && status.degraded.is_empty(),
            "{status:?}"
        );
        let text = String::from_utf8(agent.ask(&["status"]).stdout).unwrap();
        assert!(text.contains(testbed.flooded.name()), "{text}");

        testbed.traffic.clear();
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
        assert_eq!(testbed.state(), before);
        assert_eq!(leftovers::bpf_programs(), programs);
        assert!(!Path::new("/run/cofferdam/journal").exists());
    });
}

/// Promise 7.
#[test]
fn a_plain_cgroup_that_a_rule_names_is_enforced() {
    alone(|| {
        let cgroup = Cgroup::new("plain");
        let _process = compute(&cgroup, None, Duration::from_secs(60));
        let path = cgroup.path().display().to_string();
        let agent = Agent::start(&enforce(&format!("cgroup:{path}")));
        wait_until("its discovery", Duration::from_secs(20), || {
            agent.status().rules[0].containers == 1
        });
        let status = agent.status();
        assert_eq!(status.containers[0].cgroup_path, Some(path));
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
    });
}

/// Promise 63.
#[test]
fn restore_reverts_everything_after_kill_9() {
    alone(|| {
        let mut testbed = Testbed::new();
        testbed.cap();
        let before = testbed.state();
        let config = enforce(testbed.flooded.name());
        let agent = Agent::start(&config);
        testbed.load();
        // `status` also counts programs on links, which end with the agent's descriptors, and a
        // weight may be reverted a step later. Therefore the host itself is checked while the agent
        // is stopped.
        let cgroups = testbed.cgroups();
        wait_until("a cgroup is changed", Duration::from_secs(30), || {
            if testbed.cgroups() == cgroups {
                return false;
            }
            agent.hold();
            let changed = testbed.cgroups() != cgroups;
            if !changed {
                agent.signal(Signal::SIGCONT);
            }
            changed
        });
        let socket = agent.socket();
        let mut agent = agent;
        agent.signal(Signal::SIGKILL);
        agent.child.wait().unwrap();
        assert!(socket.exists(), "its socket stays");
        assert_ne!(testbed.state(), before, "its changes stay");
        let printed = line(&agent.ask(&["status"]));
        assert!(printed.contains("no agent is running"), "{printed}");
        testbed.traffic.clear();
        let output = cofferdam(&["agent", "--restore"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(testbed.state(), before);
        // A second time there is nothing to revert, and that is not a failure.
        let output = cofferdam(&["agent", "--restore"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        // The stale socket does not prevent the next agent.
        let path = agent.folder.path().join("agent.toml");
        let next = Command::new(BINARY)
            .args(["agent", "--config", path.to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        agent.child = next;
        wait_until("the next agent answers", Duration::from_secs(30), || {
            agent.ask(&["status"]).status.code() == Some(0)
        });
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
    });
}

/// Promise 12.
/// Promise 66.
#[test]
fn commands_use_the_running_agent_and_a_second_is_refused() {
    alone(|| {
        let container = FakeContainer::new("web");
        let agent = Agent::start("");
        let second = cofferdam(&[
            "agent",
            "--config",
            agent.folder.path().join("agent.toml").to_str().unwrap(),
        ]);
        assert_eq!(second.status.code(), Some(1));
        assert!(
            line(&second).contains("another agent listens"),
            "{second:?}"
        );
        // Another socket does not help: a host has one accounting.
        let other = tempfile::tempdir().unwrap();
        write(other.path(), "");
        let path = other.path().join("agent.toml");
        let third = cofferdam(&["agent", "--config", path.to_str().unwrap()]);
        assert_eq!(third.status.code(), Some(1));
        assert!(line(&third).contains("another cofferdam"), "{third:?}");

        let output = agent.ask(&[
            "top",
            "--json",
            "--interval",
            "200ms",
            "--container",
            "cf-*",
        ]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let record: AccountingRecord = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record.schema, ACCOUNTING);
        assert!(
            (0.2..2.0).contains(&record.interval_s),
            "{}",
            record.interval_s
        );
        let ids: Vec<u64> = record.containers.iter().map(|c| c.cgroup_id).collect();
        assert!(ids.contains(&container.id()), "{ids:?}");
        let recorded = agent.ask(&[
            "accounting",
            "record",
            "--duration",
            "300ms",
            "--interval",
            "100ms",
            "--format",
            "jsonl",
        ]);
        let text = String::from_utf8(recorded.stdout).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        for line in text.lines() {
            let record: AccountingRecord = serde_json::from_str(line).unwrap();
            assert!(record.containers.iter().any(|c| c.name == container.name()));
        }
        let table = agent.ask(&["top", "--once", "--interval", "100ms"]);
        let table = String::from_utf8(table.stdout).unwrap();
        assert!(table.contains(container.name()) && table.contains("conservation error"));
        assert_eq!(agent.end(Signal::SIGINT), Some(130));
    });
}

/// Promise 71.
#[test]
fn the_group_may_read_and_only_root_may_change() {
    alone(|| {
        let group = 54_321;
        let agent = Agent::start(&format!("socket.group = \"{group}\"\n"));
        for path in [agent.folder.path(), Path::new(BINARY)] {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode | 0o055)).unwrap();
        }
        // The user `nobody` must be able to execute it, whatever the permissions of the build's
        // folder.
        let binary = agent.folder.path().join("cofferdam");
        let copied = Command::new("cp")
            .arg(BINARY)
            .arg(&binary)
            .status()
            .unwrap();
        assert!(copied.success());
        let socket = agent.socket();
        let user = |gid: u32, args: &[&str]| {
            Command::new("setpriv")
                .args(["--reuid=65534", &format!("--regid={gid}"), "--clear-groups"])
                .arg(&binary)
                .args(args)
                .args(["--socket", socket.to_str().unwrap()])
                .current_dir("/")
                .output()
                .unwrap()
        };
        let read = user(group, &["status"]);
        assert_eq!(read.status.code(), Some(0), "{read:?}");
        let top = user(group, &["top", "--once", "--interval", "50ms"]);
        assert_eq!(top.status.code(), Some(0), "{top:?}");
        for change in ["--reload", "--stop"] {
            let refused = user(group, &["agent", change]);
            assert_eq!(refused.status.code(), Some(1));
            assert!(line(&refused).contains("only root"), "{refused:?}");
        }
        let stranger = user(65_534, &["status"]);
        assert_eq!(stranger.status.code(), Some(1));
        assert!(
            line(&stranger).contains("refuses this user"),
            "{stranger:?}"
        );
        // Root still may change it, and the agent still runs.
        assert_eq!(agent.ask(&["agent", "--reload"]).status.code(), Some(0));
        assert_eq!(agent.ask(&["agent", "--stop"]).status.code(), Some(0));
        let mut agent = agent;
        assert_eq!(agent.child.wait().unwrap().code(), Some(0));
    });
}

/// Promise 63.
#[test]
fn the_capabilities_of_the_service_are_enough() {
    alone(|| {
        let granted: Vec<String> = SERVICE
            .lines()
            .find_map(|l| l.strip_prefix("CapabilityBoundingSet="))
            .unwrap()
            .split_whitespace()
            .map(|c| c.strip_prefix("CAP_").unwrap().to_lowercase())
            .collect();
        let list = format!("-all,+{}", granted.join(",+"));
        let bounding = format!("--bounding-set={list}");
        let inherited = format!("--inh-caps={list}");
        let before = ["setpriv", &bounding, &inherited, "--no-new-privs"];
        let mut testbed = Testbed::new();
        let state = testbed.state();
        let agent = Agent::with(&enforce(testbed.flooded.name()), &before);
        let own = std::fs::read_to_string(format!("/proc/{}/status", agent.child.id())).unwrap();
        let effective = own.lines().find_map(|l| l.strip_prefix("CapEff:")).unwrap();
        let count = u64::from_str_radix(effective.trim(), 16)
            .unwrap()
            .count_ones();
        assert_eq!(count as usize, granted.len(), "{effective}");
        testbed.load();
        wait_until("a means is in force", Duration::from_secs(30), || {
            agent.status().changes_in_force > 0
        });
        let status = agent.status();
        assert_eq!(
            (status.failed_changes, status.degraded.len()),
            (0, 0),
            "{status:?}"
        );
        testbed.traffic.clear();
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
        assert_eq!(testbed.state(), state);
    });
}

/// Promise 75.
#[test]
fn a_reload_finds_the_socket_of_the_configuration() {
    alone(|| {
        let agent = Agent::start("");
        let config = agent.folder.path().join("agent.toml");
        // Without --socket, as in ExecReload.
        let without_socket =
            |command: &str| cofferdam(&["agent", "--config", config.to_str().unwrap(), command]);
        let output = without_socket("--reload");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(agent.status().configuration.loads, 2);
        write(agent.folder.path(), "[nonsense\n");
        let refused = without_socket("--reload");
        assert!(line(&refused).contains("agent.toml:"), "{refused:?}");
        assert_eq!(agent.status().configuration.refusals, 1);
        assert_eq!(without_socket("--stop").status.code(), Some(0));
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
    });
}

/// Promise 75.
#[test]
fn a_reload_is_complete_when_its_client_is_answered() {
    alone(|| {
        let container = FakeContainer::new("web");
        let agent = Agent::start("");
        write(agent.folder.path(), &enforce(container.name()));
        let output = agent.ask(&["agent", "--reload"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(agent.status().rules[0].containers, 1);
        write(agent.folder.path(), "[[rule]]\nmatch = \"web\"\ncpus = 1\n");
        let refused = agent.ask(&["agent", "--reload"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(line(&refused).contains("agent.toml:5:8"), "{refused:?}");
        agent.signal(Signal::SIGHUP);
        wait_until("SIGHUP is refused too", Duration::from_secs(10), || {
            agent.status().configuration.refusals == 2
        });
        assert_eq!(agent.status().rules[0].matches, container.name());
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
    });
}
