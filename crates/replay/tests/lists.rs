//! Tests of packets that the kernel takes through its first steps one by one, as a list, and
//! handles afterwards: packets that GRO passes on.

mod common;

use cofferdam_replay::{Device, Machine, softirq};
use common::*;

/// Receives the packets of a list on `device`, which take 10 ns each until they are handled.
fn list(scene: &Scene<'_>, device: Device<'_>, packets: usize) {
    for after in (0..packets).rev() {
        let packet = scene.packet_with(device, |p| p.more_follow = Some(after > 0));
        scene.machine.netif_receive_skb(packet);
        scene.machine.pass(10);
    }
}

/// Forwards one of them to the container behind `veth`, in `ns`.
fn forward(scene: &Scene<'_>, veth: Device<'_>, ns: u64) {
    scene.machine.net_dev_queue(scene.packet(veth));
    scene.machine.pass(ns);
}

/// Promise 2.
#[test]
fn packets_of_a_list_belong_to_their_receivers() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.softirq_entry(softirq::NET_RX);
    machine.pass(90);
    list(&scene, scene.card, 3);
    forward(&scene, scene.veth_a, 100);
    forward(&scene, scene.veth_a, 100);
    forward(&scene, scene.veth_b, 70);
    machine.softirq_exit(softirq::NET_RX);
    // The common time of 90 ns is shared two to one.
    assert_eq!(all_totals(&machine), [(A, 230 + 60), (B, 70 + 30)]);
    assert_eq!(machine.row_of(0, HOST_TRAFFIC).rx_packets, 0);
    assert_at_rest(&machine);
}

/// Promise 2.
#[test]
fn an_untaken_list_does_not_join_the_next_one() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.softirq_entry(softirq::NET_RX);
    list(&scene, scene.card, 2);
    list(&scene, scene.card, 2);
    forward(&scene, scene.veth_a, 100);
    machine.napi_poll();
    // The first packet of another device does not wait with those of this one.
    let more = scene.packet_with(scene.card, |p| p.more_follow = Some(true));
    machine.netif_receive_skb(more);
    machine.pass(10);
    scene.receive(scene.bridge, 10);
    forward(&scene, scene.veth_b, 100);
    machine.softirq_exit(softirq::NET_RX);
    let expected = [(HOST_TRAFFIC, 30), (A, 120), (B, 110)];
    assert_eq!(all_totals(&machine), expected);
    assert_at_rest(&machine);
}

/// Promise 2.
#[test]
fn single_packets_wait_for_no_other() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.softirq_entry(softirq::NET_RX);
    scene.receive(scene.card, 10);
    scene.receive(scene.card, 10);
    forward(&scene, scene.veth_a, 100);
    // The time after one of them belongs to its owner, whatever is queued.
    forward(&scene, scene.veth_b, 100);
    machine.softirq_exit(softirq::NET_RX);
    assert_eq!(all_totals(&machine), [(HOST_TRAFFIC, 10), (A, 210)]);
    assert_at_rest(&machine);
}

/// The number of packets per owner is unknown: the first owner gets all.
/// Promise 2.
#[test]
fn packets_of_a_list_belong_to_the_receiving_sockets() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.softirq_entry(softirq::NET_RX);
    list(&scene, scene.shared, 3);
    for (row, ns) in [(C, 50), (C, 50), (D, 60)] {
        machine.sk_data_ready(scene.socket_of(row));
        machine.pass(ns);
    }
    machine.softirq_exit(softirq::NET_RX);
    assert_eq!(all_totals(&machine), [(C, 130), (D, 60)]);
    assert_eq!(machine.row_of(0, C).rx_packets, 3);
    assert_at_rest(&machine);
}
