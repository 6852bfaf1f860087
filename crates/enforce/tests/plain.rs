//! Cgroups that a rule names, with processes in the host's network namespace: they are protected as
//! containers are, and means that are not in force are reported.

mod common;

use cofferdam_accounting::{Accountant, Options};
use cofferdam_enforce::network::NetworkOptions;
use cofferdam_enforce::{EnforceOptions, Enforcer};
use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{Cgroup, FakeContainer, Net, Router};
use cofferdam_types::{Degradation, Means, Selector};
use common::*;
use std::time::{Duration, Instant};

/// Promise 7.
#[test]
fn a_named_cgroup_is_a_victim_in_the_ledger() {
    alone(240, || {
        let plain = Cgroup::new("plain");
        let offender = FakeContainer::new("offender");
        let router = Router::new("router");
        let port = router.attach(&offender);
        offender.steer("eth0", 1);
        // The programs come first: loading takes long under a flood.
        let mut accountant = Accountant::start(Options::default()).unwrap();
        let victim = traffic::compute(&plain, Some(0), Duration::from_secs(120));
        let named: Selector = format!("cgroup:{}", plain.path().display())
            .parse()
            .unwrap();
        accountant.name(&[named]).unwrap();
        let find = |accountant: &Accountant, path: &std::path::Path| {
            let mut all = accountant.containers().into_iter();
            all.find(|c| c.cgroup_path == path)
        };
        let limit = Duration::from_secs(20);
        cofferdam_lab::fixtures::wait_until("the named cgroup to be known", limit, || {
            let soon = Instant::now() + Duration::from_millis(20);
            accountant.follow(soon, None).unwrap();
            find(&accountant, plain.path()).is_some()
        });
        let p = find(&accountant, plain.path()).unwrap();
        assert!(p.host_network && p.interfaces.is_empty());
        let o = find(&accountant, offender.cgroup_path()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        enforcer.set(enforce(&[&o, &p]));
        let to = Udp::to(port.v4(9000))
            .bytes(200)
            .flood(Duration::from_secs(120));
        let _flood = traffic::udp_send(&*router, Some(1), to);

        let (mut last, mut paid_ns, mut caused_ns) = (accountant.snapshot().unwrap(), 0, 0);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !means(&enforcer, &o, Means::NapiThread).in_force {
            assert!(Instant::now() < deadline, "{:?}", enforcer.status());
            accountant
                .follow(Instant::now() + Duration::from_millis(50), None)
                .unwrap();
            let now = accountant.snapshot().unwrap();
            let interval = now.since(&last);
            for row in &interval.containers {
                if row.container.cgroup == p.cgroup {
                    paid_ns += row.ledger.charged_network_ns;
                } else if row.container.cgroup == o.cgroup {
                    caused_ns += row.ledger.caused_ns();
                }
            }
            enforcer.step(&interval);
            last = now;
        }
        assert!(
            paid_ns > 0,
            "what it pays for its neighbour is in the ledger"
        );
        assert!(caused_ns > paid_ns / 2, "{caused_ns} {paid_ns}");
        assert!(victim.is_alive());
        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
    });
}

fn degraded(enforcer: &Enforcer, name: &str) -> Option<Degradation> {
    let containers = enforcer.status().containers.into_iter();
    let mut all = containers.flat_map(|c| c.degraded);
    all.find(|d| d.name == name)
}

/// Promise 36.
#[test]
fn failed_means_and_uncompensated_victims_are_reported() {
    alone(60, || {
        let (offender, victim) = (FakeContainer::new("offender"), FakeContainer::new("victim"));
        let folder = tempfile::tempdir().unwrap();
        let mut options: EnforceOptions = options(folder.path());
        options.network = NetworkOptions {
            means: vec![Means::NapiThread],
            ..NetworkOptions::default()
        };
        let mut enforcer = Enforcer::open(options).unwrap();
        let (o, v) = (found(&offender), found(&victim));
        enforcer.set(enforce(&[&o, &v]));
        assert!(
            enforcer
                .status()
                .containers
                .iter()
                .all(|c| c.degraded.is_empty())
        );
        // Neither container has an interface of its own, so the only permitted means fails.
        let interval = interval(&o, &v, 10);
        for _ in 0..200 {
            enforcer.step(&interval);
        }
        let failed = degraded(&enforcer, "napi_thread_failed").expect("it is needed");
        assert!(
            failed.text.contains("no network interface of its own"),
            "{}",
            failed.text
        );
        assert!(
            failed
                .text
                .contains("no other mechanism is in force in its place"),
            "{}",
            failed.text
        );
        let pays = degraded(&enforcer, "pays_for_others").expect("it pays a quarter of a CPU");
        assert!(pays.text.contains(&o.name), "{}", pays.text);
        // Without victims nothing is degraded any more.
        let mut quiet = interval.clone();
        for row in &mut quiet.containers {
            row.ledger = Default::default();
            row.charged_by_cpu_ns = vec![0, 0];
            row.caused_by_cpu_ns = vec![0, 0];
        }
        for _ in 0..600 {
            enforcer.step(&quiet);
        }
        assert!(degraded(&enforcer, "pays_for_others").is_none());
        let report = enforcer.revert();
        assert!(report.is_clean(), "{report:?}");
    });
}

/// The victim has no rule and is still reported, with the container that causes its charge.
/// Promise 30.
#[test]
fn a_victim_without_a_rule_that_still_pays_is_named() {
    alone(60, || {
        let (offender, victim) = (FakeContainer::new("offender"), FakeContainer::new("victim"));
        let folder = tempfile::tempdir().unwrap();
        let mut options: EnforceOptions = options(folder.path());
        options.network = NetworkOptions {
            means: vec![Means::NapiThread],
            ..NetworkOptions::default()
        };
        let mut enforcer = Enforcer::open(options).unwrap();
        let (o, v) = (found(&offender), found(&victim));
        let pays = |enforcer: &Enforcer| {
            let mut all = enforcer.status().degraded.into_iter();
            all.find(|d| d.name == "victim_pays")
        };
        let interval = interval(&o, &v, 10);
        for (wanted, is_enforced) in [(enforce(&[]), false), (enforce(&[&o]), true)] {
            enforcer.set(wanted);
            for _ in 0..200 {
                enforcer.step(&interval);
            }
            let report = pays(&enforcer).expect("it pays a quarter of a CPU").text;
            assert!(
                report.contains(&v.name) && report.contains(&o.name),
                "{report}"
            );
            assert_eq!(
                !report.contains("which no rule enforces"),
                is_enforced,
                "{report}"
            );
        }
        let mut quiet = interval.clone();
        for row in &mut quiet.containers {
            row.ledger = Default::default();
            row.charged_by_cpu_ns = vec![0, 0];
            row.caused_by_cpu_ns = vec![0, 0];
        }
        for _ in 0..600 {
            enforcer.step(&quiet);
        }
        assert!(pays(&enforcer).is_none());
        let report = enforcer.revert();
        assert!(report.is_clean(), "{report:?}");
    });
}
