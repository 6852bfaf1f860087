//! The machine: threads in run queues on CPUs, moved by events.
//!
//! Independent parts: `tree` (run queues and EEVDF), `bandwidth` (the pool of a quota), `threads`,
//! `domains` (units of balancing), `accounts`, `lender` (reservations), `events`. This file and the
//! ones with `impl Machine` connect them: `queueing` (run queues and throttling), `switching`
//! (choice of the running thread), `waking` (placement of woken threads), `balancing`, `reserving`.
//!
//! Invariants: a CPU's clock is updated to now ([`Machine::update`]) before anything on it changes.
//! Every nanosecond of every CPU is either some thread's or idle.

mod accounts;
mod average;
mod balancing;
mod bandwidth;
mod domains;
mod events;
mod lender;
mod queueing;
mod reserving;
mod switching;
#[cfg(test)]
mod tests;
mod threads;
mod tree;
mod waking;

use accounts::WINDOW_NS;
pub(crate) use lender::id;

use crate::cpus::CpuSet;
use crate::host::Host;
use crate::scenario::{Behaviour, Scenario, Tenants, WARM_UP};
use accounts::Accounts;
use bandwidth::Bandwidth;
use cofferdam_reserve::{Impossible, Plan};
use domains::{Domain, Level, domains};
use events::{Event, Events};
use hdrhistogram::Histogram;
use lender::Lender;
use threads::{Barrier, Thread};
use tree::Tree;

/// Time between two checks of the agent's reservations.
const STEP_NS: u64 = 50_000_000;

/// State of one CPU.
#[derive(Debug, Default)]
struct Cpu {
    /// Running thread.
    current: Option<usize>,
    /// Time up to which its time is accounted.
    updated_ns: u64,
    /// Number of switches, which identifies stale events.
    switches: u64,
    /// Whether the CPU must choose the running thread again.
    resched: bool,
    /// Threads in its queues, the one that ran longest ago first.
    threads: Vec<usize>,
    /// Run queues whose average has to decay.
    decaying: Vec<usize>,
    levels: Vec<Level>,
}

/// Simulated host.
pub(crate) struct Machine<'a> {
    now_ns: u64,
    tick_ns: u64,
    host: &'a Host,
    tenants: &'a Tenants,
    tree: Tree,
    /// Pools by cgroup; `None` without a quota.
    bandwidth: Vec<Option<Bandwidth>>,
    threads: Vec<Thread>,
    barriers: Vec<Barrier>,
    cpus: Vec<Cpu>,
    domains: Vec<Domain>,
    events: Events,
    accounts: Accounts,
    lender: Lender,
    /// CPUs that each tenant may use now.
    allowed: Vec<CpuSet>,
    /// CPUs without a runnable thread.
    idle: CpuSet,
    /// CPUs that must choose their running thread again.
    pending: Vec<usize>,
    /// CPUs that share the last-level cache, by CPU.
    llc: Vec<CpuSet>,
    random: fastrand::Rng,
}

/// Results of one tenant.
pub(crate) struct TenantCounts {
    pub time: cofferdam_types::ScheduleTime,
    pub rounds: u64,
    pub delays: Histogram<u32>,
    /// Whether its reservation is in the plan.
    pub is_placed: bool,
    pub lendings: u64,
}

/// Results of a simulation.
pub(crate) struct Counts {
    pub tenants: Vec<TenantCounts>,
    pub idle_ns: Vec<u64>,
    pub plan: Plan,
    pub impossible: Vec<Impossible>,
}

impl<'a> Machine<'a> {
    pub fn new(scenario: &Scenario<'a>) -> Machine<'a> {
        let (host, tenants) = (scenario.host, scenario.tenants);
        let n = host.topology.cpus.len();
        let lender = Lender::new(scenario);
        let offset = 1 + tenants.groups.len();
        let cgroups = tenants.groups.iter();
        let cgroups = cgroups.chain(tenants.tenants.iter().map(|t| &t.cgroup));
        // The root, then the groups, then the tenants.
        let mut groups = vec![(None, tree::NICE_0)];
        let mut bandwidth = vec![None];
        for cgroup in cgroups {
            let parent = cgroup.parent.map_or(0, |p| p + 1);
            groups.push((
                Some(parent),
                f64::from(cgroup.weight) * tree::NICE_0 / 100.0,
            ));
            bandwidth.push(cgroup.quota.map(Bandwidth::new));
        }
        let (mut threads, mut barriers, mut leaves) = (Vec::new(), Vec::<Barrier>::new(), vec![]);
        for (tenant, one) in tenants.tenants.iter().enumerate() {
            for load in &one.loads {
                let barrier = matches!(load.behaviour, Behaviour::Phases { .. }).then(|| {
                    barriers.push(Barrier::default());
                    barriers.len() - 1
                });
                for _ in 0..load.threads {
                    if let Some(barrier) = barrier {
                        barriers[barrier].members.push(threads.len());
                    }
                    threads.push(Thread::new(tenant, barrier, load.behaviour));
                    leaves.push(offset + tenant);
                }
            }
        }
        let cpus = &host.topology.cpus;
        let (domains, levels) = domains(cpus);
        let same_llc = |llc: u32| CpuSet::of((0..n).filter(|i| cpus[*i].llc == llc));
        let mut machine = Machine {
            now_ns: 0,
            tick_ns: host.tick_ns(),
            host,
            tenants,
            tree: Tree::new(&groups, &leaves, n, host.base_slice_ns, host.tick_ns()),
            bandwidth,
            threads,
            barriers,
            cpus: levels
                .into_iter()
                .map(|levels| Cpu {
                    levels,
                    ..Cpu::default()
                })
                .collect(),
            domains,
            events: Events::default(),
            accounts: Accounts::new(tenants.tenants.len(), n),
            lender,
            allowed: vec![CpuSet::default(); tenants.tenants.len()],
            idle: CpuSet::of(0..n),
            pending: Vec::new(),
            llc: cpus.iter().map(|c| same_llc(c.llc)).collect(),
            random: fastrand::Rng::with_seed(scenario.seed),
        };
        for cpu in 0..n {
            machine.accounts.set_idle(cpu, true, 0);
        }
        machine.set_weights(scenario.policy);
        machine.set_cpusets();
        machine.start();
        machine
    }

    fn start(&mut self) {
        self.events.push_at(self.tick_ns, Event::Tick);
        self.events.push_at(WINDOW_NS, Event::Window);
        if self.lender.lends() {
            self.events.push_at(STEP_NS, Event::Step);
        }
        for thread in 0..self.threads.len() {
            let at = self.threads[thread].first_wake_ns(&mut self.random);
            self.threads[thread].next_run(&mut self.random);
            self.events.push_at(at, Event::Wake { thread });
        }
    }

    /// Simulates the warm-up and then `duration_ns`; returns `None` if `go_on` ends it.
    pub fn run(mut self, duration_ns: u64, go_on: &dyn Fn() -> bool) -> Option<Counts> {
        let begin = WARM_UP.as_nanos() as u64;
        // The windows of the diagnosis begin with the accounts.
        self.events.push_at(begin, Event::WarmUpDone);
        self.run_until(begin + duration_ns, go_on)
            .then(|| self.finish())
    }

    /// Simulates until `end_ns`; returns false if `go_on` has ended it.
    fn run_until(&mut self, end_ns: u64, go_on: &dyn Fn() -> bool) -> bool {
        while let Some((time, event)) = self.events.next(end_ns) {
            if event == Event::Tick && !go_on() {
                return false;
            }
            self.now_ns = time;
            self.handle(event);
            self.reschedule_pending();
        }
        self.now_ns = end_ns;
        true
    }

    /// Handles one event.
    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick => self.tick(),
            Event::RunDone { cpu, switches } => self.run_done(cpu, switches),
            Event::Wake { thread } => self.wake(thread),
            Event::Period { group } => self.period(group),
            Event::Slack { group } => self.slack(group),
            Event::Step => {
                self.step();
                self.events.push_at(self.now_ns + STEP_NS, Event::Step);
            }
            Event::Window => {
                self.update_all();
                self.accounts
                    .end_window(self.now_ns, |tenant| &self.allowed[tenant]);
                self.events.push_at(self.now_ns + WINDOW_NS, Event::Window);
            }
            Event::WarmUpDone => {
                self.update_all();
                self.accounts.begin(self.now_ns);
            }
        }
    }

    /// Lets every pending CPU choose its running thread again.
    fn reschedule_pending(&mut self) {
        while let Some(cpu) = self.pending.pop() {
            self.reschedule(cpu);
        }
    }

    /// Accounts the time of all CPUs up to now.
    fn update_all(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.update(cpu);
        }
    }

    fn finish(mut self) -> Counts {
        self.update_all();
        self.accounts
            .end_window(self.now_ns, |tenant| &self.allowed[tenant]);
        let idle_ns = self.accounts.idle_ns();
        let accounts = std::mem::take(&mut self.accounts.tenants);
        let tenants = accounts
            .into_iter()
            .enumerate()
            .map(|(tenant, account)| TenantCounts {
                time: account.time,
                rounds: account.rounds,
                delays: account.delays,
                is_placed: self.lender.is_placed(tenant),
                lendings: self.lender.lendings(tenant),
            });
        Counts {
            tenants: tenants.collect(),
            idle_ns,
            plan: self.lender.plan().clone(),
            impossible: self.lender.impossible().to_vec(),
        }
    }

    /// Cgroup of a tenant.
    fn group(&self, tenant: usize) -> usize {
        1 + self.tenants.groups.len() + tenant
    }
}
