//! Each generator moves real packets over each path, and both ends agree on their number.

// Clippy's exception for tests does not cover their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_bench::data::Path;
use cofferdam_bench::spawn::Worker;
use cofferdam_bench::topology::{Spec, Topology};
use cofferdam_bench::worker::RpcReport;
use cofferdam_lab::fixtures::{exclusive, time_limit};
use common::{LIMIT, read_until, spec, start_worker, worker_executable};

/// Runs `body` on a new network, alone on the machine, within the limit.
fn on(spec: Spec, body: impl FnOnce(&Topology) + Send + 'static) {
    worker_executable();
    let _alone = exclusive();
    time_limit(LIMIT, move || body(&Topology::build(&spec).unwrap()));
}

fn udp_flood_arrives(path: Path) {
    on(spec(path), |net| {
        let (to, port) = net.target(0);
        let mut sink = start_worker(
            &net.container(0),
            &format!("udp-sink --port {port} --flows 3"),
        );
        let mut flood = start_worker(
            &net.peer(),
            &format!("udp-flood --to {to} --port {port} --flows 3 --size 200"),
        );
        let received = read_until(&mut sink, |r| r.packets > 1_000);
        assert_eq!(received.bytes, received.packets * 200);
        let offered = flood.read().unwrap();
        assert_eq!(offered.bytes, offered.packets * 200);
        let offered = flood.end().unwrap();
        assert!(offered.packets >= sink.end().unwrap().packets);
    });
}

/// With TCP small queues it would continue sending in the receiver's softirqs.
/// Promise 46.
#[test]
fn the_peer_sends_at_its_own_cost() {
    on(spec(Path::Veth), |net| {
        let peer = net.peer().netns;
        for (name, value) in [
            ("tcp_pacing_ss_ratio", "1000"),
            ("tcp_pacing_ca_ratio", "1000"),
            ("tcp_limit_output_bytes", "1000000000"),
        ] {
            let found = peer.run(&format!("cat /proc/sys/net/ipv4/{name}"));
            assert_eq!(found.unwrap().trim(), value, "{name}");
        }
    });
}

/// Promise 46.
#[test]
fn udp_flood_over_a_veth_pair() {
    udp_flood_arrives(Path::Veth);
}

#[test]
fn udp_flood_through_a_router() {
    udp_flood_arrives(Path::Routed);
}

/// Promise 46.
#[test]
fn udp_flood_through_port_forwarding() {
    udp_flood_arrives(Path::BridgeNat);
}

#[test]
fn udp_flood_over_a_macvlan_device() {
    udp_flood_arrives(Path::Macvlan);
}

#[test]
fn udp_flood_through_a_tunnel() {
    udp_flood_arrives(Path::Vxlan);
}

/// Promise 46.
#[test]
fn a_rate_is_kept() {
    on(spec(Path::Veth), |net| {
        let (to, port) = net.target(0);
        let args = format!("udp-flood --to {to} --port {port} --flows 1 --size 64 --rate 1000");
        let mut flood = start_worker(&net.peer(), &args);
        let sent = read_until(&mut flood, |r| r.packets >= 300);
        // Never ahead of the pace; the delay depends on the machine.
        assert!(
            sent.packets as f64 <= sent.t_ns as f64 / 1e9 * 1_000.0 + 64.0,
            "{sent:?}"
        );
    });
}

#[test]
fn tcp_stream_through_port_forwarding() {
    on(spec(Path::BridgeNat), |net| {
        let (to, port) = net.target(0);
        let mut sink = start_worker(&net.container(0), &format!("tcp-sink --port {port}"));
        let stream = start_worker(
            &net.peer(),
            &format!("tcp-stream --to {to} --port {port} --flows 10 --size 65536"),
        );
        read_until(&mut sink, |r| r.bytes > 1 << 20);
        let offered = stream.end().unwrap();
        let received = sink.end().unwrap();
        assert!(received.bytes <= offered.bytes);
    });
}

/// Promise 46.
#[test]
fn a_sender_behind_htb_reaches_the_peer() {
    on(
        Spec {
            htb_gbit_per_s: Some(1.0),
            ..spec(Path::Veth)
        },
        |net| {
            let to = net.peer_address(0);
            let mut sink = start_worker(&net.peer(), "udp-sink --port 40000 --flows 3");
            let _flood = start_worker(
                &net.container(0),
                &format!("udp-flood --to {to} --port 40000 --flows 3 --size 1400"),
            );
            let early = read_until(&mut sink, |r| r.packets > 1_000);
            let late = read_until(&mut sink, |r| r.packets > early.packets + 10_000);
            // Payload alone stays below the shaped rate of frames, with a burst's allowance.
            let bits = (late.bytes - early.bytes) as f64 * 8.0;
            let allowed = 1e9 * (late.t_ns - early.t_ns) as f64 / 1e9 + 8e6;
            assert!(bits <= allowed, "{bits} > {allowed}");
        },
    );
}

/// Promise 46.
#[test]
fn a_shuffle_plays_its_trace_to_the_byte() {
    on(spec(Path::Veth), |net| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let trace = "# length_ms=600000\nstart_ms,flow,bytes\n0,0,100000\n5,1,200000\n9,0,50000\n";
        std::fs::write(file.path(), trace).unwrap();
        let (to, port) = net.target(0);
        let mut sink = start_worker(&net.container(0), &format!("tcp-sink --port {port}"));
        let shuffle = start_worker(
            &net.peer(),
            &format!(
                "shuffle --to {to} --port {port} --trace {}",
                file.path().display()
            ),
        );
        let received = read_until(&mut sink, |r| r.bytes >= 350_000);
        assert_eq!(received.bytes, 350_000);
        assert_eq!(shuffle.end().unwrap().bytes, 350_000);
    });
}

#[test]
fn the_client_gets_an_answer_to_every_request() {
    on(spec(Path::Routed), |net| {
        let (to, port) = net.target(1);
        let _server = start_worker(
            &net.container(1),
            &format!("rpc-server --port {port} --work 100"),
        );
        let ask = |net: &Topology| -> RpcReport {
            let args = format!(
                "rpc-client --to {to} --port {port} --rate 2000 --requests 400 --realtime 1"
            );
            let mut client = Worker::start(&net.peer(), &args).unwrap();
            client.go().unwrap();
            client.answer().unwrap()
        };
        let (first, second) = (ask(net), ask(net));
        assert_eq!((first.latency.requests, first.latency.lost), (400, 0));
        assert!(first.latency.p50_us <= first.latency.p99_us);
        assert_eq!(first.checksum, second.checksum);
    });
}
