//! UDP from one place to another, all of it measured.

use super::Watch;
use cofferdam_lab::fixtures::Namespace;
use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_latency::{Class, Direction, Stage};
use std::net::SocketAddr;

pub const PACKETS: u64 = 500;

/// Sends [`PACKETS`] from one place to another, where they arrive at `at`.
pub fn udp(from: &Namespace, to: &Namespace, address: SocketAddr, at: SocketAddr) {
    let sink = traffic::udp_sink(to, None, at, PACKETS);
    let udp = Udp::to(address).packets(PACKETS).rate(10_000);
    traffic::udp_send(from, None, udp).finish();
    assert_eq!(sink.finish()[0], PACKETS);
}

/// Asserts that every UDP packet passed exactly these stages.
#[track_caller]
pub fn assert_stages(watch: &Watch, direction: Direction, stages: &[Stage]) {
    for sample in watch.of(direction, Class::Udp) {
        let passed: Vec<Stage> = sample.stages.parts_ns.iter().map(|(s, _)| *s).collect();
        assert_eq!(passed, stages, "{sample:?}");
    }
}
