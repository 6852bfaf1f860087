//! Readings of a CPU while it works, with the programs themselves (see `cofferdam_replay`).

use super::*;
use cofferdam_bpf::FIRST_CONTAINER_ROW;
use cofferdam_replay::{Device, Machine, PacketSpec, softirq};

const A: u32 = FIRST_CONTAINER_ROW;
const B: u32 = A + 1;

/// A device in the namespace of each of two containers.
fn devices(machine: &Machine) -> [Device<'_>; 2] {
    [(101, A), (102, B)].map(|(inum, row)| {
        machine.set_netns(inum, row, false);
        machine.device(machine.net(inum), 2)
    })
}

fn receive(machine: &Machine, device: Device<'_>, ns: u64) {
    machine.netif_receive_skb(machine.packet(device, PacketSpec::default()));
    machine.pass(ns);
}

/// Runs one softirq with packets of both containers.
fn softirq(machine: &Machine, ns: u64) {
    machine.softirq_entry(softirq::NET_RX);
    for device in devices(machine) {
        receive(machine, device, ns);
    }
    machine.napi_poll();
    machine.softirq_exit(softirq::NET_RX);
}

/// Reads the measured time of CPU 0 and the time in its rows, ns.
fn read(machine: &Machine) -> (u64, u64) {
    let reading = Reading::take(machine, machine.rows()).unwrap();
    let time = reading.cpus().next().unwrap().time;
    (time.measured_ns(), time.attributed_ns)
}

/// The hypervisor takes the CPU away for 10 ms in the middle of a poll, while or before another CPU
/// reads. The owner's segment is long and counted in full. It is on both sides, but in the totals
/// only at the poll's end.
///
/// Promise 1.
#[test]
fn a_reading_in_the_middle_of_a_poll_adds_up() {
    let machine = Machine::new(1);
    let [a, b] = devices(&machine);
    softirq(&machine, 90_000_000);
    machine.hardirq(7_000, true);
    machine.softirq_entry(softirq::NET_RX);
    machine.pass(3_000);
    receive(&machine, a, 10_000_000);
    receive(&machine, b, 1_000);
    let totals = machine.state(0).totals;
    let (measured, attributed) = read(&machine);
    // Counted by then: the segments of the open poll are missing, 10 ms of 190.
    assert_eq!(totals.softirq_ns.iter().sum::<u64>(), 180_000_000);
    assert_eq!(measured, 180_000_000 + 7_000 + 3_000 + 10_000_000);
    assert_eq!(attributed, measured);
    receive(&machine, a, 0);
    assert_eq!(read(&machine), (measured + 1_000, measured + 1_000));
    machine.napi_poll();
    machine.softirq_exit(softirq::NET_RX);
    assert_eq!(read(&machine), (measured + 1_000, measured + 1_000));
}

/// The CPU never stands still: the rows are ahead by less than it attributed in the meantime.
///
/// Promise 1.
#[test]
fn a_reading_of_a_busy_cpu_is_nearly_exact() {
    let machine = Machine::new(1);
    softirq(&machine, 5_000_000);
    machine.softirq_entry(softirq::NET_RX);
    machine.meanwhile(|machine| {
        let [a, b] = devices(machine);
        receive(machine, a, 40);
        receive(machine, b, 30);
    });
    let (measured, attributed) = read(&machine);
    let reads = u64::from(machine.rows()) + 2;
    assert!(attributed > measured, "{attributed} {measured}");
    assert!(
        attributed - measured <= 70 * reads,
        "{attributed} {measured}"
    );
}

/// The reader is delayed between the two sides, for milliseconds: it reads again.
///
/// Promise 1.
#[test]
fn a_reader_that_was_held_up_reads_again() {
    for held_up in 1..60 {
        let machine = Machine::new(1);
        softirq(&machine, 5_000_000);
        let mut reads = 0;
        machine.meanwhile(move |machine| {
            reads += 1;
            if reads == held_up {
                softirq(machine, 3_000_000);
            }
        });
        let (measured, attributed) = read(&machine);
        assert_eq!(measured, attributed, "held up before read {held_up}");
    }
}

/// The charge is late by the open poll, and exact at rest.
///
/// Promise 1.
#[test]
fn at_rest_all_that_was_measured_was_charged() {
    let machine = Machine::new(1);
    softirq(&machine, 5_000);
    machine.hardirq(300, false);
    let reading = Reading::take(&machine, machine.rows()).unwrap();
    let time = reading.cpus().next().unwrap().time;
    assert_eq!(time.measured_ns(), 10_300);
    assert_eq!(time.charged_ns + time.charged_nobody_ns, 10_300);
}
