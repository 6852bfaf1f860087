//! Packet limits: packets of a container in debt are dropped where they enter, a neighbour's never.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_bpf::{Bucket, DropPrograms, Entry, attach_drop};
use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{FakeContainer, Namespace, Net, Router, VethPair, port_forward};
use cofferdam_types::IfIndex;
use common::*;
use std::fs::File;
use std::time::Duration;

/// A peer behind a router that forwards to two containers, by address and by port.
struct Scene {
    debtor: FakeContainer,
    neighbour: FakeContainer,
    router: Router,
    peer: Namespace,
    /// The host's ends of the debtor's and of the neighbour's interface.
    ends: [String; 2],
    _uplink: VethPair,
}

impl Scene {
    fn new() -> Scene {
        let (debtor, neighbour) = (FakeContainer::new("debtor"), FakeContainer::new("other"));
        let router = Router::new("router");
        let to = [router.attach(&debtor), router.attach(&neighbour)];
        let peer = Namespace::new("peer");
        let uplink = VethPair::new((&peer, "p0"), (&*router, "up0"));
        peer.address("p0", "10.97.0.1/24");
        router.address("up0", "10.97.0.2/24");
        peer.route("default via 10.97.0.2");
        peer.ping(&to[0].ipv4.to_string());
        peer.ping(&to[1].ipv4.to_string());
        port_forward(&*router, "udp", 7001, &to[0].v4(9000).to_string());
        port_forward(&*router, "udp", 7002, &to[1].v4(9000).to_string());
        Scene {
            debtor,
            neighbour,
            router,
            peer,
            ends: to.map(|port| port.device),
            _uplink: uplink,
        }
    }

    /// Numbers of packets that the peer receives of `packets` sent by each container.
    fn answer(&self, packets: u64) -> (u64, u64) {
        let send = |container: &FakeContainer, port: u16| {
            let at = format!("10.97.0.1:{port}").parse().expect("an address");
            let sink = traffic::udp_sink(&self.peer, None, at, packets);
            for _ in 0..packets / 50 {
                traffic::udp_send(container, None, Udp::to(at).packets(50)).finish();
                std::thread::sleep(Duration::from_millis(1));
            }
            sink
        };
        let (debtor, neighbour) = (send(&self.debtor, 9001), send(&self.neighbour, 9002));
        (debtor.finish()[0], neighbour.finish()[0])
    }

    /// Numbers of packets received of `packets` sent to each container, at addresses or at
    /// forwarded ports.
    fn send(&self, packets: u64, forwarded: bool) -> (u64, u64) {
        let receive = |container: &FakeContainer, own: &str, port: u16| {
            let at = format!("{own}:9000").parse().expect("an address");
            let sink = traffic::udp_sink(container, None, at, packets);
            let to = if forwarded {
                format!("10.97.0.2:{port}").parse().expect("an address")
            } else {
                at
            };
            // Pauses keep the queues on the path from overflowing.
            for _ in 0..packets / 50 {
                traffic::udp_send(&self.peer, None, Udp::to(to).packets(50)).finish();
                std::thread::sleep(Duration::from_millis(1));
            }
            sink
        };
        let debtor = receive(&self.debtor, "10.98.1.2", 7001);
        let neighbour = receive(&self.neighbour, "10.98.2.2", 7002);
        (debtor.finish()[0], neighbour.finish()[0])
    }
}

/// Promise 32.
#[test]
fn only_a_debtors_packets_are_dropped() {
    alone(120, || {
        let scene = Scene::new();
        let programs = DropPrograms::load().unwrap();
        programs
            .set_address("10.98.1.2".parse().unwrap(), 3)
            .unwrap();
        let in_debt = Bucket {
            rate_ns_per_s: 1000,
            rx_cost_ns: 1000,
            tx_cost_ns: 1000,
            burst_ns: 1000,
        };
        programs.set_bucket(3, in_debt).unwrap();
        let up0 = IfIndex(scene.router.ifindex("up0"));
        let file = File::open(format!("/run/netns/{}", scene.router.name())).unwrap();
        for entry in [Entry::Native, Entry::Tc, Entry::Generic] {
            let descriptors = programs.programs();
            let link = cofferdam_host::in_namespace(&file, || attach_drop(descriptors, up0, entry));
            let link = link.unwrap().unwrap();
            for forwarded in [false, true] {
                let dropped = programs.counts(3).rx_dropped;
                let (debtor, neighbour) = scene.send(200, forwarded);
                let what = format!("{entry:?}, forwarded by port: {forwarded}");
                assert_eq!(neighbour, 200, "{what}");
                // A forwarded connection is known from its second packet on, and each of the four
                // rounds is one connection.
                assert!(debtor <= 10, "{debtor} arrived; {what}");
                assert!(programs.counts(3).rx_dropped >= dropped + 190, "{what}");
            }
            drop(link);
        }
        let (debtor, _) = scene.send(200, false);
        assert_eq!(
            debtor, 200,
            "nothing is dropped once the program is detached"
        );
    });
}

/// Promise 32.
#[test]
fn only_a_debtors_sent_packets_are_dropped() {
    alone(120, || {
        let scene = Scene::new();
        let programs = DropPrograms::load().unwrap();
        let file = File::open(format!("/run/netns/{}", scene.router.name())).unwrap();
        let end = |index: usize| IfIndex(scene.router.ifindex(&scene.ends[index]));
        programs.set_device(end(0), 5).unwrap();
        let in_debt = Bucket {
            rate_ns_per_s: 1000,
            rx_cost_ns: 1000,
            tx_cost_ns: 1000,
            burst_ns: 1000,
        };
        programs.set_bucket(5, in_debt).unwrap();
        let descriptors = programs.programs();
        // The program is also on the neighbour's end, where it lets the packets pass.
        let links: Vec<_> = [end(0), end(1)]
            .into_iter()
            .map(|device| {
                let attach = || attach_drop(descriptors, device, Entry::Sent);
                cofferdam_host::in_namespace(&file, attach)
                    .unwrap()
                    .unwrap()
            })
            .collect();
        let (debtor, neighbour) = scene.answer(200);
        assert_eq!(neighbour, 200);
        assert!(debtor <= 10, "{debtor} arrived");
        assert!(programs.counts(5).tx_dropped >= 190);
        assert_eq!(programs.counts(5).rx_dropped, 0);
        drop(links);
        assert_eq!(scene.answer(200).0, 200, "nothing is dropped any more");
    });
}

/// Number of TCP's retransmission timeouts in a namespace.
fn timeouts(net: &Namespace) -> u64 {
    let text = net.run("cat /proc/net/netstat");
    let mut lines = text.lines().filter_map(|l| l.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = pairs.find(|(name, _)| *name == "TCPTimeouts").unwrap();
    value.parse().unwrap()
}

/// A sender that is silent for its timeout after each burst would have one timeout for every few
/// hundred segments.
/// Promise 34.
#[test]
fn tcp_slows_down_under_a_limit_without_timeouts() {
    alone(120, || {
        let scene = Scene::new();
        scene.peer.sysctl("net/ipv4/tcp_congestion_control", "reno");
        // One segment is one packet, as from a wire.
        for (net, device) in [(&scene.peer, "p0"), (&*scene.router, "up0")] {
            for feature in ["tso", "gso", "gro"] {
                net.offload(device, feature, false);
            }
        }
        let programs = DropPrograms::load().unwrap();
        programs
            .set_address("10.98.1.2".parse().unwrap(), 3)
            .unwrap();
        let up0 = IfIndex(scene.router.ifindex("up0"));
        let file = File::open(format!("/run/netns/{}", scene.router.name())).unwrap();
        let descriptors = programs.programs();
        let attach = || attach_drop(descriptors, up0, Entry::Native);
        let _link = cofferdam_host::in_namespace(&file, attach)
            .unwrap()
            .unwrap();
        // A budget of 40,000 segments a second, with a burst of 100 ms.
        let limit = Bucket {
            rate_ns_per_s: 400_000_000,
            rx_cost_ns: 10_000,
            tx_cost_ns: 10_000,
            burst_ns: 40_000_000,
        };
        programs.set_bucket(3, limit).unwrap();
        let at = "10.98.1.2:9000".parse().expect("an address");
        let (before, bytes) = (timeouts(&scene.peer), 160_000_000);
        let sink = traffic::tcp_sink(&scene.debtor, None, at);
        traffic::tcp_send(&scene.peer, None, at, bytes).finish();
        assert_eq!(sink.finish()[0], bytes);
        let counts = programs.counts(3);
        let timeouts = timeouts(&scene.peer) - before;
        let facts = format!("{timeouts} timeouts, {counts:?}");
        println!("{facts}");
        assert!(counts.rx_dropped > 0, "{facts}");
        assert!(counts.rx_dropped * 5 < counts.rx_passed, "{facts}");
        assert!(timeouts < counts.rx_passed / 1_000, "{facts}");
    });
}
