//! Tests of the agent as a service, and of the commands for a user with a problem.

use crate::harness::*;
use cofferdam_lab::fixtures::wait_until;
use cofferdam_records::explain::{EXPLAIN, Explanation, Finding, Party};
use cofferdam_records::status::SUFFERS_CPUS;
use nix::sys::signal::Signal;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// All notices that were sent to `manager` until now.
fn notices(manager: &UnixDatagram) -> Vec<String> {
    let mut buffer = [0; 512];
    let mut all = Vec::new();
    while let Ok(length) = manager.recv(&mut buffer) {
        all.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
    }
    all
}

/// Promise 63.
#[test]
fn systemd_is_notified_of_readiness_watchdog_reload_and_end() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let socket = format!("NOTIFY_SOCKET={}", path.display());
        let agent = Agent::with("", &["env", &socket, "WATCHDOG_USEC=1500000"]);
        let mut all = Vec::new();
        let mut sees = |what: &str, wanted: &dyn Fn(&[String]) -> bool| {
            wait_until(what, Duration::from_secs(30), || {
                all.extend(notices(&manager));
                wanted(&all)
            });
        };
        sees("readiness", &|all| {
            let first = all.first();
            first.is_some_and(|one| one.starts_with("READY=1\nSTATUS=0 rules from "))
        });
        let signs = |all: &[String]| all.iter().filter(|one| *one == "WATCHDOG=1").count();
        sees("signs of life", &|all| signs(all) >= 3);
        assert_eq!(agent.ask(&["agent", "--reload"]).status.code(), Some(0));
        sees("the reload", &|all| {
            all.iter()
                .any(|one| one.starts_with("STATUS=0 rules from "))
        });
        // A stopped control loop sends no notice, although the process exists.
        agent.signal(Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(200));
        notices(&manager);
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(notices(&manager), [""; 0]);
        agent.signal(Signal::SIGCONT);
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
        let last = notices(&manager).pop();
        assert_eq!(last.as_deref(), Some("STOPPING=1"));
    });
}

/// Name and niceness of each thread of a process.
fn threads(pid: u32) -> Vec<(String, i32)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stat = |task: std::io::Result<std::fs::DirEntry>| {
        // A thread may have ended meanwhile.
        let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
        // Field 19 of proc_pid_stat(5); the name is field 2.
        let niceness = fields.split_whitespace().nth(16)?;
        Some((name.to_owned(), niceness.parse().unwrap()))
    };
    tasks.filter_map(stat).collect()
}

/// Promise 35.
#[test]
fn only_the_control_loop_has_priority_over_others() {
    alone(|| {
        let agent = Agent::start("");
        // The loop starts these threads long after its own start.
        let history = agent.folder.path().join("history");
        let more = format!(
            "history.path = \"{}\"\n[latency]\nhistograms = true\n",
            history.display()
        );
        write(agent.folder.path(), &more);
        assert_eq!(agent.ask(&["agent", "--reload"]).status.code(), Some(0));
        let pid = agent.child.id();
        let of = |threads: &[(String, i32)], wanted: &str| {
            let found = threads.iter().find(|(name, _)| name == wanted);
            found.map(|(_, niceness)| *niceness)
        };
        // Between steps the loop serves clients with normal priority.
        wait_until("the loop goes first", Duration::from_secs(30), || {
            let seen = threads(pid);
            let started = ["cofferdam-serve", "cofferdam-histo", "cofferdam-laten"];
            let started = started.map(|name| of(&seen, name));
            assert!(started.iter().flatten().all(|one| *one == 0), "{seen:?}");
            started.iter().all(Option::is_some) && of(&seen, "cofferdam") == Some(-20)
        });
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
    });
}

fn explained(agent: &Agent) -> Explanation {
    let output = agent.ask(&["explain", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Promise 11.
#[test]
fn the_command_of_an_explanation_can_be_run() {
    alone(|| {
        let mut testbed = Testbed::new();
        let agent = Agent::start("");
        let calm = explained(&agent);
        assert_eq!(
            (calm.schema.as_str(), calm.agent.as_str()),
            (EXPLAIN, "running")
        );
        testbed.load();
        let ours = [testbed.flooded.name(), testbed.victim.name()];
        // The victim is the container that computes on the flooded CPU. On a busy host, processes
        // of others may take more CPU time from the two containers; that is harm too.
        let is_ours = |party: &Option<Party>| {
            let name = party.as_ref().map(|p| p.name.as_str());
            name.is_some_and(|name| ours.contains(&name))
        };
        let mut found = None;
        wait_until("one of the two suffers", Duration::from_secs(40), || {
            let suffers = |f: &Finding| is_ours(&f.victim) && f.for_s.is_some();
            found = explained(&agent).findings.into_iter().find(suffers);
            found.is_some()
        });
        let finding = found.unwrap();
        assert!(
            finding.offender.is_none() || is_ours(&finding.offender),
            "{finding:?}"
        );
        assert!(finding.cpus.unwrap() >= SUFFERS_CPUS, "{finding:?}");
        let victim = &finding.victim.as_ref().unwrap().name;
        assert!(finding.sentence.contains(victim), "{}", finding.sentence);
        let text = agent.ask(&["explain"]);
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(!text.is_empty() && text.lines().count() <= 23, "{text}");
        let state = agent.ask(&[]);
        assert_eq!(state.status.code(), Some(0), "{state:?}");
        let state = String::from_utf8(state.stdout).unwrap();
        assert!(state.starts_with("agent  running for "), "{state}");
        assert!(state.contains("\nnext   sudo cofferdam "), "{state}");

        let command = finding.command.unwrap();
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(words[..2], ["sudo", "cofferdam"], "{command}");
        let set = agent.ask(&words[2..]);
        assert_eq!(set.status.code(), Some(0), "{set:?}");
        let printed = String::from_utf8(set.stdout).unwrap();
        assert_eq!(printed, "the rule is set; it applies to 1 container\n");
        let rules = agent.status().rules;
        let matches = rules[0].matches.clone();
        assert!(ours.contains(&matches.as_str()), "{rules:?}");
        let policy = &rules[0].policy;
        assert!(
            policy.network_cpu == "enforce" || policy.cpu == "strict",
            "{policy:?}"
        );
        let cleared = agent.ask(&["rule", "clear", &matches]);
        assert_eq!(cleared.status.code(), Some(0), "{cleared:?}");
        assert!(agent.status().rules.is_empty());
        let again = agent.ask(&["rule", "clear", &matches]);
        assert_eq!(again.status.code(), Some(1));
        assert!(line(&again).contains("was set"), "{again:?}");
        testbed.traffic.clear();
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
    });
}

/// Promise 12.
#[test]
fn without_an_agent_the_state_is_measured() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let none = folder.path().join("none.sock");
        let none = none.to_str().unwrap();
        let own = cofferdam(&["--socket", none]);
        assert_eq!(own.status.code(), Some(0), "{own:?}");
        let text = String::from_utf8(own.stdout).unwrap();
        assert!(text.starts_with("agent  not running\nnow    "), "{text}");
        assert!(text.contains("\nnext   sudo "), "{text}");
        let own = cofferdam(&["explain", "--json", "--socket", none]);
        let explanation: Explanation = serde_json::from_slice(&own.stdout).unwrap();
        assert_eq!(
            (explanation.agent.as_str(), explanation.figures.readings),
            ("not_running", 3)
        );

        // The user `nobody` must be able to execute it, whatever the permissions of the build's
        // folder.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), readable).unwrap();
        let binary = folder.path().join("cofferdam");
        std::fs::copy(Path::new(BINARY), &binary).unwrap();
        let nobody = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&binary)
            .args(["--socket", none])
            .current_dir("/")
            .output()
            .unwrap();
        assert_eq!(nobody.status.code(), Some(3), "{nobody:?}");
        assert_eq!(
            String::from_utf8_lossy(&nobody.stdout),
            "agent  not running\n"
        );
        assert!(line(&nobody).contains("sudo"), "{nobody:?}");
    });
}
