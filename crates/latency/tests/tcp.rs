//! TCP: byte ranges, whole and cut.

mod common;

use cofferdam_latency::{Class, Direction};
use cofferdam_testkit::{FakeContainer, Namespace, Net, Router, htb, masquerade, traffic};
use common::{Watch, alone};
use std::collections::BTreeMap;

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
        let told = told(&watch, direction);
        let counts = watch.counts();
        assert!(
            told.bytes * 1000 >= BYTES * 999,
            "{direction:?}: {told:?} of {BYTES} bytes, {counts:?}"
        );
        // The receiver cannot know what is sent again; the sender marks it.
        if direction == Direction::Egress {
            assert_eq!(told.twice, 0, "{told:?}, {counts:?}");
        }
    }
    watch.assert_sound();
    watch
}

/// What reports say of the bulk streams.
#[derive(Debug, Default)]
struct ToldBytes {
    /// Bytes in some report.
    bytes: u64,
    /// Bytes in more than one that is not marked as sent again.
    twice: u64,
}

/// The bytes that the container sent to port 9000, or got at port 9001, by connection.
fn told(watch: &Watch, direction: Direction) -> ToldBytes {
    let port = match direction {
        Direction::Egress => 9000,
        Direction::Ingress => 9001,
    };
    let mut connections: BTreeMap<u16, Vec<(u32, u32, bool)>> = BTreeMap::new();
    for sample in watch.of(direction, Class::Tcp) {
        let r = &sample.report;
        if r.destination_port == port && r.payload_bytes > 0 {
            let ranges = connections.entry(r.source_port).or_default();
            ranges.push((r.sequence, r.payload_bytes, r.retransmit));
        }
    }
    let mut told = ToldBytes::default();
    for mut ranges in connections.into_values() {
        // Sequence numbers may wrap: counted from the first that was told.
        let first = ranges[0].0.wrapping_sub(1 << 31);
        ranges.sort_by_key(|r| r.0.wrapping_sub(first));
        let (mut end, mut end_once) = (0, 0);
        for (sequence, bytes, again) in ranges {
            let begin = u64::from(sequence.wrapping_sub(first));
            let stop = begin + u64::from(bytes);
            told.bytes += stop.saturating_sub(begin.max(end));
            end = end.max(stop);
            if !again {
                told.twice += stop.min(end_once).saturating_sub(begin);
                end_once = end_once.max(stop);
            }
        }
    }
    told
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

/// What the container's device cut, GRO on the host's end joins again.
#[test]
fn segments_merged_on_the_host_are_told_as_one() {
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

/// Merged on the host's end and cut again behind a queue: each segment is told once.
#[test]
fn segments_merged_and_cut_again_are_told_once() {
    alone(|| {
        let scene = scene();
        scene.web.offload("eth0", "tso", false);
        scene.router.offload("c1", "gro", true);
        scene.router.offload("c2", "tso", false);
        htb(&*scene.router, "c2", "200mbit");
        transfer(&scene, false);
    });
}

/// What the host's end cut, GRO on the container's device joins again.
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

/// Ports are rewritten, and several connections are on their way at once: sequence numbers and
/// acknowledgements still tell them apart.
#[test]
fn many_connections_through_address_translation_are_told_apart() {
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
        watch.settle();
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
