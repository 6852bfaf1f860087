//! Tests of the conservation: for any order of events, at every moment at which a reader may look,
//! the rows add up to the measured time to the nanosecond.

mod common;

use cofferdam_replay::{Interrupt, Machine, RunningTask, softirq};
use common::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Possible next event. An event that is impossible in the current state is skipped.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u64),
    SoftirqEntry(usize),
    SoftirqExit,
    Receive(usize, bool, Option<bool>),
    Gro(usize),
    Poll,
    Queue(usize, Option<usize>),
    Dequeue(usize, Option<usize>, u8),
    DequeueNothing,
    Settle(usize),
    Wake(bool),
    Hardirq(u64, bool),
    Switch,
    RunAs(usize),
    Learn(usize),
    OtherCpu,
    /// A softirq ends and its marker does not run.
    LoseExit,
    /// An interrupt comes in the middle of one of the next programs.
    Interrupt(u32, u64, bool),
}

const VECTORS: [u32; 6] = [
    softirq::NET_RX,
    softirq::NET_RX,
    softirq::NET_TX,
    softirq::TIMER,
    softirq::TASKLET,
    softirq::RCU,
];

/// Tasks of the root cgroup that run besides the containers, and a cgroup without a row.
const OTHERS: [RunningTask; 5] = [
    RunningTask::Idle,
    RunningTask::Process,
    RunningTask::Worker,
    RunningTask::Softirqd,
    RunningTask::Napi,
];
const STRANGER: u64 = 77;

fn step() -> impl Strategy<Value = Step> {
    let device = 0_usize..8;
    let socket = prop::option::of(0_usize..6);
    let ns = prop_oneof![1_u64..50, 50_u64..5_000, 100_000_u64..700_000];
    prop_oneof![
        6 => ns.clone().prop_map(Step::Pass),
        2 => (0..VECTORS.len()).prop_map(Step::SoftirqEntry),
        2 => Just(Step::SoftirqExit),
        6 => (device.clone(), any::<bool>(), any::<Option<bool>>())
            .prop_map(|(d, iif, more)| Step::Receive(d, iif, more)),
        1 => device.clone().prop_map(Step::Gro),
        3 => Just(Step::Poll),
        3 => (device.clone(), socket.clone()).prop_map(|(d, s)| Step::Queue(d, s)),
        2 => (device, socket, 1_u8..70).prop_map(|(d, s, n)| Step::Dequeue(d, s, n)),
        1 => Just(Step::DequeueNothing),
        1 => (0_usize..6).prop_map(Step::Settle),
        1 => any::<bool>().prop_map(Step::Wake),
        1 => (ns.clone(), any::<bool>()).prop_map(|(ns, network)| Step::Hardirq(ns, network)),
        1 => Just(Step::Switch),
        1 => (0_usize..11).prop_map(Step::RunAs),
        1 => (0_usize..5).prop_map(Step::Learn),
        1 => Just(Step::OtherCpu),
        1 => Just(Step::LoseExit),
        1 => (0_u32..12, ns, any::<bool>())
            .prop_map(|(after, ns, network)| Step::Interrupt(after, ns, network)),
    ]
}

/// State of a CPU.
#[derive(Clone, Copy, Default)]
struct CpuState {
    softirq: Option<u32>,
    napi_thread: bool,
}

/// Driver of the machine that keeps to the kernel's rules: a softirq does not nest, and no task
/// changes in one.
struct Driver<'m> {
    scene: Scene<'m>,
    places: [CpuState; 2],
    cpu: usize,
    /// Time that a CPU was in a softirq or a NAPI thread, and in interrupts, measured independently
    /// of the programs. Valid while the clock stands still inside them.
    worked_ns: u64,
    interrupted_ns: u64,
}

impl<'m> Driver<'m> {
    fn new(machine: &'m Machine) -> Driver<'m> {
        Driver {
            scene: Scene::new(machine),
            places: Default::default(),
            cpu: 0,
            worked_ns: 0,
            interrupted_ns: 0,
        }
    }

    fn socket(&self, which: usize) -> cofferdam_replay::Socket<'m> {
        let sockets = &self.scene.sockets;
        sockets
            .get(which)
            .copied()
            .unwrap_or(self.scene.host_socket)
    }

    /// List of `count` packets.
    fn list(
        &self,
        device: usize,
        socket: Option<usize>,
        count: u8,
    ) -> cofferdam_replay::Packet<'m> {
        let scene = &self.scene;
        let packet = |next| {
            scene.packet_with(scene.devices()[device], |p| {
                p.socket = socket.map(|s| self.socket(s));
                p.next = next;
            })
        };
        (1..count).fold(packet(None), |next, _| packet(Some(next)))
    }

    fn apply(&mut self, step: Step) {
        let (machine, here) = (self.scene.machine, self.places[self.cpu]);
        let packets = here.softirq == Some(softirq::NET_RX) || here.napi_thread;
        match step {
            Step::Pass(ns) => {
                machine.pass(ns);
                if here.softirq.is_some() || here.napi_thread {
                    self.worked_ns += ns;
                }
            }
            Step::SoftirqEntry(which) if here.softirq.is_none() => {
                machine.softirq_entry(VECTORS[which]);
                self.places[self.cpu].softirq = Some(VECTORS[which]);
            }
            Step::SoftirqExit => {
                if let Some(vector) = self.places[self.cpu].softirq.take() {
                    machine.softirq_exit(vector);
                }
            }
            Step::Receive(device, through, more_follow) if packets => {
                let device = self.scene.devices()[device];
                let iif = if through { VETH_B } else { 0 };
                let packet = self.scene.packet_with(device, |p| {
                    (p.iif, p.more_follow) = (iif, more_follow);
                });
                machine.netif_receive_skb(packet);
            }
            Step::Gro(device) if packets => {
                let packet = self.scene.packet(self.scene.devices()[device]);
                machine.napi_gro_receive_entry(packet);
            }
            Step::Poll if packets => machine.napi_poll(),
            Step::Queue(device, socket) => machine.net_dev_queue(self.list(device, socket, 1)),
            Step::Dequeue(device, socket, count) => {
                machine.qdisc_dequeue(Some(self.list(device, socket, count)));
            }
            Step::DequeueNothing => machine.qdisc_dequeue(None),
            Step::Settle(socket) if packets => machine.sk_data_ready(self.socket(socket)),
            Step::Wake(for_packets) => machine.csd_queue_cpu(for_packets),
            Step::Hardirq(ns, network) => {
                machine.hardirq(ns, network);
                self.interrupted_ns += ns;
            }
            Step::Switch if here.softirq.is_none() => {
                let (task, napi) = (self.scene.task, self.scene.napi);
                let (from, to) = if here.napi_thread {
                    (napi, task)
                } else {
                    (task, napi)
                };
                machine.sched_switch(from, to);
                self.places[self.cpu].napi_thread = !here.napi_thread;
            }
            Step::RunAs(which) if here.softirq.is_none() => {
                match (
                    CONTAINERS.get(which),
                    OTHERS.get(which.wrapping_sub(CONTAINERS.len())),
                ) {
                    (Some(row), _) => machine.run_as(cgroup_of(*row)),
                    (_, Some(other)) => machine.run(*other),
                    _ => machine.run_as(STRANGER),
                }
            }
            // A new container comes: every identity is looked up again.
            Step::Learn(which) => {
                let row = CONTAINERS[which];
                machine.forget_cgroup(cgroup_of(row));
                machine.set_cgroup(cgroup_of(row), row);
            }
            // There is one clock: only a CPU at rest can be left.
            Step::OtherCpu if here.softirq.is_none() && !here.napi_thread => {
                self.cpu = 1 - self.cpu;
                machine.on(self.cpu as u32);
            }
            Step::LoseExit => self.places[self.cpu].softirq = None,
            Step::Interrupt(after, ns, network) => {
                machine.interrupt(Some(Interrupt { after, ns, network }));
            }
            _ => {}
        }
    }

    fn come_to_rest(&mut self) {
        let machine = self.scene.machine;
        machine.interrupt(None);
        if let Some(vector) = self.places[self.cpu].softirq.take() {
            machine.softirq_exit(vector);
        }
        for cpu in [1 - self.cpu, self.cpu] {
            machine.on(cpu as u32);
            let task = self.scene.task;
            let from = match self.places[cpu].napi_thread {
                true => self.scene.napi,
                false => task,
            };
            machine.sched_switch(from, task);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500,
        failure_persistence: None,
        // Use equal sequences in each run.
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// No interrupt comes during a program, and the clock stands still in it. The measured time is
    /// exactly the time in softirqs, NAPI threads and interrupts.
    /// Promise 1.
    #[test]
    fn every_nanosecond_is_in_a_row_at_every_moment(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let machine = Machine::new(2);
        let mut driver = Driver::new(&machine);
        for step in steps {
            if matches!(step, Step::Interrupt(..) | Step::LoseExit) {
                continue;
            }
            driver.apply(step);
            assert_balanced(&machine);
        }
        driver.come_to_rest();
        assert_at_rest(&machine);
        let times = [0, 1].map(|cpu| reading(&machine, cpu).time);
        let hardirq_ns: u64 = times.iter().map(|t| t.hardirq_ns).sum();
        let worked_ns: u64 = times.iter().map(|t| t.softirq_ns + t.napi_thread_ns).sum();
        prop_assert_eq!(hardirq_ns, driver.interrupted_ns);
        prop_assert_eq!(worked_ns, driver.worked_ns);
    }

    /// Windows open and close at any point. All measured time is in a row. Once the last window is
    /// closed and all work has ended, no CPU measures anything.
    /// Promise 4.
    #[test]
    fn windows_at_any_point_leave_nothing_open(
        steps in prop::collection::vec(
            (step(), prop::option::weighted(0.2, any::<bool>())),
            1..120,
        ),
    ) {
        let machine = Machine::new(2);
        let mut driver = Driver::new(&machine);
        for (step, window) in steps {
            if let Some(open) = window {
                machine.window(open);
            }
            driver.apply(step);
            assert_balanced(&machine);
        }
        machine.window(false);
        driver.come_to_rest();
        assert_at_rest(&machine);
        for cpu in 0..2 {
            let state = machine.state(cpu);
            prop_assert_eq!((state.mode, state.watch, state.in_hardirq), (0, 0, 0));
        }
    }

    /// The clock advances at each reading, interrupts come in the middle of programs, and markers
    /// are lost.
    /// Promise 1.
    #[test]
    fn no_time_is_lost_in_slow_or_skipped_programs(
        tick in 1_u64..90,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let machine = Machine::new(2);
        machine.tick(tick);
        let mut driver = Driver::new(&machine);
        for step in steps {
            driver.apply(step);
            assert_balanced(&machine);
        }
        driver.come_to_rest();
        assert_at_rest(&machine);
    }
}
