//! Sampling: a quiet host is measured in windows; a victim or a client makes the accounting exact.

use crate::harness::*;
use cofferdam_lab::fixtures::{FakeContainer, leftovers, wait_until};
use cofferdam_records::accounting::AccountingRecord;
use nix::sys::signal::Signal;
use std::time::Duration;

/// Name of one of the programs that see packets.
const MARKER: &str = "netif_receive_s"; // the kernel keeps 15 characters
/// Configuration that samples whatever the number of packets.
const ALWAYS: &str = "[accounting]\nexact_below = 0.0\n";
const LIMIT: Duration = Duration::from_secs(40);

fn is_attached() -> bool {
    leftovers::attached_programs().contains(MARKER)
}

/// Mode of the agent's accounting, and its reason.
fn mode(agent: &Agent) -> (String, String) {
    let accounting = agent.status().accounting.unwrap();
    (accounting.mode, accounting.why)
}

fn is_sampled(agent: &Agent) -> bool {
    mode(agent) == ("sampled".to_owned(), "quiet".to_owned())
}

/// Promise 5.
#[test]
fn a_victim_makes_a_sampled_host_exact_and_is_protected() {
    alone(|| {
        let mut testbed = Testbed::new();
        let before = testbed.state();
        let programs = leftovers::bpf_programs();
        let agent = Agent::start(&(ALWAYS.to_owned() + &enforce(testbed.flooded.name())));
        wait_until("nobody is pressed", LIMIT, || is_sampled(&agent));
        wait_until("a window begins", LIMIT, is_attached);
        wait_until("a window ends", LIMIT, || !is_attached());
        let text = String::from_utf8(agent.ask(&["status"]).stdout).unwrap();
        assert!(text.contains("ledger: sampled since "), "{text}");

        testbed.load();
        wait_until("the flood is enforced", LIMIT, || {
            let status = agent.status();
            status.containers.iter().any(|c| {
                let network = c.network.as_ref();
                network.is_some_and(|n| n.means.iter().any(|m| m.in_force))
            })
        });
        for _ in 0..40 {
            assert_eq!(mode(&agent).0, "exact", "for as long as means are in force");
            assert!(is_attached());
            std::thread::sleep(Duration::from_millis(50));
        }
        testbed.traffic.clear();
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
        assert_eq!(testbed.state(), before);
        assert_eq!(leftovers::bpf_programs(), programs);
    });
}

/// Promise 5.
#[test]
fn a_client_that_reads_the_ledger_sees_no_estimates() {
    alone(|| {
        let container = FakeContainer::new("read");
        let agent = Agent::start(ALWAYS);
        wait_until("nobody looks", LIMIT, || is_sampled(&agent));
        let top = agent.ask(&["top", "--once", "--json", "--interval", "300ms"]);
        assert_eq!(top.status.code(), Some(0), "{top:?}");
        let record: AccountingRecord = serde_json::from_slice(&top.stdout).unwrap();
        let accounting = record.accounting.unwrap();
        assert_eq!((&*accounting.mode, accounting.windows), ("exact", 0));
        let read = record
            .containers
            .iter()
            .find(|c| c.cgroup_id == container.id());
        assert!(read.unwrap().interval_95.is_none());
        assert_eq!(mode(&agent), ("exact".to_owned(), "watched".to_owned()));
        wait_until("nobody looks any more", LIMIT, || is_sampled(&agent));
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
    });
}

/// Promise 5.
#[test]
fn the_configuration_decides_about_windows() {
    alone(|| {
        let agent = Agent::start("[accounting]\nmode = \"exact\"\n");
        let configured = ("exact".to_owned(), "configured".to_owned());
        assert_eq!(mode(&agent), configured);
        write(
            agent.folder.path(),
            "[accounting]\nwindow = \"20ms\"\nperiod = \"300ms\"\nexact_below = 0.0\n",
        );
        agent.signal(Signal::SIGHUP);
        wait_until("windows are taken", LIMIT, || is_sampled(&agent));
        let accounting = agent.status().accounting.unwrap();
        assert_eq!((accounting.window_s, accounting.period_s), (0.02, 0.3));
        write(agent.folder.path(), "[accounting]\nmode = \"exact\"\n");
        agent.signal(Signal::SIGHUP);
        wait_until("none are taken", LIMIT, || mode(&agent) == configured);
        assert!(is_attached());
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
    });
}

/// Promise 5.
#[test]
fn a_host_with_few_packets_is_measured_all_the_time() {
    alone(|| {
        let agent = Agent::start("");
        let few = ("exact".to_owned(), "few packets".to_owned());
        // The first seconds have another reason.
        wait_until("nothing else is a reason", LIMIT, || mode(&agent) == few);
        let text = String::from_utf8(agent.ask(&["status"]).stdout).unwrap();
        assert!(text.contains("windows would cost more"), "{text}");
        assert!(is_attached());
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
    });
}

/// Promise 5.
#[test]
fn an_agent_killed_between_or_in_windows_leaves_nothing() {
    alone(|| {
        let programs = leftovers::bpf_programs();
        for in_window in [true, false] {
            let mut agent = Agent::start(ALWAYS);
            wait_until("nobody is pressed", LIMIT, || is_sampled(&agent));
            wait_until("the moment", LIMIT, || is_attached() == in_window);
            agent.signal(Signal::SIGKILL);
            agent.child.wait().unwrap();
            wait_until("the kernel has detached all", LIMIT, || {
                leftovers::attached_programs().is_empty() && leftovers::bpf_programs() == programs
            });
            let output = agent.ask(&["agent", "--restore"]);
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
    });
}
