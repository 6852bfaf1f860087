//! kill -9 at random moments: the next process reverts the host.

mod common;

use cofferdam_enforce::network::NetworkOptions;
use cofferdam_enforce::{EnforceOptions, Enforcer, revert_leftover};
use cofferdam_lab::fixtures::{FakeContainer, Host, Net, Router, fork};
use common::*;
use std::time::Duration;

/// Kills while a change is in force: enough to hit each change several times. Rounds are not
/// counted: two thirds of a process's life are the loading of programs, so the number of hits per
/// round is chance.
const KILLS_IN_THE_MIDDLE: u32 = 20;

/// Promise 63.
#[test]
fn kill_9_at_any_moment_is_reverted() {
    alone(170, || {
        let (offender, victim) = (FakeContainer::new("offender"), FakeContainer::new("victim"));
        let router = Router::new("router");
        let port = router.attach(&offender);
        router.attach(&victim);
        offender.steer("eth0", 3);
        let (o, v) = (found(&offender), found(&victim));
        let before = state(&offender, &*router, &port.device);
        let folder = tempfile::tempdir().unwrap();
        // Otherwise each process would first measure the cost, and most kills would come before any
        // change.
        let options = EnforceOptions {
            network: NetworkOptions {
                interruption: Some(Duration::from_micros(2)),
                ..NetworkOptions::default()
            },
            ..options(folder.path())
        };
        let interval = interval(&o, &v, 12);
        let (mut changed, mut random) = (0, fastrand::Rng::with_seed(7));
        let mut round = 0;
        while changed < KILLS_IN_THE_MIDDLE {
            round += 1;
            assert!(round < 1000, "killed in the middle {changed} times only");
            let child = fork(&Host, None, |child| {
                child.ready(0)?;
                loop {
                    let mut enforcer =
                        Enforcer::open(options.clone()).map_err(std::io::Error::other)?;
                    enforcer.set(enforce(&[&o, &v]));
                    // NAPI threads are started after 0.2 s of network CPU beyond what a weight
                    // compensates.
                    for _ in 0..16 {
                        enforcer.step(&interval);
                    }
                    enforcer.revert();
                }
            });
            let mut child = child;
            child.wait_ready();
            std::thread::sleep(Duration::from_micros(random.u64(0..60_000)));
            assert!(child.is_alive(), "the enforcer ended by itself");
            drop(child); // SIGKILL, then wait
            let report = revert_leftover(&options).unwrap();
            assert!(
                report.is_clean() && report.foreign.is_empty(),
                "round {round}: {report:?}"
            );
            changed += u32::from(report.reverted > 0);
            assert_eq!(
                state(&offender, &*router, &port.device),
                before,
                "round {round}: {report:?}"
            );
        }
    });
}
