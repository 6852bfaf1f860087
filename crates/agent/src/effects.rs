//! Changes of the host that the agent makes, behind one interface.

use crate::config::Config;
use crate::rules::changes_host;
use cofferdam_enforce::network::NetworkOptions;
use cofferdam_enforce::reservation::ReservationOptions;
use cofferdam_enforce::{ContainerPolicy, EnforceError, EnforceOptions, Enforcer, RevertReport};
use cofferdam_types::{
    ContainerStatus, CpuAmount, CpuPolicy, Degradation, EnforcementStatus, Interval, NetworkCpu,
};
use std::path::Path;

/// Result of reverting all changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevertResult {
    /// Number of reverted changes.
    pub changes: u64,
    /// Reverted changes whose old value the kernel refuses and which got another value of the same
    /// effect, one line each.
    pub instead: Vec<String>,
    /// Changes that another program has overwritten since and that were left alone, one line each.
    pub left_alone: Vec<String>,
    /// Changes that could not be reverted, one line each.
    pub failures: Vec<String>,
}

/// Applies classes to the host, and reverts them.
pub trait Effects {
    /// Sets every container with its classes, including those without effect. Reverts what was
    /// wanted before and no longer is.
    fn set(&mut self, wanted: Vec<ContainerPolicy>);

    /// Takes one control step with the interval since the last.
    fn step(&mut self, interval: &Interval);

    /// Promises CPUs to a container that its runtime is about to create;
    /// [`Effects::apply_promises`] must follow. Returns the CPUs, as a list.
    ///
    /// # Errors
    /// The reason why the promise cannot be kept.
    fn promise(
        &mut self,
        _container: &str,
        _cgroup_path: &Path,
        _amount: CpuAmount,
    ) -> Result<String, String> {
        Err("nothing can be reserved".to_owned())
    }

    /// Withdraws the promise to a container that will not come. Returns false if there was none;
    /// otherwise [`Effects::apply_promises`] must follow.
    fn cancel_promise(&mut self, _container: &str) -> bool {
        false
    }

    /// Moves all other tasks off the promised CPUs.
    fn apply_promises(&mut self) {}

    /// Whether CPUs are reserved or promised.
    fn reserves(&self) -> bool {
        false
    }

    /// Whether the next step must follow soon because a container pays for others.
    fn needs_close_steps(&self) -> bool {
        false
    }

    /// Whether the next step needs current CPU use.
    fn needs_usage(&self) -> bool {
        false
    }

    /// Whether a step might act if the load of `seen`, a sample of the time, lasted.
    fn may_act_on(&self, _seen: &Interval) -> bool {
        false
    }

    /// Whether steps may be skipped while next to nothing is spent on packets.
    fn can_rest(&self) -> bool {
        false
    }

    /// Classes in force, and the reasons why others are not.
    fn status(&self) -> EnforcementStatus;

    /// Reverts every change.
    fn revert(self: Box<Self>) -> RevertResult;
}

/// Observes and changes nothing. Reports each rule that asks for a change as not in force, with the
/// reason.
#[derive(Debug)]
pub struct ObserveOnly {
    why: Degradation,
    wanted: Vec<ContainerPolicy>,
}

impl ObserveOnly {
    /// `why` is reported for each container that a rule would change.
    pub fn new(why: Degradation) -> ObserveOnly {
        ObserveOnly {
            why,
            wanted: Vec::new(),
        }
    }
}

impl Effects for ObserveOnly {
    fn set(&mut self, wanted: Vec<ContainerPolicy>) {
        self.wanted = wanted;
    }

    fn step(&mut self, _: &Interval) {}

    fn status(&self) -> EnforcementStatus {
        let container = |wanted: &ContainerPolicy| ContainerStatus {
            cgroup: wanted.container.cgroup,
            name: wanted.container.name.clone(),
            policy: wanted.policy,
            network: None,
            reservation: None,
            degraded: vec![self.why.clone()],
        };
        let changing = self.wanted.iter().filter(|w| changes_host(&w.policy));
        EnforcementStatus {
            containers: changing.map(container).collect(),
            ..EnforcementStatus::default()
        }
    }

    fn revert(self: Box<Self>) -> RevertResult {
        RevertResult::default()
    }
}

/// Options of the enforcer according to the configuration.
pub(crate) fn options(config: &Config) -> EnforceOptions {
    EnforceOptions {
        network: NetworkOptions {
            debt_bound: config.enforcement.debt_bound,
            ..NetworkOptions::default()
        },
        reservation: ReservationOptions {
            lending: config.reservation.lend,
            move_irqs: config.reservation.move_irqs,
            ..ReservationOptions::default()
        },
        ..EnforceOptions::default()
    }
}

/// Enforcement on this host.
pub(crate) struct HostEffects(Enforcer);

impl HostEffects {
    /// Takes over the host's enforcement. Reverts first what an earlier process left.
    pub fn open(config: &Config) -> Result<HostEffects, EnforceError> {
        let enforcer = Enforcer::open(options(config))?;
        let left = RevertResult::from(enforcer.leftover());
        left.log("an earlier agent had left changes");
        Ok(HostEffects(enforcer))
    }
}

impl Effects for HostEffects {
    fn set(&mut self, wanted: Vec<ContainerPolicy>) {
        self.0.set(wanted);
    }

    fn step(&mut self, interval: &Interval) {
        self.0.step(interval);
    }

    fn promise(
        &mut self,
        container: &str,
        cgroup_path: &Path,
        amount: CpuAmount,
    ) -> Result<String, String> {
        self.0.promise(container, cgroup_path, amount)
    }

    fn cancel_promise(&mut self, container: &str) -> bool {
        self.0.cancel_promise(container)
    }

    fn apply_promises(&mut self) {
        self.0.reconcile_reservations();
    }

    fn reserves(&self) -> bool {
        self.0.reserves()
    }

    fn needs_close_steps(&self) -> bool {
        self.0.needs_close_steps()
    }

    fn needs_usage(&self) -> bool {
        self.0.needs_usage()
    }

    fn may_act_on(&self, seen: &Interval) -> bool {
        self.0.may_act_on(seen)
    }

    fn can_rest(&self) -> bool {
        self.0.may_rest()
    }

    fn status(&self) -> EnforcementStatus {
        let mut status = self.0.status();
        status.containers.retain(|c| {
            let touched = c.network.is_some() || c.reservation.is_some();
            touched || !c.degraded.is_empty() || changes_host(&c.policy)
        });
        status
            .containers
            .iter_mut()
            .for_each(add_missing_degradations);
        status
    }

    fn revert(self: Box<Self>) -> RevertResult {
        RevertResult::from(&self.0.revert())
    }
}

/// Adds a degradation to a container with a class of which nothing is in force and nothing is
/// reported.
fn add_missing_degradations(container: &mut ContainerStatus) {
    if !container.degraded.is_empty() {
        return;
    }
    let mut lacks = |name: &str, text: &str| {
        container.degraded.push(Degradation {
            name: name.to_owned(),
            text: text.to_owned(),
        });
    };
    if container.policy.network_cpu == NetworkCpu::Enforce && container.network.is_none() {
        lacks(
            "not_enforced",
            "its network CPU is not enforced: no mechanism has been activated yet",
        );
    }
    if container.policy.cpu != CpuPolicy::Standard && container.reservation.is_none() {
        lacks(
            "not_reserved",
            "its CPUs are not reserved: no reservation has been made yet",
        );
    }
}

impl From<&RevertReport> for RevertResult {
    fn from(report: &RevertReport) -> RevertResult {
        let failures = report.failed.iter().chain(&report.damage);
        RevertResult {
            changes: report.reverted,
            instead: report.instead.clone(),
            left_alone: report.foreign.clone(),
            failures: failures.cloned().collect(),
        }
    }
}

impl RevertResult {
    /// Logs the result, or nothing if nothing was reverted.
    pub(crate) fn log(&self, what: &str) {
        if *self != RevertResult::default() {
            tracing::info!("{what}: {} reverted", self.changes);
        }
        for text in &self.instead {
            tracing::info!("{text}");
        }
        for text in &self.left_alone {
            tracing::info!("left alone, changed by another program since: {text}");
        }
        for text in &self.failures {
            tracing::error!("could not revert: {text}");
        }
    }
}
