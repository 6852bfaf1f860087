//! Measurement by devices alone, without the host's tracepoints (`--start device`).

mod common;

use cofferdam_lab::fixtures::{
    FakeContainer, Lan, Namespace, Net, Router, htb, masquerade, port_forward, traffic, vxlan,
};
use cofferdam_latency::{Class, Direction, Filter, Miss, Stage};
use common::bulk::{self, Ends};
use common::datagrams::{PACKETS, assert_stages, udp};
use common::scenes::{Macvlan, Tunnel};
use common::{Watch, alone, netns};
use std::net::SocketAddr;
use std::time::Duration;

use Stage::{ContainerQdisc, Forward, HostQdisc, Stack, Veth};
const VETH_OUT: [Stage; 4] = [ContainerQdisc, Veth, Forward, HostQdisc];
const VETH_IN: [Stage; 4] = [Forward, HostQdisc, Veth, Stack];

/// Bytes of TCP each way.
const BYTES: u64 = 4 << 20;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Sends UDP in both directions between the container and its peer, and an echo; each gets a
/// report.
fn both_ways(web: &Namespace, peer: &Namespace, here: SocketAddr, there: SocketAddr) -> Watch {
    both_ways_by(web, peer, (here, here), there)
}

/// Sends as [`both_ways`] does, but the peer addresses the container at `door`.
fn both_ways_by(
    web: &Namespace,
    peer: &Namespace,
    (door, here): (SocketAddr, SocketAddr),
    there: SocketAddr,
) -> Watch {
    web.ping(&there.ip().to_string());
    let mut watch = Watch::by_devices(web);
    udp(web, peer, there, there);
    udp(peer, web, door, here);
    web.ping(&there.ip().to_string());
    watch.read_all_slowly();
    for direction in Direction::ALL {
        watch.assert_nearly_covered(direction, Class::Udp, PACKETS);
        let of = |class| watch.of(direction, class).count() as u64;
        assert!(of(Class::Udp) >= PACKETS, "{:?}", watch.counts());
        assert!(of(Class::Icmp) > 0, "{:?}", watch.counts());
    }
    watch.assert_sound();
    watch
}

/// Promise 19.
#[test]
fn a_routed_pair_shows_its_stages() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        let here = router.attach(&web);
        let there = router.attach(&peer);
        for (here, there) in [
            (here.v4(9001), there.v4(9000)),
            (here.v6(9001), there.v6(9000)),
        ] {
            let watch = both_ways(web.namespace(), &peer, here, there);
            assert_stages(&watch, Direction::Egress, &VETH_OUT);
            assert_stages(&watch, Direction::Ingress, &VETH_IN);
            for sample in watch.of(Direction::Egress, Class::Udp) {
                assert_eq!(sample.start_label(), "queue");
                assert_eq!(sample.report.host_ifindex, router.ifindex("c2"));
                assert_eq!(sample.report.container_ifindex, Some(web.ifindex("eth0")));
            }
        }
    });
}

/// Promise 19.
#[test]
fn a_bridge_address_translation_and_tunnels_are_passed() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let lan = Lan::new("lan");
        let (here, there) = (lan.attach(&web), lan.attach(&peer));
        let watch = both_ways(web.namespace(), &peer, here.v4(9001), there.v4(9000));
        assert_stages(&watch, Direction::Egress, &VETH_OUT);
        drop((watch, lan));

        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        let (here, there) = (router.attach(&web), router.attach(&peer));
        port_forward(&*router, "udp", 8000, &here.v4(9001).to_string());
        masquerade(&*router, "c2");
        let doors = (address("10.98.2.1:8000"), here.v4(9001));
        let watch = both_ways_by(web.namespace(), &peer, doors, there.v4(9000));
        for sample in watch.of(Direction::Ingress, Class::Udp) {
            assert_eq!(sample.report.destination, here.v4(9001).ip());
        }
        drop((watch, router));

        let Tunnel { web, far, host, .. } = &Tunnel::make();
        let (here, there) = (address("10.93.0.1:9001"), address("10.93.0.2:9000"));
        let watch = both_ways(web.namespace(), far, here, there);
        for sample in watch.of(Direction::Egress, Class::Udp) {
            assert!(sample.report.encapsulated, "{sample:?}");
            assert_eq!(sample.report.host_ifindex, host.ifindex("up0"));
        }
    });
}

/// Promise 19.
#[test]
fn a_tunnel_of_the_container_is_looked_into() {
    alone(|| {
        let (web, far) = (FakeContainer::new("web"), Namespace::new("far"));
        let router = Router::new("router");
        let (a, b) = (router.attach(&web), router.attach(&far));
        let (here, there) = (a.ipv4.to_string(), b.ipv4.to_string());
        vxlan(web.namespace(), "vx0", 7, "eth0", &here, &there);
        vxlan(&far, "vx0", 7, "eth0", &there, &here);
        web.address("vx0", "10.96.0.1/24");
        far.address("vx0", "10.96.0.2/24");
        far.ping("10.96.0.1");
        let (here, there) = (address("10.96.0.1:9001"), address("10.96.0.2:9000"));
        both_ways(web.namespace(), &far, here, there);
    });
}

/// The device names the container, which tracepoints do not.
///
/// Promise 19.
#[test]
fn macvlan_is_known_by_its_device() {
    alone(|| {
        let Macvlan { web, peer, .. } = &Macvlan::make();
        let (here, there) = (address("10.95.0.2:9001"), address("10.95.0.1:9000"));
        let watch = both_ways(web.namespace(), peer, here, there);
        for sample in watch.of(Direction::Ingress, Class::Udp) {
            assert_eq!(sample.report.container_ifindex, Some(web.ifindex("eth0")));
            assert!(sample.stages.added_ns.is_some(), "{sample:?}");
        }
    });
}

/// Promise 19.
#[test]
fn tcp_is_reported_whole_cut_and_merged() {
    alone(|| {
        let cases: [fn(&FakeContainer, &Router); 5] = [
            |_, _| {},
            |web, _| web.offload("eth0", "tso", false),
            |web, router| {
                router.offload("c1", "tso", false);
                web.offload("eth0", "gro", true);
            },
            |web, router| {
                web.offload("eth0", "tso", false);
                router.offload("c1", "gro", true);
            },
            |_, router| {
                router.offload("c2", "tso", false);
                htb(&**router, "c2", "200mbit");
            },
        ];
        for case in cases {
            let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
            let router = Router::new("router");
            router.attach(&web);
            router.attach(&peer);
            case(&web, &router);
            for (here, there) in [
                ("10.98.1.2:9001", "10.98.2.2:9000"),
                ("[fd98:1::2]:9001", "[fd98:2::2]:9000"),
            ] {
                let ends = Ends::plain(here, there);
                let watch = Watch::by_devices(web.namespace());
                bulk::transfer_seen(watch, web.namespace(), &peer, &ends, BYTES);
            }
        }
    });
}

/// A packet that was dropped on the way counts as one whose end was not seen.
///
/// Promise 19.
#[test]
fn a_drop_is_a_packet_without_an_end() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        router.attach(&web);
        let there = router.attach(&peer);
        router.sh("nft 'add table ip loss'
             nft 'add chain ip loss f { type filter hook forward priority 0 ; }'
             nft 'add rule ip loss f udp dport 9000 numgen inc mod 2 1 drop'");
        web.namespace().ping(&there.ipv4.to_string());
        let mut watch = Watch::by_devices(web.namespace());
        let sink = traffic::udp_sink(&peer, None, there.v4(9000), 50);
        let sent = traffic::Udp::to(there.v4(9000)).packets(100).rate(1000);
        traffic::udp_send(web.namespace(), None, sent).finish();
        assert_eq!(sink.finish()[0], 50);
        watch.read_all_slowly();
        let counts = watch.counts();
        let (way, udp) = (Direction::Egress as usize, Class::Udp as usize);
        assert_eq!(counts.packets[way][udp], 100, "{counts:?}");
        assert_eq!(counts.reports[way][udp], 50, "{counts:?}");
        assert_eq!(counts.misses[way][Miss::Dropped as usize], 0, "{counts:?}");
        watch.assert_sound();
    });
}

/// Promise 19.
#[test]
fn later_devices_are_measured_and_ended_ones_are_detached() {
    alone(|| {
        let web = FakeContainer::new("web");
        let router = Router::new("router");
        let here = router.attach(&web);
        let mut watch = Watch::by_devices(web.namespace());
        let peer = FakeContainer::new("peer");
        let there = router.attach(&peer);
        std::thread::sleep(Duration::from_millis(1100));
        watch.meter.maintain().expect("devices can be followed");
        udp(
            web.namespace(),
            peer.namespace(),
            there.v4(9000),
            there.v4(9000),
        );
        udp(
            peer.namespace(),
            web.namespace(),
            here.v4(9001),
            here.v4(9001),
        );
        watch.read_all_slowly();
        for direction in Direction::ALL {
            watch.assert_nearly_covered(direction, Class::Udp, PACKETS);
        }
        // A container that is measured as well, and ends: its namespace must end too.
        let ended = watch.also(peer.namespace());
        assert!(router.sh("ls /sys/class/net").contains("c2"));
        drop(peer);
        let has_gone = || !router.sh("ls /sys/class/net").contains("c2");
        let went = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            has_gone()
        });
        assert!(went, "the measurement keeps the namespace");
        watch.meter.maintain().expect("devices can be followed");
        watch.meter.off(ended);
        let absent = watch.meter.on(netns(web.namespace()), &Filter::default());
        absent.expect("known");
    });
}
