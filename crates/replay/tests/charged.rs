//! Who is charged for what interrupts it: containers, cgroups of the host, and nobody.

mod common;

use cofferdam_replay::{Machine, Runs, softirq};
use common::*;

/// A cgroup of the host, and the row that it may be given.
const SERVICE: u64 = 77;
const SERVICE_ROW: u32 = E + 1;
/// Longer than a softirq that follows another is apart from it.
const APART_NS: u64 = 5_000;

/// A receive softirq of 1 µs for A's packets, in the time of whatever runs.
fn interrupt(scene: &Scene<'_>) {
    scene.machine.softirq_entry(softirq::NET_RX);
    scene.receive(scene.in_a, 1_000);
    scene.machine.softirq_exit(softirq::NET_RX);
}

/// What is charged to nobody on CPU 0, and how much of that in the host's tasks.
fn nobody(machine: &Machine) -> (u64, u64) {
    let time = reading(machine, 0).time;
    (time.charged_nobody_ns, time.charged_host_ns)
}

/// Promise 30.
#[test]
fn idle_time_and_threads_that_serve_the_network_are_no_ones() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    for (i, serves) in (1..).zip([Runs::Idle, Runs::Softirqd, Runs::Napi]) {
        machine.run(serves);
        interrupt(&scene);
        assert_eq!(nobody(&machine), (i * 1_000, 0), "{serves:?}");
    }
    // Also while the root cgroup has a row.
    machine.set_cgroup(Machine::ROOT_CGROUP, SERVICE_ROW);
    machine.run(Runs::Idle);
    interrupt(&scene);
    assert_eq!(nobody(&machine), (4_000, 0));
    assert_eq!(machine.row_of(0, SERVICE_ROW).charged_network_ns, 0);
    assert_eq!(machine.events(), 0, "there is nobody to be named");
    assert_at_rest(&machine);
}

/// Promise 30.
#[test]
fn tasks_of_the_host_are_somebody_also_without_a_row() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    for (i, runs) in (1..).zip([Runs::Process, Runs::Worker]) {
        machine.run(runs);
        interrupt(&scene);
        assert_eq!(nobody(&machine), (i * 1_000, i * 1_000), "{runs:?}");
    }
    machine.run_as(SERVICE);
    interrupt(&scene);
    assert_eq!(nobody(&machine), (3_000, 3_000));
    // What is not for packets presses nobody.
    machine.hardirq(300, false);
    assert_eq!(nobody(&machine), (3_300, 3_000));
    assert_at_rest(&machine);
}

/// Promise 7.
#[test]
fn a_cgroup_of_the_host_is_charged_by_name_once_it_has_a_row() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.set_cgroup(SERVICE, SERVICE_ROW);
    machine.set_cgroup(Machine::ROOT_CGROUP, SERVICE_ROW + 1);
    machine.run_as(SERVICE);
    interrupt(&scene);
    machine.run(Runs::Worker);
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

/// By network softirqs, however many polls they are of: those of other vectors are counted apart.
/// Promise 2.
#[test]
fn interruptions_are_counted_where_they_meet_tasks() {
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
    for serves in [Runs::Idle, Runs::Softirqd, Runs::Napi] {
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
    assert_eq!(counts(), (1, 0), "it goes on");
    machine.softirq_exit(softirq::NET_RX);
    assert_eq!(counts(), (2, 1));
    machine.softirq(softirq::TIMER, 100);
    machine.hardirq(300, false);
    assert_eq!(counts(), (2, 1));
    assert_at_rest(&machine);
}

/// After one interrupt the kernel handles softirqs again and again while packets come, and returns to the task only
/// then.
/// Promise 35.
#[test]
fn network_softirqs_that_follow_another_softirq_interrupt_nobody() {
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
    // A timer behind a shaped queue: what it sends, and what is received of that at once.
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
    // Whomever the one before met.
    machine.run(Runs::Softirqd);
    machine.pass(APART_NS);
    interrupt(&scene);
    machine.run_as(cgroup_of(A));
    interrupt(&scene);
    assert_eq!(count(), 3);
    assert_at_rest(&machine);
}

/// However often it is interrupted: one report a generation of the identities and CPU.
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
        machine.run(Runs::Idle);
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

/// What a socket of the host gets names its cgroup as well.
#[test]
fn a_socket_without_a_row_is_reported_once_and_then_its_cgroups() {
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

/// A process moves to another cgroup between two softirqs: each is charged to where it runs then.
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
