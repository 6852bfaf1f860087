//! The ledger's figures against what is known: rates at a ratio. Sizes and protocols mixed and
//! alone are judged in the bench's tests, on batches that a gate makes alike.

mod common;

use cofferdam_testkit::traffic::{self, Udp};
use cofferdam_testkit::{FakeContainer, Forked};
use common::*;
use std::net::SocketAddr;

/// Rounds of each measurement: the machine is shared, and single rounds say little.
const ROUNDS: usize = 9;

/// A bound socket that nobody reads: every packet costs the same, no task is woken.
fn deaf(place: &FakeContainer, at: SocketAddr) -> Forked {
    use cofferdam_testkit::Place;
    let mut socket = place.spot().fork(Some(SENDER_CPU), move |child| {
        let _socket = std::net::UdpSocket::bind(("0.0.0.0", at.port()))?;
        child.ready(0)?;
        loop {
            std::thread::park();
        }
    });
    socket.wait_ready();
    socket
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Sends from the source to each address at its own rate at the same time, for about a
/// quarter of a second.
fn send(source: &Source, flows: &[(SocketAddr, usize, u64)]) {
    let senders: Vec<_> = flows
        .iter()
        .map(|(to, bytes, rate)| {
            let udp = Udp::to(*to)
                .bytes(*bytes)
                .rate(*rate)
                .burst(64)
                .packets(rate / 4);
            traffic::udp_send(&source.namespace, Some(SENDER_CPU), udp)
        })
        .collect();
    for sender in senders {
        sender.finish();
    }
}

#[test]
fn packet_rates_at_one_to_three_cost_one_to_three() {
    alone(180, || {
        let (one, three) = (FakeContainer::new("one"), FakeContainer::new("three"));
        let mut source = Source::new();
        let (a, b) = (
            source.join(one.namespace(), 9000),
            source.join(three.namespace(), 9000),
        );
        let _sockets = (deaf(&one, a), deaf(&three, b));
        let mut accountant = accountant();
        let mut round = || {
            let ((), interval) = during(&mut accountant, || {
                send(&source, &[(a, 200, 20_000), (b, 200, 60_000)]);
            });
            assert_conserved(&interval);
            let (one, three) = (ledger(&interval, one.id()), ledger(&interval, three.id()));
            let packets = three.rx_packets as f64 / one.rx_packets as f64;
            let cost = (three.caused_rx_ns as f64 / one.caused_rx_ns as f64) / packets;
            // A machine that pauses loses some of what was sent.
            (2.9..3.1).contains(&packets).then_some(cost)
        };
        let valid = (0..4 * ROUNDS).filter_map(|_| round()).take(ROUNDS);
        let ratios: Vec<f64> = valid.collect();
        assert_eq!(ratios.len(), ROUNDS, "the traffic is not what was asked");
        let ratio = median(ratios);
        assert!(
            (0.95..=1.05).contains(&ratio),
            "cost ratio ÷ packet ratio = {ratio:.3}"
        );
    });
}
