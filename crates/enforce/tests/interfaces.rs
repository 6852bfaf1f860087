//! Changes that a runtime or an administrator makes to a container while it is enforced: interfaces
//! are renamed and added, the container is restarted.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_enforce::Enforcer;
use cofferdam_lab::fixtures::{FakeContainer, Namespace, Net, Router, VethPair};
use cofferdam_types::Means;
use common::*;
use std::fs;

/// Number of kernel threads in the container's leaf.
fn threads(container: &FakeContainer) -> usize {
    let file = container.cgroup().dir().join("cofferdam.napi/cgroup.procs");
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

/// Whether the device has threaded NAPI.
fn threaded(container: &FakeContainer, device: &str) -> bool {
    let text = container.sh(&format!("cat /sys/class/net/{device}/threaded"));
    text.trim() == "1"
}

/// Promise 36.
#[test]
fn a_renamed_interface_stays_enforced_and_is_reverted() {
    alone(60, || {
        let mut scene = Scene::engaged();
        let rename = |container: &FakeContainer, from: &str, to: &str| {
            container.run(&format!("ip link set {from} down"));
            container.run(&format!("ip link set {from} name {to}"));
            container.run(&format!("ip link set {to} up"));
        };
        rename(&scene.offender, "eth0", "net7");
        scene.follow();
        assert_eq!(scene.o.interfaces.len(), 1);
        scene.until("the thread to be in place", |scene| {
            means(&scene.enforcer, &scene.o, Means::NapiThread).in_force
        });
        assert_eq!(threads(&scene.offender), 1);
        assert!(threaded(&scene.offender, "net7"));
        scene.ends_as_it_began(|offender| rename(offender, "net7", "eth0"));
    });
}

/// Promise 36.
#[test]
fn added_interfaces_are_enforced_and_removed_ones_ignored() {
    alone(60, || {
        let mut scene = Scene::engaged();
        assert_eq!(threads(&scene.offender), 1);
        let second = Namespace::new("second");
        let pair = VethPair::new((&scene.offender, "eth1"), (&second, "p1"));
        scene.follow();
        assert_eq!(scene.o.interfaces.len(), 2);
        scene.until("both threads to be in place", |scene| {
            threads(&scene.offender) == 2
        });
        assert!(threaded(&scene.offender, "eth1"));

        drop(pair);
        scene.follow();
        assert_eq!(scene.o.interfaces.len(), 1);
        scene.until("one thread to be in place", |scene| {
            let state = means(&scene.enforcer, &scene.o, Means::NapiThread);
            state.in_force && threads(&scene.offender) == 1
        });
        scene.ends_as_it_began(|_| {});
    });
}

/// Promise 36.
#[test]
fn a_restarted_container_is_enforced_again() {
    alone(60, || {
        let victim = FakeContainer::new("victim");
        let router = Router::new("router");
        let folder = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        let v = found(&victim);
        for _ in 0..2 {
            let offender = FakeContainer::new("offender");
            router.attach(&offender);
            let o = found(&offender);
            // The previous container vanished without notice; its rule applies to the new one.
            enforcer.set(enforce(&[&o, &v]));
            until_napi_in_force(&mut enforcer, &o, &interval(&o, &v, 10));
            assert_eq!(threads(&offender), 1);
        }
        enforcer.set(enforce(&[&v]));
        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
    });
}
