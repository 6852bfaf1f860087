//! One CPU with fair scheduling by weight, softirqs that run in the time of the running task,
//! quotas, and the effects of the means.

use super::tenant::{QUEUE, StepUse, Tenant, TenantKind, WINDOW};
use super::traffic::Outcome;
use crate::network::policy::{
    Active, ContainerFacts, Facts, IdleParts, InterruptionCosts, Policy, Rules,
};
use cofferdam_types::{CgroupId, ContainerLedger, CpuTime, Interval, Ledger};
use std::time::Duration;

/// Length of a simulated tick, nanoseconds.
const TICK_NS: f64 = 500_000.0;
const TICK_MS: f64 = TICK_NS / 1e6;
/// Most weighted time by which a woken task is ahead of the others, nanoseconds.
const SLEEPER_NS: f64 = 1_500_000.0;
/// Part of a tick that softirqs may take; packets beyond it are lost before they cost anything.
const MOST_SOFTIRQ: f64 = 0.95;
/// Most receive interrupts per millisecond: further packets arrive while one is handled.
pub(super) const INTERRUPTS_PER_MS: f64 = 4.0;
/// Simulated host.
pub(super) struct Host {
    pub tenants: Vec<Tenant>,
    pub now: Duration,
    /// Time until a NAPI thread is in place.
    pub napi_lag: Duration,
    /// Cost of a receive interrupt beyond the time that the ledger sees, nanoseconds.
    pub interrupt_ns: f64,
    pub random: fastrand::Rng,
    idle_since_ns: f64,
    interruptions: f64,
    softirq_ns: f64,
    napi_ns: f64,
    last_step: Duration,
}

impl Host {
    pub fn new(tenants: Vec<Tenant>, seed: u64) -> Host {
        Host {
            tenants,
            now: Duration::ZERO,
            napi_lag: Duration::ZERO,
            interrupt_ns: 0.0,
            random: fastrand::Rng::with_seed(seed),
            idle_since_ns: 0.0,
            interruptions: 0.0,
            softirq_ns: 0.0,
            napi_ns: 0.0,
            last_step: Duration::ZERO,
        }
    }

    pub fn policy(&self, rules: Rules) -> Policy {
        let mut policy = Policy::new(rules);
        let enforced = self
            .tenants
            .iter()
            .filter(|t| t.kind == TenantKind::Enforced);
        let containers: Vec<_> = enforced.map(|t| t.container.clone()).collect();
        policy.set(&containers, &Default::default());
        policy
    }

    /// Simulates one tick.
    pub fn tick(&mut self) {
        let millis = self.now.as_millis() as u64;
        let computing: Vec<bool> = self
            .tenants
            .iter()
            // Each tenant computes for a part of every 50 ms.
            .map(|t| ((millis % 50) as f64) < t.computes * 50.0)
            .collect();
        if millis.is_multiple_of(100) && self.now.subsec_nanos().is_multiple_of(1_000_000) {
            for tenant in &mut self.tenants {
                tenant.period_ns -= tenant.quota_us().unwrap_or(0.0) * 1e3;
                tenant.period_ns = tenant.period_ns.max(0.0);
            }
        }
        let (softirq_ns, interrupts_ns) = self.arrivals();
        self.softirq_ns += softirq_ns;
        self.interruptions += interrupts_ns / self.interrupt_ns.max(1.0);
        self.schedule(&computing, softirq_ns, interrupts_ns);
        self.now += Duration::from_nanos(TICK_NS as u64);
    }

    /// Handles the packets of a tick. Returns the softirq time and the time of the interrupts,
    /// nanoseconds.
    fn arrivals(&mut self) -> (f64, f64) {
        let (mut softirq, mut interrupts) = (0.0, 0.0);
        for tenant in &mut self.tenants {
            let Some(traffic) = &mut tenant.traffic else {
                continue;
            };
            let in_thread = tenant.napi_at.is_some_and(|at| at <= self.now);
            let offered = traffic.offers(TICK_MS) * self.random.f64().mul_add(0.2, 0.9);
            // A stream's window closes when nothing is read.
            let offered = match traffic.is_stream() {
                true => {
                    offered.min((WINDOW - tenant.application_queue - tenant.napi_queue).max(0.0))
                }
                false => offered,
            };
            let is_stream = traffic.is_stream();
            let chance = self.random.f64();
            let passed = tenant.bucket.pass(offered, is_stream, TICK_NS, chance);
            let each = tenant.cost.host + if in_thread { 0.0 } else { tenant.cost.receive };
            let free_ns = (TICK_NS * MOST_SOFTIRQ - softirq).max(0.0);
            let dropping = ((offered - passed) * tenant.cost.dropping).min(free_ns);
            let free_ns = free_ns - dropping;
            let handled = passed.min(free_ns / each.max(1.0));
            let caused = handled * each + dropping;
            let queue = if in_thread {
                &mut tenant.napi_queue
            } else {
                &mut tenant.application_queue
            };
            let free_ns = if is_stream { WINDOW } else { QUEUE };
            let queued = handled.min((free_ns - *queue).max(0.0));
            *queue += queued;
            tenant.step_use.caused += caused;
            tenant.caused_ns += caused;
            tenant.dropping_ns += dropping;
            tenant.step_use.packets += handled;
            softirq += caused;
            interrupts += self.interrupt_ns * offered.min(INTERRUPTS_PER_MS * TICK_MS);
            let lost = match is_stream {
                true => offered - passed,
                false => offered - queued,
            };
            traffic.learn(
                TICK_MS,
                Outcome {
                    sent: offered,
                    lost,
                },
            );
        }
        (softirq, interrupts.min(TICK_NS * (1.0 - MOST_SOFTIRQ)))
    }

    /// Divides a tick among the ready tenants; softirqs run in the time of the running one.
    fn schedule(&mut self, computing: &[bool], softirq_ns: f64, interrupts_ns: f64) {
        let useful = 1.0 - (softirq_ns + interrupts_ns) / TICK_NS;
        let mut left = TICK_NS;
        while left > 1.0 {
            let ready = self
                .tenants
                .iter()
                .enumerate()
                .filter(|(i, t)| !t.is_throttled() && t.ready_ns(computing[*i]) > 1.0);
            let least = ready
                .clone()
                .min_by(|(_, a), (_, b)| a.vruntime.total_cmp(&b.vruntime));
            let Some((next, _)) = least else {
                break;
            };
            let floor = self.tenants[next].vruntime;
            let tenant = &mut self.tenants[next];
            let wall = (tenant.ready_ns(computing[next]) / useful).min(left);
            let napi_before = tenant.step_use.napi;
            let ran = tenant.run(wall * useful, computing[next]) / useful;
            let ran = ran.clamp(1.0, wall);
            tenant.vruntime += ran / tenant.weight_now() * 100.0;
            tenant.step_use.billed += ran;
            tenant.step_use.charged += softirq_ns * ran / TICK_NS;
            tenant.period_ns += ran;
            self.napi_ns += tenant.step_use.napi - napi_before;
            left -= ran;
            for other in &mut self.tenants {
                other.vruntime = other.vruntime.max(floor - SLEEPER_NS);
            }
        }
        self.idle_since_ns += left;
    }

    /// Lets the policy take a step, and applies its decisions.
    pub fn step(&mut self, policy: &mut Policy) {
        let length = self.now - self.last_step;
        self.last_step = self.now;
        let interval = self.interval(length);
        let active = policy.attention(self.now, &interval, None);
        let idle = IdleParts {
            length,
            by_cpu: [(0, self.idle_since_ns / length.as_nanos() as f64)].into(),
        };
        if !active.is_empty() {
            let wanted = policy.weights_wanted(&idle, &active);
            let weights = wanted.into_iter().map(|path| {
                let weight = self
                    .tenants
                    .iter()
                    .find(|t| t.container.cgroup_path == path);
                (path, weight.map_or(100.0, |t| t.base_weight))
            });
            let weights = weights.collect();
            let facts = Facts {
                now: self.now,
                interval: &interval,
                interruptions: InterruptionCosts::everywhere(self.interrupt_ns),
                late_ns: Default::default(),
                weights,
                quota_stops_threads: false,
                containers: active.into_iter().map(|a| self.facts(a)).collect(),
            };
            for (cgroup, action) in policy.decide(&facts).containers {
                let (now, lag) = (self.now, self.napi_lag);
                self.tenant(cgroup).apply(&action, now, lag);
            }
        }
        policy.note_victims(&interval);
        self.idle_since_ns = 0.0;
        self.interruptions = 0.0;
        self.softirq_ns = 0.0;
        self.napi_ns = 0.0;
        for tenant in &mut self.tenants {
            tenant.step_use = StepUse::default();
        }
    }

    /// Receive softirqs in the tenant's time.
    fn interruptions_of(&self, tenant: &Tenant) -> f64 {
        self.interruptions * tenant.step_use.charged / self.softirq_ns.max(1.0)
    }

    fn interval(&self, length: Duration) -> Interval {
        let (unruled, ruled): (Vec<_>, Vec<_>) =
            (self.tenants.iter()).partition(|t| t.kind == TenantKind::Unknown);
        let cpu = CpuTime {
            charged_host_ns: unruled.iter().map(|t| t.step_use.charged as u64).sum(),
            softirq_ns: self.softirq_ns as u64,
            network_softirq_ns: self.softirq_ns as u64,
            napi_thread_ns: self.napi_ns as u64,
            interruptions: self.interruptions as u64,
            ..CpuTime::default()
        };
        let mut interval = super::interval(&[cpu], &[]);
        interval.length = length;
        interval.containers = ruled
            .into_iter()
            .map(|t| ContainerLedger {
                container: t.container.clone(),
                ledger: Ledger {
                    caused_rx_ns: t.step_use.caused as u64,
                    rx_packets: t.step_use.packets as u64,
                    rx_bytes: t.step_use.packets as u64 * t.packet_bytes(),
                    charged_network_ns: t.step_use.charged as u64,
                    cpu_usage_ns: t.step_use.billed as u64,
                    ..Ledger::default()
                },
                caused_by_cpu_ns: vec![t.step_use.caused as u64],
                charged_by_cpu_ns: vec![t.step_use.charged as u64],
                interruptions_by_cpu: vec![self.interruptions_of(t) as u64],
                received_from: std::collections::BTreeMap::new(),
            })
            .collect();
        interval
    }

    fn facts(&mut self, active: Active) -> ContainerFacts {
        self.tenant(active.cgroup).facts(active)
    }

    fn tenant(&mut self, cgroup: CgroupId) -> &mut Tenant {
        let mut tenants = self.tenants.iter_mut();
        let found = tenants.find(|t| t.container.cgroup == cgroup);
        found.expect("only tenants are enforced")
    }
}
