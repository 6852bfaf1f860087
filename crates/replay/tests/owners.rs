//! Tests of the owner of a packet's work: each case that the programs' headers name, to the
//! nanosecond. The clock stands still inside the programs, so that all time comes from the test.

mod common;

use cofferdam_replay::{Machine, softirq};
use common::*;

const RX: u32 = softirq::NET_RX;

/// Runs `body` in a receive softirq and checks that all time has an owner.
fn in_receive(machine: &Machine, body: impl FnOnce()) {
    machine.softirq_entry(RX);
    body();
    machine.softirq_exit(RX);
    assert_at_rest(machine);
}

/// Promise 2.
#[test]
fn a_packet_in_a_namespace_belongs_to_its_container() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        scene.receive(scene.in_a, 700);
        scene.receive(scene.in_a, 300);
        scene.receive(scene.in_b, 450);
        machine.napi_poll();
    });
    assert_eq!(all_totals(&machine), [(A, 1_000), (B, 450)]);
    let a = machine.row_of(0, A);
    assert_eq!((a.rx_packets, a.rx_bytes, a.tx_packets), (2, 200, 0));
}

/// Promise 2.
#[test]
fn the_hosts_end_of_a_veth_names_the_sender() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        scene.receive(scene.veth_a, 900);
        machine.napi_poll();
    });
    assert_eq!(caused(&machine, A), (0, 900, 0));
    let a = machine.row_of(0, A);
    assert_eq!((a.tx_packets, a.tx_bytes, a.rx_packets), (1, 100, 0));
}

#[test]
fn segments_merged_by_gro_count_as_packets() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        let merged = scene.packet_with(scene.in_a, |p| (p.bytes, p.segments) = (14_000, 10));
        machine.netif_receive_skb(merged);
        machine.pass(800);
        machine.napi_poll();
    });
    let a = machine.row_of(0, A);
    assert_eq!((a.rx_ns, a.rx_packets, a.rx_bytes), (800, 10, 14_000));
}

/// From the card over a bridge to the container's veth, all work belongs to the receiver, and the
/// packet is counted where the container receives it.
/// Promise 2.
#[test]
fn a_pending_packet_belongs_to_its_receiver() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        scene.receive(scene.card, 500);
        machine.net_dev_queue(scene.packet(scene.bridge));
        machine.pass(200);
        machine.net_dev_queue(scene.packet(scene.veth_a));
        machine.pass(100);
        machine.napi_poll();
        // The backlog passes it on.
        scene.receive(scene.in_a, 400);
        machine.napi_poll();
    });
    assert_eq!(all_totals(&machine), [(A, 1_200)]);
    assert_eq!(machine.row_of(0, A).rx_packets, 1);
}

/// Promise 2.
#[test]
fn an_undelivered_packet_is_forwarded_or_the_hosts() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        scene.receive(scene.card, 500);
        machine.net_dev_queue(scene.packet(scene.bridge));
        machine.pass(300);
        scene.receive(scene.card, 150);
        scene.receive(scene.stranger, 50);
        machine.napi_poll();
    });
    let expected = [
        (HOST_TRAFFIC, 150),
        (FORWARDING, 800),
        (UNKNOWN_NAMESPACE, 50),
    ];
    assert_eq!(all_totals(&machine), expected);
    assert!(
        machine.events() > 0,
        "the namespace is reported to the agent"
    );
}

/// Promise 2.
#[test]
fn a_pending_packet_belongs_to_the_receiving_socket() {
    type Delivery = fn(&Machine, &Scene<'_>, u32);
    let ways: [Delivery; 3] = [
        |machine, scene, row| machine.sk_data_ready(scene.socket_of(row)),
        |machine, scene, row| machine.tcp_probe(scene.socket_of(row)),
        |machine, scene, row| machine.udp_fail_queue_rcv_skb(scene.socket_of(row)),
    ];
    for settle in ways {
        let machine = Machine::new(1);
        let scene = Scene::new(&machine);
        in_receive(&machine, || {
            scene.receive(scene.card, 500);
            settle(&machine, &scene, E);
            machine.pass(80);
            // The owner is known already: another socket's wake-up changes nothing.
            settle(&machine, &scene, A);
            machine.pass(20);
            machine.napi_poll();
        });
        assert_eq!(all_totals(&machine), [(E, 600)]);
        assert_eq!(machine.row_of(0, E).rx_packets, 1);
    }
}

/// Promise 2.
#[test]
fn the_sockets_cgroup_decides_in_a_shared_namespace() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        scene.receive(scene.shared, 100);
        machine.sk_data_ready(scene.socket_of(C));
        machine.pass(10);
        scene.receive(scene.shared, 200);
        machine.sk_data_ready(scene.socket_of(D));
        machine.pass(20);
        // No socket receives it: the first container of the namespace stands for it.
        scene.receive(scene.shared, 400);
        machine.napi_poll();
    });
    assert_eq!(all_totals(&machine), [(C, 510), (D, 220)]);
}

/// Promise 2.
#[test]
fn the_incoming_interface_names_the_sender() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        let through = scene.packet_with(scene.bridge, |p| p.iif = VETH_B);
        machine.netif_receive_skb(through);
        machine.pass(330);
        machine.napi_poll();
    });
    assert_eq!(caused(&machine, B), (0, 330, 0));
}

/// The programs cache the answer between packets, and look again once the agent has changed it.
/// Promise 2.
#[test]
fn an_incoming_interface_names_its_new_owner_at_once() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        for (row, ns) in [(B, 330), (B, 20), (A, 500)] {
            machine.set_link(Machine::HOST_NETNS, VETH_B, row);
            let through = scene.packet_with(scene.bridge, |p| p.iif = VETH_B);
            machine.netif_receive_skb(through);
            machine.pass(ns);
        }
        machine.napi_poll();
    });
    assert_eq!(caused(&machine, B), (0, 350, 0));
    assert_eq!(caused(&machine, A), (0, 500, 0));
}

/// Promise 2.
#[test]
fn an_interface_has_its_new_owner_at_once() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        scene.receive(scene.in_a, 100);
        machine.set_netns(21, B, false);
        scene.receive(scene.in_a, 250);
        machine.napi_poll();
    });
    assert_eq!(all_totals(&machine), [(A, 100), (B, 250)]);
}

/// A receive softirq drains a qdisc in the middle of A's packet. B's packets belong to B, and the
/// time after them to A again.
/// Promise 2.
#[test]
fn a_detour_through_a_qdisc_belongs_to_its_sender() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        scene.receive(scene.in_a, 100);
        let theirs = scene.packet_with(scene.card, |p| p.socket = Some(scene.socket_of(B)));
        machine.qdisc_dequeue(Some(theirs));
        machine.pass(70);
        let own = scene.packet_with(scene.card, |p| p.socket = Some(scene.socket_of(A)));
        machine.qdisc_dequeue(Some(own));
        machine.pass(30);
        machine.qdisc_dequeue(Some(theirs));
        machine.pass(7);
        machine.qdisc_dequeue(None);
        machine.pass(200);
        scene.receive(scene.in_a, 1_000);
        machine.napi_poll();
    });
    assert_eq!(caused(&machine, B), (0, 77, 0));
    assert_eq!(caused(&machine, A), (1_300, 30, 0));
    assert_eq!(machine.row_of(0, A).rx_packets, 2);
}

/// A process of C sends, and its system call dequeues A's packets first.
/// Promise 2.
#[test]
fn a_drain_of_another_containers_packets_is_charged_there() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    let of = |row| scene.packet_with(scene.card, |p| p.socket = Some(scene.socket_of(row)));
    machine.run_as(cgroup_of(C));
    machine.qdisc_dequeue(Some(of(C)));
    machine.pass(1_000);
    machine.qdisc_dequeue(Some(of(A)));
    machine.pass(60);
    machine.qdisc_dequeue(Some(of(B)));
    machine.pass(40);
    machine.hardirq(500, false);
    machine.qdisc_dequeue(Some(of(C)));
    machine.pass(1_000);
    machine.qdisc_dequeue(None);
    assert_at_rest(&machine);
    assert_eq!(
        all_totals(&machine),
        [(OTHER_HARDIRQ, 500), (A, 60), (B, 40)]
    );
    assert_eq!(machine.row_of(0, A).tx_packets, 1);
    assert_eq!(reading(&machine, 0).time.drain_ns, 100);
    let c = machine.row_of(0, C);
    assert_eq!((c.charged_network_ns, c.charged_other_ns), (100, 500));
}

/// The device is full in the middle of a drain: no dequeue marks its end. A softirq or another task
/// does, and the time until then is in both sums.
/// Promise 2.
#[test]
fn an_abandoned_drain_ends_with_a_softirq_or_task() {
    for by_softirq in [true, false] {
        let machine = Machine::new(1);
        let scene = Scene::new(&machine);
        machine.run_as(cgroup_of(C));
        let theirs = scene.packet_with(scene.card, |p| p.socket = Some(scene.socket_of(A)));
        machine.qdisc_dequeue(Some(theirs));
        machine.pass(60);
        if by_softirq {
            machine.softirq(softirq::TIMER, 5);
        } else {
            machine.sched_switch(scene.task, scene.task);
        }
        machine.pass(10_000);
        assert_at_rest(&machine);
        assert_eq!(total(&machine, A), 60);
        assert_eq!(reading(&machine, 0).time.drain_ns, 60);
    }
}

/// Promise 2.
#[test]
fn the_transmit_softirq_is_shared_by_its_packets() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    let list = |row, next| {
        scene.packet_with(scene.card, |p| {
            p.socket = Some(scene.socket_of(row));
            p.next = next;
        })
    };
    machine.softirq_entry(softirq::NET_TX);
    machine.pass(100);
    machine.qdisc_dequeue(Some(list(A, Some(list(A, Some(list(B, None)))))));
    machine.pass(100);
    machine.qdisc_dequeue(None);
    machine.pass(11);
    machine.softirq_exit(softirq::NET_TX);
    assert_at_rest(&machine);
    // 211 ns for three packets: 140 ns for two, and the last gets the rounding.
    assert_eq!(caused(&machine, A), (0, 140, 0));
    assert_eq!(caused(&machine, B), (0, 71, 0));
    assert_eq!(machine.row_of(0, A).tx_packets, 2);
}

/// Promise 2.
#[test]
fn a_softirq_without_packets_counts_for_its_reason() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.run_as(cgroup_of(D));
    machine.softirq(softirq::TIMER, 40);
    machine.softirq_entry(softirq::TASKLET);
    machine.pass(30);
    let sent = scene.packet_with(scene.in_a, |p| p.socket = Some(scene.socket_of(A)));
    machine.net_dev_queue(sent);
    machine.pass(500);
    machine.softirq_exit(softirq::TASKLET);
    machine.softirq_entry(RX);
    machine.pass(9);
    machine.softirq_exit(RX);
    assert_at_rest(&machine);
    assert_eq!(
        all_totals(&machine),
        [
            (NO_PACKET, 9),
            (SOFTIRQ_TIMER, 40),
            (SOFTIRQ_TASKLET, 30),
            (A, 500)
        ]
    );
    assert_eq!(caused(&machine, A), (0, 500, 0));
    // The interrupted task is charged, for network work and for other work separately.
    let d = machine.row_of(0, D);
    assert_eq!((d.charged_network_ns, d.charged_other_ns), (509, 70));
}

/// With RPS, the sender's own receive softirq only wakes the other CPU: it is part of the transmit
/// that raised it.
/// Promise 2.
#[test]
fn an_empty_receive_softirq_belongs_to_its_raiser() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.net_dev_queue(scene.packet(scene.in_a));
    in_receive(&machine, || machine.pass(120));
    assert_eq!(caused(&machine, A), (0, 120, 0));
    // The host sends to a container.
    machine.net_dev_queue(scene.packet(scene.veth_b));
    in_receive(&machine, || machine.pass(90));
    assert_eq!(caused(&machine, B), (90, 0, 0));
    in_receive(&machine, || machine.pass(50));
    assert_eq!(total(&machine, NO_PACKET), 50);
}

/// A's answers are passed to another CPU while B is the last in the poll. The wake-up after the
/// poll belongs to A, and is not shared.
/// Promise 2.
#[test]
fn a_wakeup_belongs_to_the_owner_of_the_packets() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        scene.receive(scene.in_a, 100);
        machine.net_dev_queue(scene.packet(scene.in_a));
        machine.pass(20);
        scene.receive(scene.in_b, 200);
        machine.napi_poll();
        machine.csd_queue_cpu(false);
        machine.csd_queue_cpu(true);
        machine.pass(3_000);
    });
    assert_eq!(all_totals(&machine), [(A, 3_120), (B, 200)]);
    // No packet was passed on since: the time after a poll belongs to its packets.
    in_receive(&machine, || {
        scene.receive(scene.in_a, 100);
        machine.napi_poll();
        machine.csd_queue_cpu(true);
        machine.pass(400);
    });
    assert_eq!(all_totals(&machine), [(A, 3_620), (B, 200)]);
}

/// Promise 2.
#[test]
fn a_napi_threads_time_belongs_to_its_packets() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.sched_switch(scene.task, scene.napi);
    machine.pass(10);
    scene.receive(scene.in_a, 100);
    machine.napi_poll();
    machine.pass(5);
    machine.hardirq(1_000, false);
    machine.softirq(softirq::TIMER, 30);
    machine.pass(7);
    scene.receive(scene.in_b, 200);
    machine.napi_poll();
    machine.pass(3);
    machine.sched_switch(scene.napi, scene.task);
    machine.pass(10_000);
    assert_at_rest(&machine);
    assert_eq!(
        all_totals(&machine),
        [
            (OTHER_HARDIRQ, 1_000),
            (SOFTIRQ_TIMER, 30),
            (A, 115),
            (B, 210)
        ]
    );
    assert_eq!(reading(&machine, 0).time.napi_thread_ns, 325);
}

/// Promise 2.
#[test]
fn a_network_interrupt_belongs_to_its_packets() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.run_as(cgroup_of(C));
    machine.hardirq(90, true);
    machine.hardirq(25, false);
    assert_balanced(&machine);
    in_receive(&machine, || {
        scene.receive(scene.in_a, 100);
        scene.receive(scene.in_a, 100);
        // The interrupt comes in the middle of A's packet: A's time does not grow by it.
        machine.hardirq(70, false);
        scene.receive(scene.in_b, 100);
        machine.napi_poll();
    });
    assert_eq!(caused(&machine, A), (200, 0, 60));
    assert_eq!(caused(&machine, B), (100, 0, 30));
    assert_eq!(total(&machine, OTHER_HARDIRQ), 95);
    let c = machine.row_of(0, C);
    assert_eq!((c.charged_network_ns, c.charged_other_ns), (390, 95));
}

/// The kernel skips the marker of a softirq's end while it is busy with the same program. The
/// segments cut before stay counted, and no later time is attributed to the softirq.
/// Promise 2.
#[test]
fn a_softirq_without_an_end_keeps_its_segments() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.softirq_entry(RX);
    machine.pass(10);
    scene.receive(scene.in_a, 100);
    scene.receive(scene.in_b, 200);
    machine.pass(50_000);
    in_receive(&machine, || {
        scene.receive(scene.in_b, 30);
        machine.napi_poll();
    });
    // Both share the head of 10 ns; B's open segment has no known end.
    assert_eq!(all_totals(&machine), [(A, 105), (B, 35)]);
    assert_eq!(machine.row_of(0, B).rx_packets, 2);
}

/// CPUs are independent.
#[test]
fn each_cpu_has_a_clock_and_rows_of_its_own() {
    let machine = Machine::new(2);
    let scene = Scene::new(&machine);
    machine.softirq_entry(RX);
    scene.receive(scene.in_a, 100);
    machine.on(1);
    machine.softirq_entry(RX);
    scene.receive(scene.in_b, 40);
    machine.softirq_exit(RX);
    machine.on(0);
    machine.softirq_exit(RX);
    assert_at_rest(&machine);
    assert_eq!(machine.row_of(0, A).rx_ns, 140);
    assert_eq!(machine.row_of(1, B).rx_ns, 40);
    assert_eq!(all_totals(&machine), [(A, 140), (B, 40)]);
}
