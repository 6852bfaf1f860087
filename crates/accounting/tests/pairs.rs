//! Senders by receiver: for packets between two containers, the ledger names the sender.

mod common;

use cofferdam_accounting::RunningLedger;
use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{FakeContainer, Lan, Port, Router};
use cofferdam_types::{CgroupId, Interval};
use common::*;
use std::net::SocketAddr;

/// Packets that the first and the second sender send.
const SENT: [u64; 2] = [2000, 500];
/// Neighbour discovery and the like.
const FEW: u64 = 40;

/// The packets that `sender` sent to `receiver`.
fn sent_to(interval: &Interval, receiver: &FakeContainer, sender: &FakeContainer) -> u64 {
    let from = &row(interval, receiver.id()).received_from;
    from.get(&CgroupId(sender.id())).copied().unwrap_or(0)
}

fn send(from: &FakeContainer, to: &FakeContainer, at: SocketAddr, packets: u64) {
    let sink = traffic::udp_sink(to, Some(RECEIVER_CPU), at, packets);
    traffic::udp_send(from, Some(SENDER_CPU), Udp::to(at).packets(packets)).finish();
    assert_eq!(sink.finish()[0], packets);
}

/// Checks two senders and a receiver; `attach` joins a container to their network.
fn each_sender_is_named(attach: impl Fn(&FakeContainer) -> Port) {
    let web = FakeContainer::new("web");
    let senders = [FakeContainer::new("first"), FakeContainer::new("second")];
    let at = attach(&web).v4(9000);
    senders.iter().for_each(|sender| drop(attach(sender)));
    let mut accountant = accountant();
    let mut ledger = RunningLedger::open().expect("readable").expect("it runs");
    let mut seen_before = ledger.snapshot().expect("readable");
    let ((), interval) = exactly(&mut accountant, || {
        seen_before = ledger.snapshot().expect("readable");
        for (sender, packets) in senders.iter().zip(SENT) {
            send(sender, &web, at, packets);
        }
    });
    let seen = ledger.snapshot().expect("readable").since(&seen_before);
    for interval in [&interval, &seen] {
        for (sender, packets) in senders.iter().zip(SENT) {
            let counted = sent_to(interval, &web, sender);
            assert!((packets..packets + FEW).contains(&counted), "{counted}");
            assert!(sent_to(interval, sender, &web) < FEW, "what it answers");
        }
        let [first, second] = &senders;
        assert!(sent_to(interval, first, second) < FEW, "they are strangers");
    }
    assert_conserved(&interval);
}

/// Promise 3.
#[test]
fn over_a_bridge_each_sender_is_named() {
    alone(90, || {
        let lan = Lan::new("lan");
        each_sender_is_named(|container| lan.attach(container.namespace()));
    });
}

/// Promise 3.
#[test]
fn through_a_router_each_sender_is_named() {
    alone(90, || {
        let router = Router::new("router");
        each_sender_is_named(|container| router.attach(container.namespace()));
    });
}

/// Rows are reused: a container must not get the packets of the former owner.
///
/// Promise 3.
#[test]
fn a_container_does_not_inherit_the_pairs_of_its_row() {
    alone(90, || {
        let lan = Lan::new("lan");
        let web = FakeContainer::new("web");
        let at = lan.attach(web.namespace()).v4(9000);
        // One row more than there are lasting containers: each newcomer gets the same one.
        let mut accountant = accountant_with(cofferdam_accounting::Options {
            slots: 2,
            measure_programs: false,
        });
        let mut last = None;
        for (label, packets) in [("first", SENT[0]), ("second", SENT[1])] {
            let sender = FakeContainer::new(label);
            lan.attach(sender.namespace());
            follow_for_ms(&mut accountant, 200);
            let ((), interval) = exactly(&mut accountant, || send(&sender, &web, at, packets));
            let counted = sent_to(&interval, &web, &sender);
            assert!((packets..packets + FEW).contains(&counted), "{counted}");
            let whole = snapshot(&mut accountant);
            let web = whole
                .containers
                .iter()
                .find(|c| c.container.cgroup.0 == web.id());
            let from = &web.expect("it is there").received_from;
            assert!(last.is_none_or(|id| !from.contains_key(&id)), "{from:?}");
            last = Some(CgroupId(sender.id()));
            drop(sender);
            follow_for_ms(&mut accountant, 300);
        }
    });
}
