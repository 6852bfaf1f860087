//! Tests of the windows of measurement. Work that begins in a window is measured to its end, and no
//! other work. After that each CPU is at rest, so that the markers can be detached and attached
//! again at any point.

mod common;

use cofferdam_replay::{Machine, RunningTask, softirq};
use common::*;

/// Runs a receive softirq for A.
fn receive(scene: &Scene<'_>, ns: u64) {
    scene.machine.softirq_entry(softirq::NET_RX);
    scene.receive(scene.in_a, ns);
    scene.machine.softirq_exit(softirq::NET_RX);
}

#[track_caller]
fn assert_idle(machine: &Machine) {
    let state = machine.state(0);
    let doing = (state.mode, state.watch, state.in_hardirq, state.napi_thread);
    assert_eq!(doing, (0, 0, 0, 0));
    assert_at_rest(machine);
}

/// Promise 4.
#[test]
fn a_softirq_counts_in_the_window_of_its_begin() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.window(false);
    receive(&scene, 1_000);
    assert_eq!(all_totals(&machine), [], "the window is not open");
    // The softirq begins before the window and ends in it.
    machine.softirq_entry(softirq::NET_RX);
    scene.receive(scene.in_a, 300);
    machine.window(true);
    scene.receive(scene.in_b, 300);
    machine.napi_poll();
    machine.softirq_exit(softirq::NET_RX);
    assert_eq!(all_totals(&machine), []);
    // The softirq begins in the window and ends after it.
    receive(&scene, 70);
    machine.softirq_entry(softirq::NET_RX);
    scene.receive(scene.in_a, 20);
    machine.window(false);
    scene.receive(scene.in_a, 5);
    scene.receive(scene.in_b, 40);
    machine.napi_poll();
    machine.pass(10);
    assert_balanced(&machine);
    machine.softirq_exit(softirq::NET_RX);
    assert_eq!(total(&machine, A) + total(&machine, B), 145);
    assert_idle(&machine);
    receive(&scene, 1_000);
    assert_eq!(reading(&machine, 0).time.softirq_ns, 145);
    assert_eq!(reading(&machine, 0).softirqs, 2);
    assert_idle(&machine);
}

/// Promise 4.
#[test]
fn a_napi_thread_is_joined_and_left_between_two_polls() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.window(false);
    machine.sched_switch(scene.task, scene.napi);
    machine.run(RunningTask::Napi);
    scene.receive(scene.in_a, 1_000);
    machine.napi_poll();
    machine.window(true);
    scene.receive(scene.in_a, 1_000);
    assert_eq!(all_totals(&machine), [], "it has begun before the window");
    machine.napi_poll();
    scene.receive(scene.in_a, 60);
    // Interrupt it in the window, and after the window.
    receive(&scene, 7);
    scene.receive(scene.in_a, 30);
    machine.window(false);
    scene.receive(scene.in_a, 3);
    machine.napi_poll();
    assert_idle(&machine);
    scene.receive(scene.in_a, 1_000);
    machine.napi_poll();
    receive(&scene, 1_000);
    assert_eq!(total(&machine, A), 100);
    let time = reading(&machine, 0).time;
    assert_eq!((time.napi_thread_ns, time.softirq_ns), (93, 7));
    // The thread has left the CPU unnoticed. A softirq in the next window has ordinary context.
    machine.run_as(cgroup_of(A));
    machine.window(true);
    receive(&scene, 10);
    machine.pass(10_000);
    assert_eq!(total(&machine, A), 110);
    assert_idle(&machine);
}

/// The kernel may hide the switch to the thread. Its time until the end of its first poll is in no
/// ledger, and missing from the count of softirqs.
/// Promise 2.
#[test]
fn a_napi_thread_with_a_hidden_switch_is_reported() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    receive(&scene, 10);
    receive(&scene, 10);
    assert_eq!(reading(&machine, 0).softirqs, 2);
    machine.run(RunningTask::Napi);
    scene.receive(scene.in_a, 1_000);
    machine.napi_poll();
    assert_eq!(reading(&machine, 0).softirqs, 1, "one poll was not seen");
    scene.receive(scene.in_a, 70);
    machine.sched_switch(scene.napi, scene.task);
    assert_eq!(reading(&machine, 0).time.napi_thread_ns, 70);
    // A switch that is noticed subtracts nothing.
    machine.sched_switch(scene.task, scene.napi);
    scene.receive(scene.in_a, 30);
    machine.napi_poll();
    machine.sched_switch(scene.napi, scene.task);
    assert_eq!(reading(&machine, 0).softirqs, 1);
    assert_eq!(total(&machine, A), 20 + 70 + 30);
}

/// Promise 4.
#[test]
fn a_window_may_end_in_a_softirq_over_napi() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    for closes_in_softirq in [true, false] {
        machine.window(true);
        machine.sched_switch(scene.task, scene.napi);
        machine.run(RunningTask::Napi);
        scene.receive(scene.in_a, 50);
        if !closes_in_softirq {
            machine.window(false);
        }
        machine.softirq_entry(softirq::NET_RX);
        machine.window(false);
        scene.receive(scene.in_b, 20);
        machine.softirq_exit(softirq::NET_RX);
        assert_idle(&machine);
        scene.receive(scene.in_a, 1_000);
        machine.napi_poll();
        assert_idle(&machine);
    }
    assert_eq!(total(&machine, A), 100);
    assert_eq!(total(&machine, B), 20, "the second began after the window");
}

/// Promise 4.
#[test]
fn interrupts_and_calls_count_by_their_begin() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.run_as(cgroup_of(C));
    let theirs = || scene.packet_with(scene.card, |p| p.socket = Some(scene.socket_of(A)));
    machine.window(false);
    machine.hardirq(500, true);
    machine.qdisc_dequeue(Some(theirs()));
    machine.pass(500);
    machine.qdisc_dequeue(None);
    assert_idle(&machine);
    machine.window(true);
    machine.hardirq(40, false);
    machine.qdisc_dequeue(Some(theirs()));
    machine.pass(60);
    machine.window(false);
    machine.pass(5);
    machine.qdisc_dequeue(Some(theirs()));
    machine.pass(5);
    machine.qdisc_dequeue(None);
    assert_idle(&machine);
    assert_eq!(all_totals(&machine), [(OTHER_HARDIRQ, 40), (A, 70)]);
    // A task that leaves ends it, too.
    machine.window(true);
    machine.qdisc_dequeue(Some(theirs()));
    machine.pass(30);
    machine.window(false);
    machine.sched_switch(scene.task, scene.napi);
    assert_idle(&machine);
    assert_eq!(total(&machine, A), 100);
}

/// Remains of a sender from one window do not affect the next.
/// Promise 4.
#[test]
fn no_state_survives_a_closed_window() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.net_dev_queue(scene.packet(scene.veth_a));
    machine.window(false);
    machine.softirq_entry(softirq::NET_RX);
    machine.softirq_exit(softirq::NET_RX);
    machine.net_dev_queue(scene.packet(scene.veth_a));
    machine.window(true);
    machine.softirq_entry(softirq::NET_RX);
    machine.pass(30);
    machine.softirq_exit(softirq::NET_RX);
    assert_eq!(all_totals(&machine), [(NO_PACKET, 30)]);
    assert_idle(&machine);
}
