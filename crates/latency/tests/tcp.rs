//! TCP: byte ranges, whole and cut.

mod common;

use cofferdam_lab::fixtures::{FakeContainer, Namespace, Net, Router, htb, masquerade, traffic};
use cofferdam_latency::{Class, Direction};
use common::bulk::{self, Ends};
use common::{Watch, alone};

const BYTES: u64 = 4 << 20;

struct Scene {
    web: FakeContainer,
    peer: Namespace,
    router: Router,
}

fn scene() -> Scene {
    let scene = Scene {
        web: FakeContainer::new("web"),
        peer: Namespace::new("peer"),
        router: Router::new("router"),
    };
    scene.router.attach(&scene.web);
    scene.router.attach(&scene.peer);
    scene
}

/// Sends [`BYTES`] each way; every byte must be in a report.
fn transfer(scene: &Scene, v6: bool) -> Watch {
    let (here, there) = match v6 {
        true => ("[fd98:1::2]:9001", "[fd98:2::2]:9000"),
        false => ("10.98.1.2:9001", "10.98.2.2:9000"),
    };
    let ends = Ends::plain(here, there);
    bulk::transfer(scene.web.namespace(), &scene.peer, &ends, BYTES)
}

/// Promise 20.
#[test]
fn super_packets_stay_whole() {
    alone(|| {
        let scene = scene();
        let watch = transfer(&scene, false);
        let largest = |d| watch.of(d, Class::Tcp).map(|s| s.report.segments).max();
        assert!(largest(Direction::Egress) > Some(1));
        drop(watch);
        transfer(&scene, true);
    });
}

/// Promise 20.
#[test]
fn super_packets_cut_on_the_host_are_found_again() {
    alone(|| {
        let scene = scene();
        scene.router.offload("c2", "tso", false);
        scene.router.offload("c2", "gso", false);
        scene.router.offload("c1", "tso", false);
        let watch = transfer(&scene, false);
        let bulk = watch.of(Direction::Egress, Class::Tcp);
        let cut = bulk.filter(|s| s.report.payload_bytes > 1000);
        let segments: Vec<u16> = cut.map(|s| s.report.segments).collect();
        assert!(segments.len() > 1000 && segments.iter().all(|s| *s == 1));
    });
}

/// Promise 20.
#[test]
fn super_packets_cut_in_the_container_are_found_again() {
    alone(|| {
        let scene = scene();
        scene.web.offload("eth0", "tso", false);
        transfer(&scene, false);
    });
}

/// Promise 20.
#[test]
fn super_packets_cut_after_a_shaped_queue_are_found_again() {
    alone(|| {
        let scene = scene();
        scene.router.offload("c2", "tso", false);
        htb(&*scene.router, "c2", "200mbit");
        transfer(&scene, false);
    });
}

/// Promise 20.
#[test]
fn what_is_sent_again_is_marked() {
    alone(|| {
        let scene = scene();
        scene.router.run("nft add table ip loss");
        scene.router.sh(
            "nft 'add chain ip loss f { type filter hook forward priority 0 ; }'
             nft 'add rule ip loss f ip saddr 10.98.1.2 tcp dport 9000 numgen inc mod 50 1 drop'",
        );
        let mut watch = Watch::on(scene.web.namespace());
        let to = "10.98.2.2:9000".parse().expect("an address");
        let sink = traffic::tcp_sink(&scene.peer, None, to);
        traffic::tcp_send(&scene.web, None, to, BYTES).finish();
        assert_eq!(sink.finish()[0], BYTES);
        watch.read_all();
        let again = watch
            .of(Direction::Egress, Class::Tcp)
            .filter(|s| s.report.retransmit)
            .count();
        assert!(again > 0, "{:?}", watch.counts());
        let dropped = watch.counts().misses[0][0];
        assert!(dropped > 0, "{:?}", watch.counts());
        watch.assert_sound();
    });
}

/// The container's device cuts, and GRO on the host's end merges.
///
/// Promise 20.
#[test]
fn segments_merged_on_the_host_are_reported_as_one() {
    alone(|| {
        let scene = scene();
        scene.web.offload("eth0", "tso", false);
        scene.router.offload("c1", "gro", true);
        let watch = transfer(&scene, false);
        let merged = watch
            .of(Direction::Egress, Class::Tcp)
            .filter(|s| s.report.merged);
        let segments: Vec<u16> = merged.map(|s| s.report.segments).collect();
        assert!(
            segments.len() > 10 && segments.iter().all(|s| *s > 1),
            "{segments:?}"
        );
    });
}

/// Segments are merged on the host's end and cut again behind a queue: each is reported once.
///
/// Promise 20.
#[test]
fn segments_merged_and_cut_again_are_reported_once() {
    alone(|| {
        let scene = scene();
        scene.web.offload("eth0", "tso", false);
        scene.router.offload("c1", "gro", true);
        scene.router.offload("c2", "tso", false);
        htb(&*scene.router, "c2", "200mbit");
        transfer(&scene, false);
    });
}

/// The host's end cuts, and GRO on the container's device merges.
///
/// Promise 20.
#[test]
fn segments_merged_in_the_container_arrive_as_one() {
    alone(|| {
        let scene = scene();
        scene.router.offload("c1", "tso", false);
        scene.web.offload("eth0", "gro", true);
        let watch = transfer(&scene, false);
        let arrived = watch.of(Direction::Ingress, Class::Tcp);
        assert!(arrived.map(|s| s.report.segments).max() > Some(1));
    });
}

/// Ports are rewritten, and several connections are in flight at once: sequence numbers and
/// acknowledgements distinguish them.
///
/// Promise 20.
#[test]
fn many_connections_through_address_translation_are_distinguished() {
    alone(|| {
        let scene = scene();
        masquerade(&*scene.router, "c2");
        scene.router.offload("c2", "tso", false);
        let mut watch = Watch::on(scene.web.namespace());
        const EACH: u64 = 1 << 20;
        let sinks: Vec<_> = (0..6)
            .map(|i| {
                let at = std::net::SocketAddr::from(([10, 98, 2, 2], 9100 + i));
                let sink = traffic::tcp_sink(&scene.peer, None, at);
                (sink, traffic::tcp_send(&scene.web, None, at, EACH))
            })
            .collect();
        for (sink, sender) in sinks {
            sender.finish();
            assert_eq!(sink.finish()[0], EACH);
        }
        watch.read_all();
        watch.assert_nearly_covered(Direction::Egress, Class::Tcp, 1000);
        watch.assert_sound();
        for port in 9100..9106 {
            let of = watch.of(Direction::Egress, Class::Tcp);
            let sent = of.filter(|s| s.report.destination_port == port && !s.report.retransmit);
            let bytes: u64 = sent.map(|s| u64::from(s.report.payload_bytes)).sum();
            assert!(
                bytes * 1000 >= EACH * 999 && bytes <= EACH,
                "{port}: {bytes}"
            );
        }
    });
}
