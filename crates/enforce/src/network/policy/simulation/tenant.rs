//! Container of the simulated host: its packets, its tasks, and the means in force for it.

use super::bucket::Bucket;
use super::traffic::Traffic;
use crate::network::policy::facts::PacketCounts;
use crate::network::policy::{
    Action, Active, BilledInterval, ContainerFacts, Correction, CorrectionState, Limiting,
    NapiPlace, OwnQuota, Packets,
};
use cofferdam_types::Container;
use std::sync::Arc;
use std::time::Duration;

/// Most datagrams that wait for a NAPI thread or the application.
pub(super) const QUEUE: f64 = 256.0;
/// Most packets of a stream that wait: a full receive window (6 MiB, Linux's `tcp_rmem`).
pub(super) const WINDOW: f64 = 4_096.0;

/// Cost of a packet, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Cost on the host, always in softirqs.
    pub host: f64,
    /// Cost at the container's interface, in softirqs or in its NAPI thread.
    pub receive: f64,
    /// Cost in the application.
    pub application: f64,
    /// Cost of dropping it where it enters the host.
    pub dropping: f64,
}

impl Cost {
    pub fn all(&self) -> f64 {
        self.host + self.receive + self.application
    }
}

/// Relation of a tenant to the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TenantKind {
    /// Container under a rule.
    #[default]
    Enforced,
    /// Container without a rule, or host cgroup.
    Observed,
    /// Task of an unknown cgroup.
    Unknown,
}

/// Container of the simulated host.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub container: Arc<Container>,
    pub kind: TenantKind,
    pub base_weight: f64,
    /// Part of the time in which it also computes.
    pub computes: f64,
    pub traffic: Option<Traffic>,
    pub cost: Cost,
    /// Quota with a period of 100 ms, CPUs.
    pub quota_cpus: Option<f64>,
    pub weight: CorrectionState,
    pub quota: CorrectionState,
    pub bucket: Bucket,
    /// Moment at which its NAPI thread is in place.
    pub napi_at: Option<Duration>,
    pub vruntime: f64,
    pub napi_queue: f64,
    pub application_queue: f64,
    pub period_ns: f64,
    /// Time for computing and for its packets since the start, nanoseconds.
    pub work_ns: f64,
    /// Network CPU that it caused since the start, nanoseconds.
    pub caused_ns: f64,
    /// Part of `caused_ns` that went into dropped packets.
    pub dropping_ns: f64,
    /// Packets that its application has taken since the start.
    pub done: f64,
    pub step_use: StepUse,
}

/// Use since the last step: nanoseconds, and a number of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepUse {
    pub caused: f64,
    pub charged: f64,
    pub billed: f64,
    pub napi: f64,
    pub packets: f64,
}

impl Tenant {
    pub fn new(id: u64, base_weight: f64, computes: f64) -> Tenant {
        Tenant {
            container: super::container(id),
            kind: TenantKind::Enforced,
            base_weight,
            computes,
            traffic: None,
            cost: Cost {
                host: 0.0,
                receive: 0.0,
                application: 0.0,
                dropping: 0.0,
            },
            quota_cpus: None,
            weight: CorrectionState {
                base: Some(base_weight),
                written: None,
            },
            quota: CorrectionState::default(),
            bucket: Bucket::default(),
            napi_at: None,
            vruntime: 0.0,
            napi_queue: 0.0,
            application_queue: 0.0,
            period_ns: 0.0,
            work_ns: 0.0,
            caused_ns: 0.0,
            dropping_ns: 0.0,
            done: 0.0,
            step_use: StepUse::default(),
        }
    }

    /// Time for work and packets since the start, nanoseconds.
    pub fn uses_ns(&self) -> f64 {
        self.work_ns + self.caused_ns
    }

    /// Size of its packets: full segments, or small datagrams.
    pub fn packet_bytes(&self) -> u64 {
        let is_stream = self.traffic.as_ref().is_some_and(Traffic::is_stream);
        if is_stream { 1_448 } else { 500 }
    }

    pub fn weight_now(&self) -> f64 {
        let written = self.weight.written.map_or(self.base_weight, |w| w.value);
        written.round().max(1.0)
    }

    /// Pending work, nanoseconds; infinite while it computes.
    pub fn ready_ns(&self, computing: bool) -> f64 {
        if computing {
            return f64::INFINITY;
        }
        self.napi_queue * self.cost.receive + self.application_queue * self.cost.application
    }

    pub fn quota_us(&self) -> Option<f64> {
        let cpus = self.quota_cpus?;
        Some(self.quota.written.map_or(cpus * 100_000.0, |w| w.value))
    }

    pub fn is_throttled(&self) -> bool {
        self.quota_us().is_some_and(|us| self.period_ns >= us * 1e3)
    }

    /// Runs for up to `ns` undisturbed. Returns the time that it needs of that.
    pub fn run(&mut self, ns: f64, computing: bool) -> f64 {
        let (receive, application) = (self.cost.receive, self.cost.application);
        let mut left = ns;
        // The thread and the tasks have equal weights.
        let napi_may = match self.application_queue > 0.0 || computing {
            true => ns / 2.0,
            false => ns,
        };
        let napi = (self.napi_queue * receive).min(napi_may);
        self.napi_queue -= napi / receive.max(1.0);
        let arrived = napi / receive.max(1.0);
        self.application_queue = (self.application_queue + arrived).min(WINDOW);
        self.step_use.napi += napi;
        self.step_use.caused += napi;
        self.caused_ns += napi;
        // A NAPI thread's time is charged to its container.
        self.step_use.charged += napi;
        left -= napi;
        let work = (self.application_queue * application).min(left);
        self.application_queue -= work / application.max(1.0);
        self.done += work / application.max(1.0);
        self.work_ns += work;
        left -= work;
        if computing {
            self.work_ns += left;
            left = 0.0;
        }
        ns - left
    }

    /// Facts about the tenant for the policy.
    pub fn facts(&mut self, active: Active) -> ContainerFacts {
        let limited = self.bucket.spending.is_some();
        ContainerFacts {
            active,
            is_alive: true,
            billed: BilledInterval {
                all_ns: self.step_use.billed,
                by_cpu_ns: vec![self.step_use.billed],
            },
            napi_ns: self.step_use.napi as u64,
            quota_cpus: self.quota_cpus,
            quota_period: Duration::from_millis(100),
            own_quota: self.quota_cpus.map(|cpus| OwnQuota {
                quota_us: cpus * 100_000.0,
                period_us: 100_000.0,
            }),
            weight: Some(self.weight),
            quota: self.quota,
            limiting: Limiting {
                received: limited,
                sent: false,
                counts: match limited {
                    true => self.bucket.counts(),
                    false => PacketCounts::default(),
                },
            },
        }
    }

    /// Applies a decision; NAPI threads take `napi_lag` to be in place.
    pub fn apply(&mut self, action: &Action, now: Duration, napi_lag: Duration) {
        let settings = match action {
            Action::Nothing => return,
            Action::Revert => {
                self.bucket = Bucket::default();
                (self.weight.written, self.quota.written) = (None, None);
                self.napi_at = None;
                return;
            }
            Action::Enforce(settings) => settings,
        };
        match &settings.packets {
            Packets::Unchanged => {}
            Packets::Limited(limit) => self.bucket.spending = Some(limit.spending),
            Packets::Unlimited => self.bucket.spending = None,
        }
        if let Some(value) = settings.weight {
            self.weight.written = Some(Correction { value, at: now });
        }
        if let Some(value) = settings.quota_us {
            // Writing a quota refills it.
            self.quota.written = Some(Correction { value, at: now });
            self.period_ns = 0.0;
        }
        match settings.napi {
            NapiPlace::Unchanged => {}
            NapiPlace::Removed => self.napi_at = None,
            NapiPlace::InContainer => {
                self.napi_at.get_or_insert(now + napi_lag);
            }
        }
    }
}
