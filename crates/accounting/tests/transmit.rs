//! Transmit: packets that a softirq or another task's system call sends count for their sender.

mod common;

use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{FakeContainer, Net, Router, htb, wait_until};
use cofferdam_types::Interval;
use common::*;
use std::time::Duration;

/// Promise 2.
#[test]
fn a_sender_behind_htb_pays_for_its_softirq_transmits() {
    alone(90, || {
        let (sender, idle) = (FakeContainer::new("sender"), FakeContainer::new("idle"));
        let router = Router::new("router");
        router.attach(&sender);
        router.attach(&idle);
        htb(sender.namespace(), "eth0", "20mbit");
        let mut accountant = accountant();
        let ((), interval) = during(&mut accountant, || {
            let to = "10.98.1.1:9000".parse().expect("an address");
            let udp = Udp::to(to).bytes(1000).packets(2500).rate(20_000);
            traffic::udp_send(&sender, Some(SENDER_CPU), udp).finish();
            wait_for_empty_queue(sender.namespace(), "eth0");
        });
        let (sender, idle) = (ledger(&interval, sender.id()), ledger(&interval, idle.id()));
        assert!(
            sender.caused_tx_ns > 0,
            "HTB's watchdog sends in softirq: {sender:?}"
        );
        assert!(sender.tx_packets > 1000, "{sender:?}");
        // Neighbour discovery at most.
        assert!(
            idle.caused_tx_ns * 50 < sender.caused_tx_ns,
            "{idle:?} {sender:?}"
        );
        assert_conserved(&interval);
    });
}

/// Waits until the queueing discipline of `device` is empty, without following the accounting.
fn wait_for_empty_queue(net: &dyn Net, device: &str) {
    let is_empty = || {
        let queue = net.run(&format!("tc -s qdisc show dev {device}"));
        assert!(queue.contains("backlog"), "{queue}");
        queue
            .lines()
            .filter(|line| line.contains("backlog"))
            .all(|line| line.contains("backlog 0b 0p"))
    };
    wait_until("the queue to empty", Duration::from_secs(30), is_empty);
}

/// Promise 2.
#[test]
fn two_senders_of_a_shaped_uplink_each_pay_their_own() {
    alone(120, || {
        // Both containers' packets pass the router's uplink, which shapes them together: mostly
        // another task or softirq than the sender's dequeues them.
        let (little, much) = (FakeContainer::new("little"), FakeContainer::new("much"));
        let sink = cofferdam_lab::fixtures::Namespace::new("sink");
        let router = Router::new("router");
        router.attach(&little);
        router.attach(&much);
        let to = router.attach(&sink).v4(9000);
        htb(&*router, "c3", "100mbit");
        let mut accountant = accountant();
        let ((), interval) = during(&mut accountant, || {
            let udp = Udp::to(to).bytes(500).rate(4_000);
            let a = traffic::udp_send(&little, Some(SENDER_CPU), udp.packets(2_000));
            let b = traffic::udp_send(&much, Some(SENDER_CPU), udp.rate(16_000).packets(8_000));
            a.finish();
            b.finish();
            wait_for_empty_queue(&*router, "c3");
        });
        let (few, many) = (tx(&interval, little.id()), tx(&interval, much.id()));
        assert!(few.0 > 1_000 && many.0 > 4_000, "{few:?} {many:?}");
        let (packets, cost) = (many.0 as f64 / few.0 as f64, many.1 as f64 / few.1 as f64);
        // One container transmits more, and pays more in the same ratio: never the other's bill.
        assert!(
            cost > packets * 0.6 && cost < packets * 1.6,
            "packets ×{packets:.2}, cost ×{cost:.2}"
        );
        assert_conserved(&interval);
    });
}

fn tx(interval: &Interval, id: u64) -> (u64, u64) {
    let ledger = ledger(interval, id);
    (ledger.tx_packets, ledger.caused_tx_ns)
}
