//! Offenders that are not only behind a veth pair of the host: their packets are dropped where they
//! enter the host.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_enforce::Enforcer;
use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{FakeContainer, Net, macvlan, wait_until};
use cofferdam_types::{Container, Means};
use common::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// Floods `offender` at `to` until its packets are dropped, then reverts all changes.
fn limits(uplink: &Uplink, offender: &FakeContainer, to: SocketAddr) -> Arc<Container> {
    let victim = FakeContainer::new("victim");
    let folder = tempfile::tempdir().unwrap();
    let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
    let (o, v) = (found(offender), found(&victim));
    enforcer.set(enforce(&[&o, &v]));
    uplink.peer.ping(&to.ip().to_string());
    // Shares matter only on a fully used CPU.
    let _busy = traffic::compute(&victim, Some(0), LIMIT);
    let _flood = traffic::udp_send(&uplink.peer, Some(1), Udp::to(to).bytes(200).flood(LIMIT));
    // The offender causes all network CPU, and the victim is charged half of it.
    let interval = interval(&o, &v, 20);
    wait_until("its packets to be dropped where they enter", LIMIT, || {
        enforcer.step(&interval);
        std::thread::sleep(Duration::from_millis(5));
        let status = enforcer.status();
        let mut all = status.containers.iter();
        let own = all.find(|c| c.cgroup == o.cgroup).unwrap();
        let dropped = own.network.as_ref().unwrap().dropped_rx_packets;
        dropped > 1_000 && means(&enforcer, &o, Means::IngressDrop).in_force
    });
    let attached = uplink.router.sh("ip -details link show up0");
    let is_here = attached.contains("prog/xdp");
    assert!(
        is_here,
        "not at the device by which packets enter: {attached}"
    );
    let report = enforcer.revert();
    assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
    o
}

/// Promise 32.
#[test]
fn a_container_on_a_macvlan_is_limited_below_it() {
    alone(120, || {
        let uplink = Uplink::new();
        let offender = FakeContainer::new("offender");
        macvlan(&*uplink.router, "up0", &offender, "eth0");
        offender.address("eth0", "10.97.0.3/24");
        let o = limits(&uplink, &offender, "10.97.0.3:9000".parse().unwrap());
        let pair = &o.interfaces[0];
        assert!(pair.host_netns.is_none() && pair.lower_netns.is_some());
    });
}

/// Promise 32.
#[test]
fn a_container_behind_a_tunnel_is_limited_at_the_entry() {
    alone(120, || {
        let uplink = Uplink::new();
        let offender = FakeContainer::new("offender");
        let port = uplink.router.attach(&offender);
        uplink.tunnel();
        limits(&uplink, &offender, port.v4(9000));
    });
}
