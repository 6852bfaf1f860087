//! What is measured on each path: every packet, in stages that add up.

mod common;

use cofferdam_latency::{Class, Direction};
use cofferdam_testkit::traffic::{self, Udp};
use cofferdam_testkit::{FakeContainer, Namespace, Net, Router, exclusive, time_limit};
use common::Watch;
use std::time::Duration;

#[test]
fn routed_udp_and_icmp_are_measured_both_ways() {
    let _alone = exclusive();
    time_limit(Duration::from_secs(60), || {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        let here = router.attach(&web);
        let there = router.attach(&peer);
        let mut watch = Watch::on(web.namespace());
        let sink = traffic::udp_sink(&peer, None, there.v4(9000), 500);
        traffic::udp_send(&web, None, Udp::to(there.v4(9000)).packets(500)).finish();
        assert_eq!(sink.finish()[0], 500);
        let sink = traffic::udp_sink(&web, None, here.v6(9001), 500);
        traffic::udp_send(&peer, None, Udp::to(here.v6(9001)).packets(500)).finish();
        assert_eq!(sink.finish()[0], 500);
        web.ping(&there.ipv4.to_string());
        watch.settle();
        watch.assert_covered(Direction::Egress, Class::Udp, 500);
        watch.assert_covered(Direction::Ingress, Class::Udp, 500);
        watch.assert_covered(Direction::Egress, Class::Icmp, 1);
        watch.assert_covered(Direction::Ingress, Class::Icmp, 1);
        watch.assert_sound();
    });
}
