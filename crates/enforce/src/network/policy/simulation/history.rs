//! Histories of a simulated host, generated from seeds.

use super::host::{Host, INTERRUPTS_PER_MS};
use super::tenant::{Cost, Tenant, TenantKind};
use super::traffic::{Stream, Traffic};
use crate::network::policy::{Account, Policy, Rules};
use cofferdam_types::{Container, Means, Runtime};
use std::sync::Arc;
use std::time::Duration;

/// Control period of the agent, milliseconds.
const PERIOD_MS: u64 = 20;

/// Parameters of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub seed: u64,
    /// Weights of the offender and of the victim.
    pub weights: (f64, f64),
    pub stream: bool,
    /// Largest packet rate, per millisecond.
    pub packets: f64,
    pub cost: Cost,
    /// Part of the time in which the offender also computes.
    pub offender_computes: f64,
    pub victim_computes: f64,
    /// Time until a NAPI thread is in place; `None` if that means is not allowed.
    pub napi_lag: Option<Duration>,
    pub interrupt_ns: f64,
    /// Quota of the offender, CPUs.
    pub quota_cpus: Option<f64>,
    pub victim: TenantKind,
    /// Load of a victim that is a job of several containers.
    pub job: Option<Job>,
}

/// Victim of several containers that communicate, as the executors of a batch job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// CPUs that the victim's packets take.
    pub communicates: f64,
    /// Part of the time in which the job's other container computes.
    pub sibling_computes: f64,
}

impl Plan {
    /// An offender that wants more than its share, and a victim that wants the whole CPU.
    pub fn from_seed(seed: u64) -> Plan {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut between = |low: f64, high: f64| low + random.f64() * (high - low);
        let weights = (
            [50.0, 100.0, 100.0, 200.0][between(0.0, 4.0) as usize],
            [50.0, 100.0, 100.0, 200.0][between(0.0, 4.0) as usize],
        );
        let stream = between(0.0, 1.0) < 0.4;
        let cost = Cost {
            host: between(0.0, 1.0).powi(2) * 1_500.0,
            receive: between(500.0, 3_000.0),
            application: between(300.0, 4_000.0),
            dropping: between(50.0, 300.0),
        };
        // 1.2 to 6 times the capacity of one CPU.
        let packets = 1e6 / cost.all() * between(1.2, if stream { 1.5 } else { 6.0 });
        Plan {
            seed,
            weights,
            stream,
            packets,
            cost,
            offender_computes: if between(0.0, 1.0) < 0.25 { 1.0 } else { 0.0 },
            victim_computes: 1.0,
            napi_lag: (between(0.0, 1.0) < 0.6)
                .then(|| Duration::from_millis(between(5.0, 200.0) as u64)),
            interrupt_ns: [0.0, 1_500.0][between(0.0, 2.0) as usize],
            quota_cpus: None,
            victim: TenantKind::Enforced,
            job: None,
        }
    }

    /// A plan as of [`Plan::from_seed`] with a victim that no rule enforces: a container, a host
    /// cgroup, or a task of an unknown cgroup, which competes with the default weight.
    pub fn with_unruled_victim(seed: u64) -> Plan {
        let mut plan = Plan::from_seed(seed);
        plan.victim = [TenantKind::Observed, TenantKind::Unknown][seed as usize % 2];
        if plan.victim == TenantKind::Unknown {
            plan.weights.1 = 100.0;
        }
        plan
    }

    /// An offender and a victim that together leave a quarter of the CPU idle.
    pub fn with_idle_time(seed: u64) -> Plan {
        let mut random = fastrand::Rng::with_seed(!seed);
        let plan = Plan::from_seed(seed);
        let victim_computes = random.f64() * 0.25;
        let offender_wants = 0.1 + random.f64() * (0.65 - victim_computes);
        Plan {
            stream: false,
            packets: offender_wants * 1e6 / plan.cost.all(),
            offender_computes: 0.0,
            victim_computes,
            ..plan
        }
    }

    /// An offender under a quota, on a CPU with idle time.
    pub fn under_quota(seed: u64) -> Plan {
        let mut random = fastrand::Rng::with_seed(!seed);
        Plan {
            stream: false,
            quota_cpus: Some(0.1 + random.f64() * 0.3),
            victim_computes: 0.1,
            ..Plan::from_seed(seed)
        }
    }

    /// A flood and a victim that is one container of a batch job. The victim computes with all time
    /// that it gets, which is more while its sibling pauses. Its packets take up to a quarter of
    /// its share.
    pub fn with_job(seed: u64) -> Plan {
        let mut random = fastrand::Rng::with_seed(!seed);
        let plan = Plan {
            stream: false,
            ..Plan::from_seed(seed)
        };
        let (offender, victim) = plan.weights;
        let share = victim / (offender + 2.0 * victim);
        let job = Job {
            communicates: (0.02 + 0.23 * random.f64()) * share,
            sibling_computes: 0.2 + 0.8 * random.f64(),
        };
        Plan {
            job: Some(job),
            ..plan
        }
    }

    /// Creates the host and its policy.
    pub fn begin(&self) -> History {
        let mut offender = Tenant::new(1, self.weights.0, self.offender_computes);
        offender.cost = self.cost;
        offender.quota_cpus = self.quota_cpus;
        offender.traffic = Some(match self.stream {
            true => Traffic::Stream(Stream::new(self.packets)),
            false => Traffic::Datagrams(self.packets),
        });
        let mut victim = Tenant::new(2, self.weights.1, self.victim_computes);
        victim.kind = self.victim;
        if self.victim == TenantKind::Observed && self.seed.is_multiple_of(4) {
            let of_host = Container {
                runtime: Runtime::Host,
                ..(*victim.container).clone()
            };
            victim.container = Arc::new(of_host);
        }
        let mut tenants = vec![offender, victim];
        if let Some(job) = self.job {
            let datagrams = job.communicates * 1e6 / self.cost.all();
            tenants[1].traffic = Some(Traffic::Datagrams(datagrams));
            tenants[1].cost = self.cost;
            tenants.push(Tenant::new(3, self.weights.1, job.sibling_computes));
        }
        let mut host = Host::new(tenants, self.seed);
        host.napi_lag = self.napi_lag.unwrap_or_default();
        host.interrupt_ns = self.interrupt_ns;
        let mut means = Means::ALL.to_vec();
        if self.napi_lag.is_none() {
            means.retain(|m| *m != Means::NapiThread);
        }
        let policy = host.policy(Rules {
            means,
            napi_in_container: true,
            debt_bound: Duration::from_secs(1),
            linger: Duration::from_secs(30),
        });
        History { host, policy }
    }

    /// Fair share of the victim, CPUs.
    pub fn fair(&self) -> f64 {
        let (offender, victim) = self.weights;
        victim / (offender + victim)
    }

    /// Whether the means can bound the offender to its share: dropping a flood also costs time, and
    /// a small part of the share always passes packets.
    pub fn can_be_bounded(&self) -> bool {
        let interrupts = self.interrupt_ns * INTERRUPTS_PER_MS / 1e6;
        self.dropping_cpus() + interrupts < 0.8 * (1.0 - self.fair())
    }

    /// Cost of dropping all of a flood, CPUs. A stream slows down instead.
    pub fn dropping_cpus(&self) -> f64 {
        match self.stream {
            true => 0.0,
            false => self.packets * self.cost.dropping / 1e6,
        }
    }
}

/// Running history.
pub(super) struct History {
    pub host: Host,
    pub policy: Policy,
}

impl History {
    /// Simulates `time`, with a step of the policy in every control period.
    pub fn pass(&mut self, time: Duration) {
        let end = self.host.now + time;
        while self.host.now < end {
            self.host.tick();
            let into = self.host.now.as_nanos() % (u128::from(PERIOD_MS) * 1_000_000);
            if into == 0 {
                self.host.step(&mut self.policy);
            }
        }
    }

    /// Account of the offender.
    pub fn account(&self) -> &Account {
        let offender = self.host.tenants[0].container.cgroup;
        self.policy.account(offender).expect("it is enforced")
    }

    /// Useful work of the tenant in `time`, CPUs.
    pub fn works(&mut self, tenant: usize, time: Duration) -> f64 {
        let before = self.host.tenants[tenant].work_ns;
        self.pass(time);
        (self.host.tenants[tenant].work_ns - before) / time.as_nanos() as f64
    }
}
