//! TCP: byte ranges, whole and cut.

mod common;

use cofferdam_latency::{Class, Direction};
use cofferdam_testkit::{FakeContainer, Namespace, Net, Router, htb, traffic};
use common::{Watch, alone};
use std::collections::BTreeSet;

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

/// Sends [`BYTES`] each way; every byte must be in some report.
fn transfer(scene: &Scene, v6: bool) -> Watch {
    let mut watch = Watch::on(scene.web.namespace());
    let (here, there) = match v6 {
        true => ("[fd98:1::2]:9001", "[fd98:2::2]:9000"),
        false => ("10.98.1.2:9001", "10.98.2.2:9000"),
    };
    let (here, there) = (
        here.parse().expect("an address"),
        there.parse().expect("an address"),
    );
    let sink = traffic::tcp_sink(&scene.peer, None, there);
    traffic::tcp_send(&scene.web, None, there, BYTES).finish();
    assert_eq!(sink.finish()[0], BYTES);
    watch.read();
    let sink = traffic::tcp_sink(&scene.web, None, here);
    traffic::tcp_send(&scene.peer, None, here, BYTES).finish();
    assert_eq!(sink.finish()[0], BYTES);
    watch.settle();
    for direction in Direction::ALL {
        watch.assert_nearly_covered(direction, Class::Tcp, 100);
        assert!(
            covered_bytes(&watch, direction) * 1000 >= BYTES * 999,
            "{direction:?}: {} of {BYTES} bytes",
            covered_bytes(&watch, direction)
        );
    }
    watch.assert_sound();
    watch
}

/// Bytes of the bulk stream that reports cover, each once.
fn covered_bytes(watch: &Watch, direction: Direction) -> u64 {
    let port = match direction {
        Direction::Egress => 9000,
        Direction::Ingress => 9001,
    };
    let ranges: BTreeSet<(u32, u32)> = watch
        .of(direction, Class::Tcp)
        .filter(|s| s.report.destination_port == port && !s.report.retransmit)
        .map(|s| (s.report.sequence, s.report.payload_bytes))
        .collect();
    ranges.iter().map(|(_, bytes)| u64::from(*bytes)).sum()
}

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

#[test]
fn super_packets_cut_in_the_container_are_found_again() {
    alone(|| {
        let scene = scene();
        scene.web.offload("eth0", "tso", false);
        transfer(&scene, false);
    });
}

#[test]
fn super_packets_cut_after_a_shaped_queue_are_found_again() {
    alone(|| {
        let scene = scene();
        scene.router.offload("c2", "tso", false);
        htb(&*scene.router, "c2", "200mbit");
        transfer(&scene, false);
    });
}

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
        watch.settle();
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
