//! Applies network-CPU enforcement (Iron: charge, return and stop) and reservations (rKube) to the
//! host. Idempotent; reverts all changes, even after a crash: see [`journal`].

mod cpus;
mod device;
mod error;
pub mod journal;
pub mod network;
pub mod reservation;
mod thread;
mod ticks;
mod tuning;

pub use error::EnforceError;
pub use journal::RevertReport;

use cofferdam_host::{CgroupLayout, HostFs};
use cofferdam_types::{
    CgroupId, Container, ContainerStatus, CpuAmount, CpuPolicy, Degradation, EnforcementStatus,
    Interval, NetworkCpu, Policy, ReservationState,
};
use journal::Journal;
use network::{NetworkEnforcer, NetworkOptions};
use reservation::{Request, ReservationContainer, ReservationOptions, Reservations};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Settings of enforcement.
#[derive(Clone, Debug)]
pub struct EnforceOptions {
    /// Folder of the journal and its lock; default `/run/cofferdam`.
    pub folder: PathBuf,
    /// Settings of network-CPU enforcement.
    pub network: NetworkOptions,
    /// Settings of CPU reservations.
    pub reservation: ReservationOptions,
}

impl Default for EnforceOptions {
    fn default() -> Self {
        EnforceOptions {
            folder: journal::FOLDER.into(),
            network: NetworkOptions::default(),
            reservation: ReservationOptions::default(),
        }
    }
}

/// Container with its policy.
#[derive(Clone, Debug)]
pub struct ContainerPolicy {
    /// The container.
    pub container: Arc<Container>,
    /// Classes of the container.
    pub policy: Policy,
    /// Whether its reserved CPUs may be lent while idle; the host's option may forbid it.
    pub lends: bool,
    /// CPU list with which its runtime created it because of [`Enforcer::promise`].
    pub created_on: Option<String>,
}

impl ContainerPolicy {
    /// Returns a container with these classes and default settings.
    pub fn new(container: Arc<Container>, policy: Policy) -> ContainerPolicy {
        ContainerPolicy {
            container,
            policy,
            lends: true,
            created_on: None,
        }
    }
}

/// Enforcement on this host; at most one at a time. Dropping it leaves the changes in force for the
/// next process to revert: call [`Enforcer::revert`] instead.
pub struct Enforcer {
    journal: Journal,
    network: NetworkEnforcer,
    reservations: Reservations,
    wanted: Vec<ContainerPolicy>,
    leftover: RevertReport,
    last_step: Duration,
}

impl Enforcer {
    /// Takes the lock, and reverts the changes that an earlier process left in force.
    ///
    /// # Errors
    /// Fails if another process enforces, the journal cannot be used, or the host's cgroups cannot
    /// be read.
    pub fn open(options: EnforceOptions) -> Result<Enforcer, EnforceError> {
        let (journal, leftover) = Journal::open(&options.folder)?;
        let layout = CgroupLayout::read(&HostFs::host())?;
        Ok(Enforcer {
            journal,
            network: NetworkEnforcer::new(options.network, layout),
            reservations: Reservations::new(HostFs::host(), options.reservation)?,
            wanted: Vec::new(),
            leftover,
            last_step: Duration::ZERO,
        })
    }

    /// Report of the changes of an earlier process that [`Enforcer::open`] reverted.
    pub fn leftover(&self) -> &RevertReport {
        &self.leftover
    }

    /// Replaces the list of containers under a rule. Changes for containers that are no longer in
    /// `wanted` are reverted at once; new containers begin with the next step.
    pub fn set(&mut self, wanted: Vec<ContainerPolicy>) {
        let enforce = wanted
            .iter()
            .filter(|w| w.policy.network_cpu == NetworkCpu::Enforce);
        let containers: Vec<Arc<Container>> = enforce.map(|w| w.container.clone()).collect();
        let reserved = wanted
            .iter()
            .filter(|w| w.policy.cpu != CpuPolicy::Standard)
            .map(|w| w.container.cgroup)
            .collect();
        self.network.set(&mut self.journal, &containers, &reserved);
        self.wanted = wanted;
        self.reconcile_reservations();
    }

    /// Promises CPUs to a container that its runtime is about to create;
    /// [`Enforcer::reconcile_reservations`] must follow before it runs. `cgroup_path` is the future
    /// path of its cgroup, empty if unknown. Returns the CPUs as a list. Changes nothing on the
    /// host.
    ///
    /// # Errors
    /// Returns the reason why the promise cannot be kept, and a remedy.
    pub fn promise(
        &mut self,
        container: &str,
        cgroup_path: &Path,
        amount: CpuAmount,
    ) -> Result<String, String> {
        let (reservations, journal) = (&mut self.reservations, &self.journal);
        reservations.promise(journal, container, cgroup_path, amount)
    }

    /// Cancels the promise to a container that will not come; returns whether there was one.
    /// [`Enforcer::reconcile_reservations`] then returns its CPUs to the others.
    pub fn cancel_promise(&mut self, container: &str) -> bool {
        self.reservations.cancel_promise(container)
    }

    /// Makes the other containers leave promised CPUs, and return to CPUs that are no longer
    /// promised.
    pub fn reconcile_reservations(&mut self) {
        let mut strict = Vec::new();
        let mut standard = Vec::new();
        for one in &self.wanted {
            let target = ReservationContainer {
                container: one.container.clone(),
                cpus: one.created_on.clone(),
            };
            match one.policy.cpu {
                CpuPolicy::Strict(amount) => strict.push(Request {
                    target,
                    amount,
                    lends: one.lends,
                }),
                CpuPolicy::Standard => standard.push(target),
            }
        }
        // Without a reservation no container has to leave CPUs.
        if strict.is_empty() && !self.reservations.has_promises() {
            standard.retain(|target| target.cpus.is_some());
        }
        let journal = &mut self.journal;
        self.reservations.reconcile(journal, &strict, &standard);
    }

    /// Whether CPUs are reserved or promised.
    pub fn reserves(&self) -> bool {
        !self.reservations.is_empty()
    }

    /// Acts on the accounting's measurements since the last step; an interval of 10 to 100 ms makes
    /// sense.
    pub fn step(&mut self, interval: &Interval) {
        let start = Instant::now();
        self.network.step(&mut self.journal, interval);
        self.reservations.step(&mut self.journal, start);
        self.last_step = start.elapsed();
    }

    /// Whether the next steps must follow closely: a container is charged for others' packets, or
    /// means are in force. Otherwise a fifth of the steps is enough.
    pub fn needs_close_steps(&self) -> bool {
        self.network.needs_close_steps()
    }

    /// Whether the next step needs the containers' current CPU use: a competitor of an offender has
    /// appeared whose use is unknown. Set for a few steps in half a second at most.
    pub fn needs_usage(&self) -> bool {
        self.network.needs_usage()
    }

    /// Whether a step might act if an interval such as `interval`, however short, continued.
    /// [`Enforcer::step`] itself must not be given a sample.
    pub fn may_act_on(&self, interval: &Interval) -> bool {
        self.network.may_act_on(interval)
    }

    /// Whether steps may be skipped, for a second at most, while hardly any time is spent on
    /// packets: nothing in force needs more frequent checks.
    pub fn may_rest(&self) -> bool {
        !self.needs_close_steps() && self.reservations.is_empty()
    }

    /// Current state of enforcement.
    pub fn status(&self) -> EnforcementStatus {
        let reservations: HashMap<CgroupId, (ReservationState, Vec<Degradation>)> = self
            .reservations
            .states()
            .map(|(id, state, degraded)| (id, (state, degraded)))
            .collect();
        let status = |wanted: &ContainerPolicy| {
            let reserved = reservations.get(&wanted.container.cgroup);
            self.status_of(wanted, reserved)
        };
        EnforcementStatus {
            containers: self.wanted.iter().map(status).collect(),
            degraded: {
                let mut degraded = self.reservations.degraded().to_vec();
                degraded.extend(self.network.unprotected());
                degraded.extend(self.network.estimated_interrupt_cost());
                degraded
            },
            changes_in_force: self.journal.in_force() + self.network.attached(),
            failed_changes: self.journal.failed_changes(),
            last_step: self.last_step,
        }
    }

    fn status_of(
        &self,
        wanted: &ContainerPolicy,
        reserved: Option<&(ReservationState, Vec<Degradation>)>,
    ) -> ContainerStatus {
        let container = &wanted.container;
        let strict = wanted.policy.cpu != CpuPolicy::Standard;
        let mut degraded = reserved.map_or_else(Vec::new, |(_, degraded)| degraded.clone());
        degraded.extend(self.network.degraded(container.cgroup));
        ContainerStatus {
            cgroup: container.cgroup,
            name: container.name.clone(),
            policy: wanted.policy,
            network: self.network.status(container.cgroup),
            reservation: reserved.filter(|_| strict).map(|(state, _)| state.clone()),
            degraded,
        }
    }

    /// Reverts all changes, and releases the lock.
    pub fn revert(mut self) -> RevertReport {
        let mut report = self.network.revert_napi_threads(&mut self.journal);
        // Failed changes are still in the journal; they are retried here and reported then.
        report.failed.clear();
        report.add(self.journal.revert_all());
        // Dropping the rest detaches the programs.
        report
    }
}

/// Reverts the changes that a killed process left in force.
///
/// # Errors
/// Fails if a process is enforcing now, or the journal cannot be read.
pub fn revert_leftover(options: &EnforceOptions) -> Result<RevertReport, EnforceError> {
    let (_journal, report) = Journal::open(&options.folder)?;
    Ok(report)
}
