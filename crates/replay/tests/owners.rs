//! Whose is a packet's work? Each case that the programs' headers name, to the nanosecond: the
//! clock stands still inside the programs, so that all time is the test's own.

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
fn inside_a_namespace_the_packet_is_the_containers() {
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
fn on_the_hosts_end_of_a_veth_the_container_is_sending() {
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
fn segments_that_gro_has_merged_count_as_packets() {
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

/// From the card over a bridge to the container's veth: all of it is the receiver's, and the
/// packet is counted where the container takes it.
/// Promise 2.
#[test]
fn a_pending_packet_is_its_receivers_with_the_hosts_stage() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        scene.receive(scene.card, 500);
        machine.net_dev_queue(scene.packet(scene.bridge));
        machine.pass(200);
        machine.net_dev_queue(scene.packet(scene.veth_a));
        machine.pass(100);
        machine.napi_poll();
        // The backlog hands it over.
        scene.receive(scene.in_a, 400);
        machine.napi_poll();
    });
    assert_eq!(all_totals(&machine), [(A, 1_200)]);
    assert_eq!(machine.row_of(0, A).rx_packets, 1);
}

/// Promise 2.
#[test]
fn a_pending_packet_that_no_container_gets_is_forwarded_or_the_hosts() {
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
    assert!(machine.events() > 0, "the agent is told of the namespace");
}

/// Promise 2.
#[test]
fn a_pending_packet_is_the_sockets_that_takes_it() {
    type Settle = fn(&Machine, &Scene<'_>, u32);
    let ways: [Settle; 3] = [
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
            // Already told: another socket's wake-up changes nothing.
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
fn in_a_shared_namespace_the_sockets_cgroup_decides() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    in_receive(&machine, || {
        scene.receive(scene.shared, 100);
        machine.sk_data_ready(scene.socket_of(C));
        machine.pass(10);
        scene.receive(scene.shared, 200);
        machine.sk_data_ready(scene.socket_of(D));
        machine.pass(20);
        // No socket takes it: the first container of the namespace stands for it.
        scene.receive(scene.shared, 400);
        machine.napi_poll();
    });
    assert_eq!(all_totals(&machine), [(C, 510), (D, 220)]);
}

/// Promise 2.
#[test]
fn on_another_host_device_the_incoming_interface_names_the_sender() {
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

/// The answer is kept between packets, and asked for again once the agent has changed it.
/// Promise 2.
#[test]
fn an_incoming_interface_that_changes_hands_names_its_new_owner_at_once() {
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
fn an_interface_that_changes_hands_has_its_new_owner_at_once() {
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

/// A receive softirq drains a qdisc in the middle of A's packet: B's packets are B's, and what
/// follows is A's again.
/// Promise 2.
#[test]
fn a_detour_through_a_qdisc_is_the_other_senders() {
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

/// A process of C sends, and its system call lets A's packets go first.
/// Promise 2.
#[test]
fn a_system_call_that_drains_anothers_packets_is_the_others() {
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

/// The device is full in the middle of a drain: no dequeue tells its end. A softirq or another
/// task does, and the time up to there is in both sums.
/// Promise 2.
#[test]
fn a_drain_that_gives_up_ends_with_a_softirq_or_with_its_task() {
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
    // 211 ns for three packets: 140 for two, and the last has the rounding.
    assert_eq!(caused(&machine, A), (0, 140, 0));
    assert_eq!(caused(&machine, B), (0, 71, 0));
    assert_eq!(machine.row_of(0, A).tx_packets, 2);
}

/// Promise 2.
#[test]
fn a_softirq_without_packets_has_caused_its_reason_and_tsq_its_sender() {
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
    // Who was interrupted is charged, for network work and for other work apart.
    let d = machine.row_of(0, D);
    assert_eq!((d.charged_network_ns, d.charged_other_ns), (509, 70));
}

/// With RPS the sender's own receive softirq only wakes the other CPU: part of the transmit that
/// raised it.
/// Promise 2.
#[test]
fn an_empty_receive_softirq_is_the_senders_that_raised_it() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.net_dev_queue(scene.packet(scene.in_a));
    in_receive(&machine, || machine.pass(120));
    assert_eq!(caused(&machine, A), (0, 120, 0));
    // To a container: the host sends to it.
    machine.net_dev_queue(scene.packet(scene.veth_b));
    in_receive(&machine, || machine.pass(90));
    assert_eq!(caused(&machine, B), (90, 0, 0));
    in_receive(&machine, || machine.pass(50));
    assert_eq!(total(&machine, NO_PACKET), 50);
}

/// A's answers are handed to another CPU while B is the last in the poll: the wake-up after the
/// poll is A's, and not shared.
/// Promise 2.
#[test]
fn waking_another_cpu_is_whose_packets_were_handed_over() {
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
    // Nothing was handed over since: what follows a poll is its packets'.
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
fn a_napi_threads_time_is_its_packets_and_softirqs_in_it_are_their_own() {
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
fn a_network_interrupt_is_its_packets_and_another_one_its_devices() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.run_as(cgroup_of(C));
    machine.hardirq(90, true);
    machine.hardirq(25, false);
    assert_balanced(&machine);
    in_receive(&machine, || {
        scene.receive(scene.in_a, 100);
        scene.receive(scene.in_a, 100);
        // In the middle of A's packet: A's time does not grow by it.
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

/// The marker of a softirq's end is skipped (the kernel does so when it is busy with the same
/// program): what was cut before is kept, and no later time is taken for the softirq's.
/// Promise 2.
#[test]
fn a_softirq_whose_end_is_not_seen_keeps_what_was_cut() {
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
    // The head of 10 ns is shared by both; B's open segment has no known end.
    assert_eq!(all_totals(&machine), [(A, 105), (B, 35)]);
    assert_eq!(machine.row_of(0, B).rx_packets, 2);
}

/// CPUs keep apart.
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
