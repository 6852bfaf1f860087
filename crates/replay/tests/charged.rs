//! Tests of who is charged for an interruption: containers, cgroups of the host, or no cgroup.

mod common;

use cofferdam_replay::{Machine, RunningTask, softirq};
use common::*;

/// Cgroup of the host, and the row that it may get.
const SERVICE: u64 = 77;
const SERVICE_ROW: u32 = E + 1;
/// Distance from which a softirq counts as separate from the previous one.
const APART_NS: u64 = 5_000;

/// Runs a receive softirq of 1 µs for A's packets in the time of the running task.
fn interrupt(scene: &Scene<'_>) {
    scene.machine.softirq_entry(softirq::NET_RX);
    scene.receive(scene.in_a, 1_000);
    scene.machine.softirq_exit(softirq::NET_RX);
}

/// Time charged to no cgroup on CPU 0, and the part of it in the host's tasks.
fn nobody(machine: &Machine) -> (u64, u64) {
    let time = reading(machine, 0).time;
    (time.charged_nobody_ns, time.charged_host_ns)
}

/// Promise 30.
#[test]
fn idle_time_and_network_threads_are_charged_to_no_cgroup() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    for (i, serves) in (1..).zip([RunningTask::Idle, RunningTask::Softirqd, RunningTask::Napi]) {
        machine.run(serves);
        interrupt(&scene);
        assert_eq!(nobody(&machine), (i * 1_000, 0), "{serves:?}");
    }
    // This holds too while the root cgroup has a row.
    machine.set_cgroup(Machine::ROOT_CGROUP, SERVICE_ROW);
    machine.run(RunningTask::Idle);
    interrupt(&scene);
    assert_eq!(nobody(&machine), (4_000, 0));
    assert_eq!(machine.row_of(0, SERVICE_ROW).charged_network_ns, 0);
    assert_eq!(machine.events(), 0, "there is nobody to be named");
    assert_at_rest(&machine);
}

/// Promise 30.
#[test]
fn host_tasks_are_victims_even_without_a_row() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    for (i, runs) in (1..).zip([RunningTask::Process, RunningTask::Worker]) {
        machine.run(runs);
        interrupt(&scene);
        assert_eq!(nobody(&machine), (i * 1_000, i * 1_000), "{runs:?}");
    }
    machine.run_as(SERVICE);
    interrupt(&scene);
    assert_eq!(nobody(&machine), (3_000, 3_000));
    // Time that is not for packets makes no victim.
    machine.hardirq(300, false);
    assert_eq!(nobody(&machine), (3_300, 3_000));
    assert_at_rest(&machine);
}

/// Promise 7.
#[test]
fn a_host_cgroup_with_a_row_is_charged_by_name() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.set_cgroup(SERVICE, SERVICE_ROW);
    machine.set_cgroup(Machine::ROOT_CGROUP, SERVICE_ROW + 1);
    machine.run_as(SERVICE);
    interrupt(&scene);
    machine.run(RunningTask::Worker);
    interrupt(&scene);
    machine.hardirq(300, false);
    assert_eq!(nobody(&machine), (0, 0));
    assert_eq!(machine.row_of(0, SERVICE_ROW).charged_network_ns, 1_000);
    let root = machine.row_of(0, SERVICE_ROW + 1);
    assert_eq!(
        (root.charged_network_ns, root.charged_other_ns),
        (1_000, 300)
    );
    assert_eq!(machine.events(), 0);
    assert_at_rest(&machine);
}

/// Counted per network softirq, for any number of polls in it. Softirqs of other vectors are
/// counted separately.
/// Promise 2.
#[test]
fn interruptions_of_tasks_are_counted() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    let interrupt = |scene: &Scene<'_>| {
        machine.pass(APART_NS);
        interrupt(scene);
    };
    let counts = || {
        let container = machine.row_of(0, A).interruptions;
        (reading(&machine, 0).time.interruptions, container)
    };
    for serves in [RunningTask::Idle, RunningTask::Softirqd, RunningTask::Napi] {
        machine.run(serves);
        interrupt(&scene);
        assert_eq!(counts(), (0, 0), "{serves:?}");
    }
    machine.run_as(SERVICE);
    interrupt(&scene);
    assert_eq!(counts(), (1, 0), "a task without a row");
    machine.run_as(cgroup_of(A));
    machine.pass(APART_NS);
    machine.softirq_entry(softirq::NET_RX);
    for _ in 0..3 {
        scene.receive(scene.in_b, 1_000);
        machine.pass(1_000_000);
        machine.napi_poll();
    }
    assert_eq!(counts(), (1, 0), "it continues");
    machine.softirq_exit(softirq::NET_RX);
    assert_eq!(counts(), (2, 1));
    machine.softirq(softirq::TIMER, 100);
    machine.hardirq(300, false);
    assert_eq!(counts(), (2, 1));
    assert_at_rest(&machine);
}

/// After one interrupt the kernel handles softirqs again and again while packets come, and returns
/// to the task only then.
/// Promise 35.
#[test]
fn a_softirq_right_after_another_interrupts_no_task() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.run_as(cgroup_of(A));
    let count = || machine.row_of(0, A).interruptions;
    machine.pass(APART_NS);
    for _ in 0..10 {
        interrupt(&scene);
        machine.pass(300);
    }
    assert_eq!(count(), 1);
    machine.pass(APART_NS);
    interrupt(&scene);
    assert_eq!(count(), 2);
    // A timer behind a shaped queue: it sends, and some packets are received at once.
    machine.pass(APART_NS);
    machine.softirq(softirq::NET_TX, 1_000);
    assert_eq!(count(), 3);
    interrupt(&scene);
    assert_eq!(count(), 3);
    // The timer would have interrupted the task without packets, too.
    machine.pass(APART_NS);
    machine.softirq(softirq::TIMER, 1_000);
    interrupt(&scene);
    assert_eq!(count(), 3);
    // The result does not depend on the previous task.
    machine.run(RunningTask::Softirqd);
    machine.pass(APART_NS);
    interrupt(&scene);
    machine.run_as(cgroup_of(A));
    interrupt(&scene);
    assert_eq!(count(), 3);
    assert_at_rest(&machine);
}

/// One report per generation of the identities and CPU, for any number of interruptions.
/// Promise 7.
#[test]
fn a_cgroup_without_a_row_is_reported_once() {
    let machine = Machine::new(2);
    let scene = Scene::new(&machine);
    for _ in 0..50 {
        for cgroup in [SERVICE, SERVICE + 1] {
            machine.run_as(cgroup);
            interrupt(&scene);
        }
        machine.run(RunningTask::Idle);
        interrupt(&scene);
    }
    assert_eq!(machine.events(), 2);
    machine.on(1);
    machine.run_as(SERVICE);
    interrupt(&scene);
    assert_eq!(machine.events(), 3);
    machine.set_cgroup(SERVICE + 1, SERVICE_ROW);
    interrupt(&scene);
    interrupt(&scene);
    assert_eq!(machine.events(), 4, "the identities have changed");
    machine.report_cgroups(false);
    machine.set_cgroup(SERVICE + 1, SERVICE_ROW);
    interrupt(&scene);
    assert_eq!(machine.events(), 4, "there is no row to be had");
}

/// Data for a socket of the host report its cgroup as well.
#[test]
fn a_socket_without_a_row_is_reported_once() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    let receive = || {
        machine.softirq_entry(softirq::NET_RX);
        scene.receive(scene.card, 400);
        machine.sk_data_ready(scene.host_socket);
        machine.softirq_exit(softirq::NET_RX);
    };
    receive();
    receive();
    assert_eq!(machine.events(), 1);
    assert_eq!(total(&machine, HOST_TRAFFIC), 800);
    machine.set_cgroup(Machine::ROOT_CGROUP, SERVICE_ROW);
    receive();
    assert_eq!(total(&machine, SERVICE_ROW), 400);
    assert_eq!(machine.events(), 1);
    assert_at_rest(&machine);
}

/// A process moves to another cgroup between two softirqs. Each one is charged to the cgroup in
/// which the process runs.
/// Promise 7.
#[test]
fn a_victim_that_moves_is_charged_where_it_runs() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.set_cgroup(SERVICE, SERVICE_ROW);
    for (cgroup, row) in [(cgroup_of(B), B), (SERVICE, SERVICE_ROW), (cgroup_of(C), C)] {
        machine.run_as(cgroup);
        interrupt(&scene);
        assert_eq!(machine.row_of(0, row).charged_network_ns, 1_000);
    }
    machine.run_as(SERVICE + 1);
    interrupt(&scene);
    assert_eq!(nobody(&machine), (1_000, 1_000));
    assert_at_rest(&machine);
}
