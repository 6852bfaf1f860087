//! Small host: containers with interfaces of every kind, and the time that they have caused.
#![allow(dead_code, reason = "each test binary uses its part")]

use cofferdam_bpf::{Counts, CpuReading, FIRST_CONTAINER_ROW};
use cofferdam_replay::{Device, Machine, Net, Packet, PacketSpec, Socket, Task};

/// Rows of reasons, in the order of `enum cf_row_index`.
pub const HOST_TRAFFIC: u32 = 0;
pub const FORWARDING: u32 = 1;
pub const UNKNOWN_NAMESPACE: u32 = 2;
pub const NO_PACKET: u32 = 4;
pub const OTHER_HARDIRQ: u32 = 5;
pub const SOFTIRQ_TIMER: u32 = 7;
pub const SOFTIRQ_TASKLET: u32 = 10;

/// Containers: `A` and `B` have a namespace each, `C` and `D` share one, `E` uses the host's.
pub const A: u32 = FIRST_CONTAINER_ROW;
pub const B: u32 = A + 1;
pub const C: u32 = A + 2;
pub const D: u32 = A + 3;
pub const E: u32 = A + 4;
pub const CONTAINERS: [u32; 5] = [A, B, C, D, E];

/// Cgroup of a container's processes.
pub fn cgroup_of(row: u32) -> u64 {
    u64::from(100 + row)
}

pub struct Scene<'m> {
    pub machine: &'m Machine,
    /// Devices inside the containers' namespaces.
    pub in_a: Device<'m>,
    pub in_b: Device<'m>,
    /// Device in the namespace that C and D share.
    pub shared: Device<'m>,
    /// Host's ends of A's and B's veth pairs.
    pub veth_a: Device<'m>,
    pub veth_b: Device<'m>,
    /// Host's own card, and a bridge.
    pub card: Device<'m>,
    pub bridge: Device<'m>,
    /// Device in a namespace of no container.
    pub stranger: Device<'m>,
    /// Sockets of A to E, and one of the host.
    pub sockets: [Socket<'m>; 5],
    pub host_socket: Socket<'m>,
    pub task: Task<'m>,
    pub napi: Task<'m>,
}

/// Interface indices of the host's ends.
pub const VETH_A: i32 = 11;
pub const VETH_B: i32 = 12;

impl<'m> Scene<'m> {
    pub fn new(machine: &'m Machine) -> Scene<'m> {
        let host = machine.net(Machine::HOST_NETNS);
        let nets: [Net<'m>; 3] = [21, 22, 23].map(|inum| machine.net(inum));
        machine.set_netns(21, A, false);
        machine.set_netns(22, B, false);
        machine.set_netns(23, C, true);
        machine.set_link(Machine::HOST_NETNS, VETH_A, A);
        machine.set_link(Machine::HOST_NETNS, VETH_B, B);
        for row in CONTAINERS {
            machine.set_cgroup(cgroup_of(row), row);
        }
        let socket = |row: u32, net| machine.socket(net, machine.cgroup(cgroup_of(row)));
        Scene {
            machine,
            in_a: machine.device(nets[0], 2),
            in_b: machine.device(nets[1], 2),
            shared: machine.device(nets[2], 2),
            veth_a: machine.device(host, VETH_A),
            veth_b: machine.device(host, VETH_B),
            card: machine.device(host, 3),
            bridge: machine.device(host, 4),
            stranger: machine.device(machine.net(99), 2),
            sockets: [
                socket(A, nets[0]),
                socket(B, nets[1]),
                socket(C, nets[2]),
                socket(D, nets[2]),
                socket(E, host),
            ],
            host_socket: machine.socket(host, machine.cgroup(1)),
            task: machine.task(false),
            napi: machine.task(true),
        }
    }

    pub fn devices(&self) -> [Device<'m>; 8] {
        [
            self.in_a,
            self.in_b,
            self.shared,
            self.veth_a,
            self.veth_b,
            self.card,
            self.bridge,
            self.stranger,
        ]
    }

    pub fn socket_of(&self, row: u32) -> Socket<'m> {
        self.sockets[(row - A) as usize]
    }

    /// Packet of 100 bytes.
    pub fn packet(&self, device: Device<'m>) -> Packet<'m> {
        self.packet_with(device, |_| {})
    }

    pub fn packet_with(
        &self,
        device: Device<'m>,
        more: impl FnOnce(&mut PacketSpec<'m>),
    ) -> Packet<'m> {
        let mut what = PacketSpec {
            bytes: 100,
            ..PacketSpec::default()
        };
        more(&mut what);
        self.machine.packet(device, what)
    }

    /// Receives a packet on `device` whose work takes `ns`.
    pub fn receive(&self, device: Device<'m>, ns: u64) {
        self.machine.netif_receive_skb(self.packet(device));
        self.machine.pass(ns);
    }
}

/// Time that a row caused on all CPUs: received, sent, hardirq.
pub fn caused(machine: &Machine, row: u32) -> (u64, u64, u64) {
    let rows = (0..machine.cpus()).map(|cpu| machine.row_of(cpu, row));
    rows.fold((0, 0, 0), |sum, row| {
        (sum.0 + row.rx_ns, sum.1 + row.tx_ns, sum.2 + row.hardirq_ns)
    })
}

/// Total time that a row caused.
pub fn total(machine: &Machine, row: u32) -> u64 {
    let (rx, tx, hardirq) = caused(machine, row);
    rx + tx + hardirq
}

/// Total time of every row that caused any.
pub fn all_totals(machine: &Machine) -> Vec<(u32, u64)> {
    let rows = (0..machine.rows()).map(|row| (row, total(machine, row)));
    rows.filter(|(_, ns)| *ns > 0).collect()
}

pub fn reading(machine: &Machine, cpu: u32) -> CpuReading {
    CpuReading::of(&machine.state(cpu))
}

/// Sums of one CPU's rows: caused and charged.
pub fn sums(machine: &Machine, cpu: u32) -> (u64, u64) {
    let rows = (0..machine.rows()).map(|row| machine.row_of(cpu, row));
    rows.fold((0, 0), |(caused, charged), row| {
        (
            caused + row.rx_ns + row.tx_ns + row.hardirq_ns,
            charged + row.charged_network_ns + row.charged_other_ns,
        )
    })
}

/// Checks that every nanosecond that a CPU has measured is in a row or pending for its packets, at
/// any point of its work.
#[track_caller]
pub fn assert_balanced(machine: &Machine) {
    for cpu in 0..machine.cpus() {
        let reading = reading(machine, cpu);
        let (caused, _) = sums(machine, cpu);
        assert_eq!(
            caused + reading.waiting_ns,
            reading.time.measured_ns(),
            "CPU {cpu}: rows and what waits ({} ns) against what was measured: {:?}",
            reading.waiting_ns,
            reading.time
        );
        assert_eq!(reading.segments_rejected, 0, "CPU {cpu}");
    }
}

/// Checks that at rest only interrupts are pending, and that all measured time was charged.
#[track_caller]
pub fn assert_at_rest(machine: &Machine) {
    assert_balanced(machine);
    for cpu in 0..machine.cpus() {
        let (reading, state) = (reading(machine, cpu), machine.state(cpu));
        assert_eq!(reading.waiting_ns, state.hardirq_pending_ns, "CPU {cpu}");
        let (_, charged) = sums(machine, cpu);
        assert_eq!(
            charged + reading.time.charged_nobody_ns,
            reading.time.measured_ns(),
            "CPU {cpu}: charged"
        );
        assert!(
            reading.time.charged_host_ns <= reading.time.charged_nobody_ns,
            "CPU {cpu}: {:?}",
            reading.time
        );
    }
}
