//! Receive: packets are counted exactly, and their cost goes to the container that they are for, on
//! every path and with every protocol.

mod common;

use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{FakeContainer, Net, Router};
use cofferdam_types::Reason;
use common::*;
use std::time::Duration;

/// Returns a script of twenty pings, one after the other.
fn pings(address: &str) -> String {
    format!("for i in $(seq 20); do busybox ping -q -c 1 -W 1 {address} || exit 1; done")
}

/// Promise 3.
#[test]
fn an_idle_container_has_caused_nothing() {
    alone(60, || {
        let (idle, busy) = (FakeContainer::new("idle"), FakeContainer::new("busy"));
        let mut source = Source::new();
        let to = source.join(busy.namespace(), 9000);
        let mut accountant = accountant();
        let ((), interval) = exactly(&mut accountant, || {
            let sink = traffic::udp_sink(&busy, Some(RECEIVER_CPU), to, 5000);
            let sent = traffic::udp_send(
                &source.namespace,
                Some(SENDER_CPU),
                Udp::to(to).packets(5000),
            );
            assert_eq!((sent.finish()[0], sink.finish()[0]), (5000, 5000));
        });
        let idle = ledger(&interval, idle.id());
        assert_eq!(
            (idle.caused_ns(), idle.charged_network_ns, idle.packets()),
            (0, 0, 0)
        );
        let busy = ledger(&interval, busy.id());
        // Neighbour discovery may add a few.
        assert!((5000..5010).contains(&busy.rx_packets), "{busy:?}");
        let bytes = 5000 * (64 + 8 + 20); // payload, UDP and IP headers
        assert!((bytes..bytes + 1000).contains(&busy.rx_bytes), "{busy:?}");
        assert!(busy.caused_rx_ns > 20 * busy.caused_tx_ns, "{busy:?}");
        assert_conserved(&interval);
    });
}

/// Promise 3.
#[test]
fn a_computing_victim_pays_and_causes_nothing() {
    alone(60, || {
        let (victim, flooded) = (FakeContainer::new("victim"), FakeContainer::new("flooded"));
        let mut source = Source::new();
        let to = source.join(flooded.namespace(), 9000);
        let mut accountant = accountant();
        let ((), interval) = during(&mut accountant, || {
            let length = Duration::from_secs(2);
            let work = traffic::compute(&victim, Some(RECEIVER_CPU), length);
            let sink = traffic::udp_sink(&flooded, Some(RECEIVER_CPU), to, u64::MAX);
            traffic::udp_send(
                &source.namespace,
                Some(SENDER_CPU),
                Udp::to(to).flood(length),
            )
            .finish();
            work.finish();
            sink.finish();
        });
        let (paid, caused) = (
            ledger(&interval, victim.id()),
            ledger(&interval, flooded.id()),
        );
        assert_eq!(paid.caused_ns(), 0, "the victim sent and received nothing");
        assert!(
            paid.charged_network_ns > 0,
            "the victim's slices were taken: {paid:?}"
        );
        assert!(
            paid.owed_ns() < 0 && caused.owed_ns() > 0,
            "{paid:?} {caused:?}"
        );
        assert!(
            caused.caused_rx_ns > paid.charged_network_ns / 2,
            "{paid:?} {caused:?}"
        );
        assert_conserved(&interval);
        // On the flooded CPU the offender stands out.
        let at = |c: u64| row(&interval, c).caused_by_cpu_ns[RECEIVER_CPU];
        assert!(at(flooded.id()) * 10 > 9 * interval.cpus[RECEIVER_CPU].1.network_softirq_ns);
    });
}

/// Promise 2.
#[test]
fn every_protocol_is_the_receivers() {
    alone(90, || {
        let (web, other) = (FakeContainer::new("web"), FakeContainer::new("other"));
        let router = Router::new("router");
        let (to, _) = (
            router.attach(web.namespace()),
            router.attach(other.namespace()),
        );
        let mut accountant = accountant();
        let place = web.namespace();

        let (bytes, tcp) = during(&mut accountant, || {
            let sink = traffic::tcp_sink(&web, None, to.v4(9001));
            traffic::tcp_send(&*router, None, to.v4(9001), 4 << 20).finish();
            sink.finish()[0]
        });
        assert_eq!(bytes, 4 << 20);
        let counts = ledger(&tcp, web.id());
        assert!(counts.rx_bytes >= 4 << 20, "TCP over IPv4: {counts:?}");

        let ((), v6) = exactly(&mut accountant, || {
            let sink = traffic::udp_sink(&web, None, to.v6(9002), 2000);
            traffic::udp_send(&*router, None, Udp::to(to.v6(9002)).packets(2000)).finish();
            assert_eq!(sink.finish()[0], 2000);
        });
        let bytes = ledger(&v6, web.id()).rx_bytes;
        assert_eq!(
            bytes / 10_000,
            2000 * (64 + 8 + 40) / 10_000,
            "UDP over IPv6"
        );

        let ((), icmp) = exactly(&mut accountant, || {
            router.sh(&pings(&to.ipv4.to_string()));
        });
        assert!(ledger(&icmp, web.id()).rx_packets >= 20, "ICMP");

        let ((), lo) = exactly(&mut accountant, || {
            place.sh(&pings("127.0.0.1"));
        });
        // Request and reply both come in by loopback.
        assert!(ledger(&lo, web.id()).rx_packets >= 40, "loopback");
        for interval in [tcp, v6, icmp, lo] {
            assert!(ledger(&interval, web.id()).caused_rx_ns > 0);
            assert!(
                ledger(&interval, other.id()).rx_packets < 20,
                "only neighbour discovery"
            );
            assert_conserved(&interval);
        }
    });
}

/// Promise 2.
#[test]
fn a_namespace_of_no_container_is_named_as_such() {
    alone(60, || {
        let mut source = Source::new();
        let stranger = cofferdam_lab::fixtures::Namespace::new("stranger");
        let to = source.join(&stranger, 9000);
        let mut accountant = accountant();
        let ((), interval) = during(&mut accountant, || {
            let sink = traffic::udp_sink(&stranger, None, to, 1000);
            traffic::udp_send(&source.namespace, None, Udp::to(to).packets(1000)).finish();
            assert_eq!(sink.finish()[0], 1000);
        });
        assert!(unattributed(&interval, Reason::UnknownNamespace) > 0);
        assert_conserved(&interval);
    });
}
