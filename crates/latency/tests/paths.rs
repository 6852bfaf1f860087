//! Measurement on each path: every packet, in stages that add up.

mod common;

use cofferdam_lab::fixtures::{
    FakeContainer, Lan, Namespace, Net, Router, htb, masquerade, port_forward, vxlan,
};
use cofferdam_latency::{Class, Direction, Stage};
use common::bulk::{self, Ends};
use common::datagrams::{PACKETS, assert_stages, udp};
use common::scenes::{Macvlan, Tunnel};
use common::{Watch, alone, netns};
use std::net::SocketAddr;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Sends UDP and ICMP in both directions between the container and its peer, all measured.
fn both_ways(web: &Namespace, peer: &Namespace, here: SocketAddr, there: SocketAddr) -> Watch {
    // A packet that waits for its neighbour's address is sent in the context of the answer.
    web.ping(&there.ip().to_string());
    let mut watch = Watch::on(web);
    udp(web, peer, there, there);
    udp(peer, web, here, here);
    web.ping(&there.ip().to_string());
    watch.read_all();
    watch.assert_covered(Direction::Egress, Class::Udp, PACKETS);
    watch.assert_covered(Direction::Ingress, Class::Udp, PACKETS);
    assert_pinged(&watch);
    watch.assert_sound();
    watch
}

/// Asserts that the echo was seen. (The host's own neighbour discovery is ICMP without a start.)
#[track_caller]
fn assert_pinged(watch: &Watch) {
    for direction in Direction::ALL {
        assert!(
            watch.of(direction, Class::Icmp).count() > 0,
            "{direction:?}"
        );
    }
}

use Stage::{ContainerQdisc, Forward, HostQdisc, Stack, Veth};
const VETH_OUT: [Stage; 5] = [Stack, ContainerQdisc, Veth, Forward, HostQdisc];
const VETH_IN: [Stage; 4] = [Forward, HostQdisc, Veth, Stack];

/// Promise 19.
#[test]
fn routed_veth() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        let here = router.attach(&web);
        let there = router.attach(&peer);
        let watch = both_ways(web.namespace(), &peer, here.v4(9001), there.v4(9000));
        assert_stages(&watch, Direction::Egress, &VETH_OUT);
        assert_stages(&watch, Direction::Ingress, &VETH_IN);
        for sample in watch.of(Direction::Egress, Class::Udp) {
            assert_eq!(sample.start_label(), "send");
            assert_eq!(sample.report.host_ifindex, router.ifindex("c2"));
            assert_eq!(sample.report.container_ifindex, Some(web.ifindex("eth0")));
        }
        drop(watch);
        let watch = both_ways(web.namespace(), &peer, here.v6(9001), there.v6(9000));
        assert_stages(&watch, Direction::Egress, &VETH_OUT);
    });
}

/// Promise 19.
#[test]
fn bridge_and_veth() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let lan = Lan::new("lan");
        let here = lan.attach(&web);
        let there = lan.attach(&peer);
        let watch = both_ways(web.namespace(), &peer, here.v4(9001), there.v4(9000));
        assert_stages(&watch, Direction::Egress, &VETH_OUT);
        assert_stages(&watch, Direction::Ingress, &VETH_IN);
    });
}

/// The bridge forgets addresses at once and floods each packet to all its ports, like a bridge that
/// has not learned an address yet.
///
/// Promise 72.
#[test]
fn a_flooded_packet_is_reported_to_its_receiver_alone() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), FakeContainer::new("peer"));
        let (before, after) = (FakeContainer::new("before"), FakeContainer::new("after"));
        let lan = Lan::new("lan");
        // Ports on both sides of the receiver's: one of them gets the packet itself, not a clone.
        lan.attach(&before);
        let here = lan.attach(&web);
        let there = lan.attach(&peer);
        lan.attach(&after);
        web.namespace().ping(&there.ipv4.to_string());
        lan.run("ip link set br0 type bridge ageing_time 0");
        let mut watch = Watch::on(web.namespace());
        let measured = watch.also(peer.namespace());
        let strangers = [&before, &after].map(|c| watch.also(c.namespace()));
        let frames_before = received_frames(&after);
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
        watch.read_all();
        let flooded = received_frames(&after) - frames_before;
        assert!(
            flooded >= 2 * PACKETS,
            "the bridge did not flood: {flooded}"
        );
        for stranger in strangers {
            let shown = watch.samples.iter().filter(|s| s.report.netns == stranger);
            let udp = shown.filter(|s| s.report.class() == Class::Udp).count();
            assert_eq!(udp, 0, "packets of others were reported");
            let counts = watch.meter.counts(stranger).expect("counts can be read");
            let packets: u64 = counts
                .packets
                .iter()
                .map(|way| way[Class::Udp as usize])
                .sum();
            assert_eq!(packets, 0, "packets of others were counted: {counts:?}");
        }
        // Sender and receiver miss nothing by it.
        for space in [netns(web.namespace()), measured] {
            let counts = watch.meter.counts(space).expect("counts can be read");
            let way = Direction::Ingress as usize;
            let udp = Class::Udp as usize;
            assert_eq!(counts.packets[way][udp], PACKETS, "{counts:?}");
            assert_eq!(counts.reports[way][udp], PACKETS, "{counts:?}");
        }
    });
}

/// Returns the number of frames that the container's interface has received, for any receiver.
fn received_frames(container: &FakeContainer) -> u64 {
    let text = container.exec("cat /proc/self/net/dev");
    let line = text.lines().find_map(|l| l.trim().strip_prefix("eth0:"));
    let frames = line.and_then(|counts| counts.split_whitespace().nth(1));
    frames.expect("eth0 is there").parse().expect("a number")
}

/// Promise 19.
#[test]
fn masquerade_and_port_forward() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        let here = router.attach(&web);
        let there = router.attach(&peer);
        port_forward(&*router, "udp", 8000, &here.v4(9001).to_string());
        masquerade(&*router, "c2");
        let mut watch = Watch::on(web.namespace());
        udp(web.namespace(), &peer, there.v4(9000), there.v4(9000));
        udp(
            &peer,
            web.namespace(),
            address("10.98.2.1:8000"),
            here.v4(9001),
        );
        web.ping(&there.ipv4.to_string());
        watch.read_all();
        watch.assert_covered(Direction::Egress, Class::Udp, PACKETS);
        watch.assert_covered(Direction::Ingress, Class::Udp, PACKETS);
        assert_pinged(&watch);
        watch.assert_sound();
        // The report has the container's view, not the addresses on the host.
        for sample in watch.of(Direction::Ingress, Class::Udp) {
            assert_eq!(sample.report.destination, here.v4(9001).ip());
            assert_eq!(sample.report.destination_port, 9001);
        }
    });
}

/// Promise 19.
#[test]
fn a_tunnel_of_the_host() {
    alone(|| {
        let Tunnel { web, far, host, .. } = &Tunnel::make();
        let (here, there) = (address("10.93.0.1:9001"), address("10.93.0.2:9000"));
        let watch = both_ways(web.namespace(), far, here, there);
        assert_stages(&watch, Direction::Egress, &VETH_OUT);
        for sample in watch.of(Direction::Egress, Class::Udp) {
            assert!(sample.report.encapsulated, "{sample:?}");
            assert_eq!(sample.report.host_ifindex, host.ifindex("up0"));
        }
        for sample in watch.of(Direction::Ingress, Class::Udp) {
            assert_eq!(sample.report.host_ifindex, host.ifindex("up0"));
        }
    });
}

/// Promise 19.
#[test]
fn a_tunnel_of_the_container() {
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

/// Promise 19.
#[test]
fn macvlan_is_known_by_its_sockets() {
    alone(|| {
        let Macvlan { web, peer, .. } = &Macvlan::make();
        let (here, there) = (address("10.95.0.2:9001"), address("10.95.0.1:9000"));
        let watch = both_ways(web.namespace(), peer, here, there);
        for sample in watch.of(Direction::Ingress, Class::Udp) {
            assert_eq!(sample.report.container_ifindex, None);
            assert_eq!(sample.stages.added_ns, None);
        }
    });
}

/// Promise 19.
#[test]
fn a_shaped_uplink_shows_as_the_hosts_queue() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        let here = router.attach(&web);
        let there = router.attach(&peer);
        // 500 packets of 92 bytes and a link header need 212 ms; they are sent within 50 ms.
        htb(&*router, "c2", "2mbit");
        let watch = both_ways(web.namespace(), &peer, here.v4(9001), there.v4(9000));
        let longest = |stage: Stage| {
            let parts = watch
                .of(Direction::Egress, Class::Udp)
                .flat_map(|s| s.stages.parts_ns.iter());
            let of = parts.filter(|(s, _)| *s == stage).map(|(_, ns)| *ns);
            of.max().unwrap_or(0)
        };
        let (queue, rest) = (longest(HostQdisc), longest(ContainerQdisc));
        assert!(queue > 50_000_000 && queue > rest, "{queue} {rest}");
    });
}

/// Bytes of TCP each way.
const BYTES: u64 = 1 << 20;

/// Promise 20.
#[test]
fn tcp_through_a_bridge_is_reported() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let lan = Lan::new("lan");
        let (here, there) = (lan.attach(&web), lan.attach(&peer));
        for (here, there) in [
            (here.v4(9001), there.v4(9000)),
            (here.v6(9001), there.v6(9000)),
        ] {
            let ends = Ends {
                here,
                door: here,
                there,
            };
            bulk::transfer(web.namespace(), &peer, &ends, BYTES);
        }
    });
}

/// Promise 20.
#[test]
fn tcp_through_masquerade_and_port_forward_is_reported() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        let (here, there) = (router.attach(&web), router.attach(&peer));
        port_forward(&*router, "tcp", 8000, &here.v4(9001).to_string());
        masquerade(&*router, "c2");
        let ends = Ends {
            here: here.v4(9001),
            door: address("10.98.2.1:8000"),
            there: there.v4(9000),
        };
        let watch = bulk::transfer(web.namespace(), &peer, &ends, BYTES);
        // The report has the container's view, not the addresses on the host.
        for sample in watch.of(Direction::Ingress, Class::Tcp) {
            assert_eq!(sample.report.destination, ends.here.ip());
            assert_ne!(sample.report.destination_port, ends.door.port());
        }
    });
}

/// Promise 20.
#[test]
fn tcp_through_a_tunnel_of_the_host_is_reported() {
    alone(|| {
        let scene = Tunnel::make();
        let ends = Ends::plain("10.93.0.1:9001", "10.93.0.2:9000");
        let watch = bulk::transfer(scene.web.namespace(), &scene.far, &ends, BYTES);
        for sample in watch.of(Direction::Egress, Class::Tcp) {
            assert!(sample.report.encapsulated, "{sample:?}");
        }
    });
}

/// Promise 20.
#[test]
fn tcp_through_a_shaped_uplink_is_reported() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        let (here, there) = (router.attach(&web), router.attach(&peer));
        htb(&*router, "c2", "100mbit");
        let ends = Ends {
            here: here.v4(9001),
            door: here.v4(9001),
            there: there.v4(9000),
        };
        bulk::transfer(web.namespace(), &peer, &ends, BYTES);
    });
}

/// On the way in the socket names the packet's container. A packet that waits on the backlog is
/// reported once it is taken from there, merged with the packets behind it.
///
/// Promise 20.
#[test]
fn tcp_through_macvlan_is_reported() {
    alone(|| {
        let scene = Macvlan::make();
        let ends = Ends::plain("10.95.0.2:9001", "10.95.0.1:9000");
        let watch = bulk::send_both_ways(scene.web.namespace(), &scene.peer, &ends, BYTES);
        bulk::assert_reported(&watch, Direction::Egress, &ends, BYTES);
    });
}
