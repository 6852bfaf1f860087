//! Tests that kill the agent by SIGKILL at random moments under load, and revert its changes.

use crate::harness::*;
use cofferdam_lab::fixtures::{leftovers, number_from_env, wait_until};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Default number of rounds; `COFFERDAM_KILL_ROUNDS` sets another. A round takes one to four
/// seconds.
const ROUNDS: u64 = 5;
/// Default seed of the random moments; `COFFERDAM_KILL_SEED` sets another.
const SEED: u64 = 1;

/// NAPI threads of interfaces.
fn napi_threads() -> BTreeSet<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let name = |entry: std::fs::DirEntry| {
        let comm = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        comm.starts_with("napi/").then_some(comm)
    };
    processes.filter_map(name).collect()
}

/// Promise 63.
#[test]
fn restore_reverts_every_change_of_a_killed_agent() {
    let rounds = number_from_env("COFFERDAM_KILL_ROUNDS").unwrap_or(ROUNDS);
    let limit = Duration::from_secs(60 + 8 * rounds);
    alone_for(limit, move || {
        let mut testbed = Testbed::new();
        testbed.cap();
        let journal = Path::new("/run/cofferdam/journal");
        let state =
            |testbed: &Testbed| (testbed.state(), napi_threads(), leftovers::bpf_programs());
        let before = state(&testbed);
        let config = enforce(testbed.flooded.name());
        let seed = number_from_env("COFFERDAM_KILL_SEED").unwrap_or(SEED);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut changed = 0;
        for round in 0..rounds {
            if round % 20 == 0 {
                // The port must be free first.
                testbed.traffic.clear();
                testbed.load();
            }
            let mut agent = Agent::start(&config);
            // The agent applies changes within the first 100 ms and takes about 200 ms for that, if
            // it gets the CPU. Every second round waits until it has begun.
            if round % 2 == 1 {
                wait_until("a change", Duration::from_secs(8), || journal.exists());
            }
            let moment = Duration::from_micros(random.u64(0..500_000));
            std::thread::sleep(moment);
            agent.signal(Signal::SIGKILL);
            agent.child.wait().unwrap();
            changed += u64::from(journal.exists());
            let output = agent.ask(&["agent", "--restore"]);
            assert_eq!(output.status.code(), Some(0), "round {round}: {output:?}");
            assert_eq!(
                state(&testbed),
                before,
                "round {round}, killed after {moment:?}"
            );
            assert!(!Path::new("/run/cofferdam").exists(), "files are left");
            assert!(!agent.socket().exists());
        }
        testbed.traffic.clear();
        println!("{rounds} kills, {changed} of them with changes in force; seed {seed}");
        assert!(
            changed > rounds / 4,
            "killed with changes in force {changed} times only"
        );
    });
}
