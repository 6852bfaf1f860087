//! Tests of the control loop on a synthetic ledger.

use crate::EndCause;
use crate::testing::{TestAgent, World, container, until};
use crate::wire::Request;
use cofferdam_records::diagnosis::NeighbourRecord;
use cofferdam_types::{Container, Runtime};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const ENFORCE_WEB: &str = "[[rule]]\nmatch = \"web-*\"\nnetwork_cpu = \"enforce\"\n";

fn request(line: &str) -> Request {
    Request::parse(line.as_bytes()).unwrap()
}

/// Promise 27.
#[test]
fn enforcement_opens_only_for_a_rule_that_needs_it() {
    let world = World::default();
    world.add(1, "web-1");
    let mut agent = TestAgent::start_with("[[rule]]\nmatch = \"*\"\n", world);
    let status = agent.client().status().unwrap();
    assert_eq!(
        (status.containers_known, status.rules[0].containers),
        (1, 1)
    );
    assert_eq!(status.changes_in_force, 0);
    assert_eq!(agent.stop(), Some(EndCause::Stopped));
    assert_eq!(
        (
            agent.world.opened.load(Relaxed),
            agent.world.reverted.load(Relaxed)
        ),
        (0, 0)
    );
}

/// Promise 27.
#[test]
fn containers_get_classes_and_the_end_reverts_them() {
    let mut agent = TestAgent::start(ENFORCE_WEB);
    agent.world.add(1, "db-1");
    agent.world.add(2, "web-1");
    until("web-1 is wanted", || agent.world.wanted() == ["web-1"]);
    agent.world.add(3, "web-2");
    until("web-2 is wanted too", || {
        agent.world.wanted() == ["web-1", "web-2"]
    });
    let sets = agent.world.sets.lock().unwrap().len();
    let steps = agent.world.steps.load(Relaxed);
    until("steps continue", || {
        agent.world.steps.load(Relaxed) > steps + 2
    });
    assert_eq!(
        agent.world.sets.lock().unwrap().len(),
        sets,
        "nothing new, no set"
    );
    agent.world.remove(2);
    until("web-1 is gone", || agent.world.wanted() == ["web-2"]);
    assert_eq!(agent.stop(), Some(EndCause::Stopped));
    assert_eq!(
        (
            agent.world.opened.load(Relaxed),
            agent.world.reverted.load(Relaxed)
        ),
        (1, 1)
    );
    assert!(!agent.socket().exists());
}

/// Promise 30.
#[test]
fn cpu_use_is_current_while_the_enforcement_needs_it() {
    let mut agent = TestAgent::start(ENFORCE_WEB);
    agent.world.add(1, "web-1");
    let steps = || agent.world.steps.load(Relaxed);
    let go_on = || {
        let before = steps();
        until("steps continue", || steps() > before + 5);
    };
    go_on();
    let readings = || agent.world.usage_readings.load(Relaxed);
    assert_eq!(readings(), 0, "it may be a second old");
    agent.world.needs_usage.store(true, Relaxed);
    go_on();
    assert!(readings() >= 5, "{}", readings());
    assert_eq!(agent.stop(), Some(EndCause::Stopped));
}

/// Promise 5.
#[test]
fn estimates_accuse_no_container() {
    let world = World::default();
    world.add(1, "web-1");
    world.pays.store(true, Relaxed);
    world.estimates.store(true, Relaxed);
    let config = format!("{ENFORCE_WEB}[diagnosis]\nenabled = false\n");
    let mut agent = TestAgent::start_with(&config, world);
    let steps = || agent.world.steps.load(Relaxed);
    // Payments are averaged over two seconds.
    let first = agent.world.steps.load(Relaxed);
    until("it has long paid", || steps() > first + 30);
    let status = agent.client().status().unwrap();
    assert!(status.conditions.is_empty(), "{:?}", status.conditions);
    assert_eq!(status.accounting.unwrap().mode, "sampled");
    for (containers, length) in agent.world.judged.lock().unwrap().drain(..) {
        assert_eq!((containers, length), (0, Duration::ZERO));
    }
    agent.world.estimates.store(false, Relaxed);
    until("all is measured", || {
        let judged = agent.world.judged.lock().unwrap();
        judged
            .iter()
            .any(|(containers, length)| *containers == 1 && !length.is_zero())
    });
    until("it pays", || {
        !agent.client().status().unwrap().conditions.is_empty()
    });
    assert_eq!(agent.stop(), Some(EndCause::Stopped));
}

/// No rule matches a cgroup of the host by name; only a rule with its path does.
/// Promise 7.
#[test]
fn cgroups_of_the_host_match_no_rule() {
    let world = World::default();
    let mut agent = TestAgent::start_with(
        "[[rule]]\nmatch = \"*\"\nnetwork_cpu = \"enforce\"\n",
        world,
    );
    let service = Container {
        runtime: Runtime::Host,
        ..Container::clone(&container(1, "ssh.service"))
    };
    agent.world.containers.lock().unwrap().push(service.into());
    agent.world.add(2, "web-1");
    until("web-1 is wanted", || agent.world.wanted() == ["web-1"]);
    let status = agent.client().status().unwrap();
    assert_eq!(
        (status.containers_known, status.rules[0].containers),
        (1, 1)
    );
    let seen = agent.client().snapshot().unwrap();
    assert_eq!(seen.containers.len(), 2, "its row is there for `top --all`");
    agent.stop();
}

/// Otherwise a cgroup in the host's network namespace is no container, and its rule does nothing.
/// Promise 7.
#[test]
fn the_ledger_knows_the_cgroups_that_the_rules_name() {
    let pid = std::process::id();
    let own = cofferdam_host::cgroup_of(&cofferdam_host::HostFs::host(), pid).unwrap();
    let own = format!("cgroup:{}", own.display());
    let named = |agent: &TestAgent| -> Vec<String> {
        let named = agent.world.named.lock().unwrap();
        named.iter().map(ToString::to_string).collect()
    };
    let mut agent = TestAgent::start(&format!(
        "[[rule]]\nmatch = \"cgroup:/bar*\"\n[[rule]]\nmatch = \"pid:{pid}\"\n\
         [[rule]]\nmatch = \"web-*\"\n"
    ));
    until("both are named", || {
        named(&agent) == ["cgroup:/bar*", own.as_str()]
    });
    agent.rewrite(ENFORCE_WEB);
    agent.send_sighup();
    until("none is named", || named(&agent).is_empty());
    agent.stop();
}

/// Promise 75.
#[test]
fn a_bad_file_leaves_the_old_configuration_in_force() {
    let world = World::default();
    world.add(2, "web-1");
    let agent = TestAgent::start_with(ENFORCE_WEB, world);
    until("web-1 is wanted", || agent.world.wanted() == ["web-1"]);
    // The first rule is right, the second is not: neither may be applied.
    agent.rewrite("[[rule]]\nmatch = \"db-*\"\n[[rule]]\nmatch = \"web-*\"\ncpus = 1\n");
    let message = agent.client().reload().unwrap_err().to_string();
    assert!(
        message.contains("agent.toml:7:8") && message.contains("stays in force"),
        "{message}"
    );
    let status = agent.client().status().unwrap();
    assert_eq!(
        (status.rules.len(), status.rules[0].matches.as_str()),
        (1, "web-*")
    );
    assert!(
        status
            .configuration
            .refused
            .is_some_and(|why| why.contains("strict"))
    );
    assert_eq!(status.configuration.refusals, 1);
    assert_eq!(status.degraded[0].name, "configuration_refused");
    assert_eq!(agent.world.reverted.load(Relaxed), 0);

    agent.rewrite("[[rule]]\nmatch = \"db-*\"\nnetwork_cpu = \"enforce\"\n");
    assert_eq!(agent.client().reload().unwrap().rules, 1);
    until("nothing is wanted", || agent.world.wanted().is_empty());
    let status = agent.client().status().unwrap();
    assert_eq!(
        (status.configuration.refused, status.degraded),
        (None, vec![])
    );
}

#[test]
fn a_hang_up_reloads_and_a_missing_file_is_refused() {
    let agent = TestAgent::start("");
    agent.rewrite(ENFORCE_WEB);
    agent.send_sighup();
    let rules = || agent.client().status().unwrap().rules.len();
    until("the rule is in force", || rules() == 1);
    std::fs::remove_file(agent.folder.path().join("agent.toml")).unwrap();
    agent.send_sighup();
    let refused = || agent.client().status().unwrap().configuration.refused;
    until("it is refused", || {
        refused().is_some_and(|why| why.contains("does not exist"))
    });
    assert_eq!(rules(), 1);
}

/// Promise 75.
#[test]
fn a_configuration_that_would_block_is_refused_and_blocks_nothing() {
    let agent = TestAgent::start("");
    let path = agent.folder.path().join("agent.toml");
    let targets = ["/dev/zero", "/dev/tty", "/proc/kmsg", "/", ""];
    for target in targets {
        std::fs::remove_file(&path).unwrap();
        match target {
            "" => nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            target => std::os::unix::fs::symlink(target, &path).unwrap(),
        }
        let refused = agent.client().reload().unwrap_err().to_string();
        assert!(
            refused.contains("not a regular file"),
            "{target}: {refused}"
        );
        agent.send_sighup();
        let set = request(r#"{"version":1,"op":"set","match":"web-1","network_cpu":"observe"}"#);
        agent.client().change(&set).unwrap();
        assert_eq!(agent.client().status().unwrap().rules.len(), 1, "{target}");
    }
}

#[test]
fn enforcement_is_reverted_when_no_rule_needs_it() {
    let agent = TestAgent::start(ENFORCE_WEB);
    until("it is opened", || agent.world.opened.load(Relaxed) == 1);
    agent.rewrite("");
    agent.client().reload().unwrap();
    assert_eq!(agent.world.reverted.load(Relaxed), 1);
    agent.rewrite(ENFORCE_WEB);
    agent.client().reload().unwrap();
    assert_eq!(agent.world.opened.load(Relaxed), 2);
    // Another bound restarts the enforcement.
    agent.rewrite(&format!("enforcement.debt_bound = \"2s\"\n{ENFORCE_WEB}"));
    agent.client().reload().unwrap();
    assert_eq!(
        (
            agent.world.reverted.load(Relaxed),
            agent.world.opened.load(Relaxed)
        ),
        (2, 3)
    );
}

/// Promise 36.
#[test]
fn failed_enforcement_is_reported_and_retried() {
    let world = World::default();
    world.unavailable.store(true, Relaxed);
    world.add(1, "web-1");
    let agent = TestAgent::start_with(ENFORCE_WEB, world);
    let status = agent.client().status().unwrap();
    let [web] = &status.containers[..] else {
        panic!("{:?}", status.containers);
    };
    assert_eq!(web.degraded[0].name, "enforcement_unavailable");
    assert_eq!(web.cgroup_path.as_deref(), Some("/tenants/web-1"));
    agent.world.unavailable.store(false, Relaxed);
    until("it was tried again", || agent.world.wanted() == ["web-1"]);
}

#[test]
fn a_rule_of_the_socket_precedes_those_of_the_file() {
    let world = World::default();
    world.add(1, "web-1");
    world.add(2, "web-2");
    let agent = TestAgent::start_with(ENFORCE_WEB, world);
    let mut client = agent.client();
    let set = request(r#"{"version":1,"op":"set","match":"web-1","network_cpu":"observe"}"#);
    assert_eq!(client.change(&set).unwrap().containers, 1);
    assert_eq!(agent.world.wanted(), ["web-2"]);
    assert_eq!(client.status().unwrap().rules[0].line, None);
    // The rule outlives a reload.
    client.reload().unwrap();
    assert_eq!(client.status().unwrap().rules.len(), 2);
    let clear = request(r#"{"version":1,"op":"clear","match":"web-1"}"#);
    client.change(&clear).unwrap();
    assert_eq!(agent.world.wanted(), ["web-1", "web-2"]);
    assert!(
        client
            .change(&clear)
            .unwrap_err()
            .to_string()
            .contains("no rule")
    );
    for i in 0..64 {
        let line = format!(r#"{{"version":1,"op":"set","match":"x{i}"}}"#);
        client.change(&request(&line)).unwrap();
    }
    let more = request(r#"{"version":1,"op":"set","match":"one-more"}"#);
    assert!(client.change(&more).unwrap_err().to_string().contains("64"));
}

/// Promise 12.
#[test]
fn each_reader_learns_of_every_ended_container() {
    let world = World::default();
    world.add(5, "short");
    let agent = TestAgent::start_with("", world);
    let (mut first, mut second) = (agent.client(), agent.client());
    let has = |snapshot: &cofferdam_types::Snapshot| {
        snapshot
            .containers
            .iter()
            .any(|c| c.container.name == "short")
    };
    assert!(has(&first.snapshot().unwrap()) && has(&second.snapshot().unwrap()));
    agent.world.remove(5);
    until("a new reader no longer sees it", || {
        !has(&agent.client().snapshot().unwrap())
    });
    let last = first.snapshot().unwrap();
    assert!(has(&last), "gone since its last reading");
    assert!(!has(&first.snapshot().unwrap()), "reported once");
    let last = second.snapshot().unwrap();
    let short = last
        .containers
        .iter()
        .find(|c| c.container.name == "short")
        .unwrap();
    assert_eq!(short.ledger.caused_rx_ns, 5000);
    assert_eq!(short.container.cgroup_path.to_str(), Some("/tenants/short"));
}

#[test]
fn a_client_can_stop_it() {
    let mut agent = TestAgent::start(ENFORCE_WEB);
    assert!(agent.client().stop().unwrap().stopping);
    assert_eq!(agent.join(), Some(EndCause::Stopped));
    assert_eq!(agent.world.reverted.load(Relaxed), 1);
}

#[test]
fn failed_readings_are_reported_and_survived() {
    let agent = TestAgent::start("");
    agent.world.unreadable.store(true, Relaxed);
    let names = || -> Vec<String> {
        let status = agent.client().status().unwrap();
        status.degraded.into_iter().map(|d| d.name).collect()
    };
    until("it is degraded", || names() == ["accounting_unreadable"]);
    assert!(agent.client().snapshot().is_err());
    agent.world.unreadable.store(false, Relaxed);
    until("it is well again", || names().is_empty());
}

#[test]
fn another_socket_takes_a_restart_and_that_is_reported() {
    let agent = TestAgent::start("");
    let path = agent.folder.path().join("agent.toml");
    std::fs::write(path, "socket.path = \"/run/elsewhere.sock\"").unwrap();
    agent.client().reload().unwrap();
    let status = agent.client().status().unwrap();
    assert_eq!(status.degraded[0].name, "restart_needed");
}

/// Promise 27.
#[test]
fn a_thousand_rules_and_containers_are_assigned() {
    let world = World::default();
    for i in 0..200 {
        world.add(i + 1, &format!("web-{i}-x"));
    }
    let rules: String = (0..1000)
        .map(|i| format!("[[rule]]\nmatch = \"web-{i}-*\"\nnetwork_cpu = \"enforce\"\n"))
        .collect();
    let agent = TestAgent::start_with(&rules, world);
    let status = agent.client().status().unwrap();
    assert_eq!(status.rules.len(), 1000);
    assert_eq!(status.rules.iter().map(|r| r.containers).sum::<u64>(), 200);
    assert_eq!(agent.world.wanted().len(), 200);
}

#[test]
fn lost_cpu_is_shown_and_can_be_switched_off() {
    let world = World::default();
    world.add(1, "web-1");
    let agent = TestAgent::start_with("", world);
    let mut client = agent.client();
    let status = client.status().unwrap();
    let diagnosis = status.diagnosis.unwrap();
    assert_eq!(diagnosis.interval_s, 1.0);
    assert_eq!(diagnosis.containers.len(), 1);
    assert_eq!(diagnosis.containers[0].forced_sharing_ns, 500_000_000);
    assert_eq!(
        diagnosis.containers[0].neighbour,
        Some(NeighbourRecord::Host)
    );
    agent.rewrite("diagnosis.enabled = false\n");
    client.reload().unwrap();
    assert_eq!(client.status().unwrap().diagnosis, None);
    // A missing feature of the host is named, and a reload tries again.
    agent.world.unavailable.store(true, Relaxed);
    agent.rewrite("");
    client.reload().unwrap();
    assert_eq!(
        client.status().unwrap().degraded[0].name,
        "diagnosis_unavailable"
    );
    agent.world.unavailable.store(false, Relaxed);
    client.reload().unwrap();
    let status = client.status().unwrap();
    assert!(status.degraded.is_empty() && status.diagnosis.is_some());
}

/// Promise 23.
#[test]
fn the_status_names_victims_and_their_begin() {
    let world = World::default();
    world.add(1, "web-1");
    let mut agent = TestAgent::start_with("", world);
    let mut client = agent.client();
    until("it suffers", || {
        !client.status().unwrap().conditions.is_empty()
    });
    let first = client.status().unwrap().conditions.remove(0);
    assert_eq!(
        (first.name.as_str(), first.container.as_str()),
        (cofferdam_records::status::LOSES, "web-1")
    );
    assert!(first.cpus > 0.2, "{first:?}");
    until("it lasts", || {
        client.status().unwrap().conditions[0].for_s > first.for_s + 0.1
    });
    agent.world.remove(1);
    until("it has ended", || {
        client.status().unwrap().conditions.is_empty()
    });
    assert_eq!(agent.stop(), Some(EndCause::Stopped));
}
