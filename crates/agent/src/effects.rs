//! What the agent does to the host, behind one small door.

use crate::config::Config;
use crate::rules::changes_host;
use cofferdam_enforce::network::NetworkOptions;
use cofferdam_enforce::reservation::ReservationOptions;
use cofferdam_enforce::{EnforceError, Enforcer, Options, UndoReport, Wanted};
use cofferdam_types::{
    ContainerStatus, CpuAmount, CpuPolicy, Degradation, EnforcementStatus, Interval, NetworkCpu,
};
use std::path::Path;

/// What taking everything back came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Changes reverted.
    pub changes: u64,
    /// Of these: what has another value of the same effect, because the kernel refuses the one
    /// before, one line each.
    pub instead: Vec<String>,
    /// Left alone, because another program has changed them since, one line each.
    pub left_alone: Vec<String>,
    /// What could not be reverted, one line each.
    pub failures: Vec<String>,
}

/// Puts classes in force, and takes all of it back.
pub trait Effects {
    /// Every container with its classes, including those without effect; what was wanted before and
    /// no longer is gets reverted.
    fn set(&mut self, wanted: Vec<Wanted>);

    /// One control step, with what happened since the last.
    fn step(&mut self, interval: &Interval);

    /// Promises CPUs to a container that its runtime is about to make; [`Effects::settle`] must
    /// follow. Returns the CPUs, as a list.
    ///
    /// # Errors
    /// Why it cannot be kept.
    fn promise(
        &mut self,
        _container: &str,
        _cgroup_path: &Path,
        _amount: CpuAmount,
    ) -> Result<String, String> {
        Err("nothing can be reserved".to_owned())
    }

    /// The container that was promised CPUs will not come. False when it was not promised any;
    /// otherwise [`Effects::settle`] must follow.
    fn withdraw(&mut self, _container: &str) -> bool {
        false
    }

    /// Has everybody leave CPUs that are promised.
    fn settle(&mut self) {}

    /// Whether CPUs are reserved, or promised.
    fn reserves(&self) -> bool {
        false
    }

    /// Whether the next step must follow soon: a container pays for others now.
    fn is_pressed(&self) -> bool {
        false
    }

    /// Whether the next step needs CPU use as of then.
    fn wants_reading(&self) -> bool {
        false
    }

    /// Whether a step might act if what happened in `seen`, a sample of the time, were to go on.
    fn would_look(&self, _seen: &Interval) -> bool {
        false
    }

    /// Whether steps may be left out while next to nothing is spent on packets.
    fn may_rest(&self) -> bool {
        false
    }

    /// What is in force, and what is not and why.
    fn status(&self) -> EnforcementStatus;

    /// Takes everything back.
    fn undo(self: Box<Self>) -> Undone;
}

/// Changes nothing. Where a rule asks for a change, says that it is not in force, and why.
#[derive(Debug)]
pub struct ObserveOnly {
    why: Degradation,
    wanted: Vec<Wanted>,
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
    fn set(&mut self, wanted: Vec<Wanted>) {
        self.wanted = wanted;
    }

    fn step(&mut self, _: &Interval) {}

    fn status(&self) -> EnforcementStatus {
        let container = |wanted: &Wanted| ContainerStatus {
            cgroup: wanted.container.cgroup,
            name: wanted.container.name.clone(),
            policy: wanted.policy,
            network: None,
            reservation: None,
            degraded: vec![self.why.clone()],
        };
        let asked = self.wanted.iter().filter(|w| changes_host(&w.policy));
        EnforcementStatus {
            containers: asked.map(container).collect(),
            ..EnforcementStatus::default()
        }
    }

    fn undo(self: Box<Self>) -> Undone {
        Undone::default()
    }
}

/// What an enforcer of this host shall keep to.
pub(crate) fn options(config: &Config) -> Options {
    Options {
        network: NetworkOptions {
            debt_bound: config.enforcement.debt_bound,
            ..NetworkOptions::default()
        },
        reservation: ReservationOptions {
            lending: config.reservation.lend,
            move_irqs: config.reservation.move_irqs,
            ..ReservationOptions::default()
        },
        ..Options::default()
    }
}

/// Enforces on this host.
pub(crate) struct HostEffects(Enforcer);

impl HostEffects {
    /// Takes over the host's enforcement; what an earlier process left is reverted first.
    pub fn open(config: &Config) -> Result<HostEffects, EnforceError> {
        let enforcer = Enforcer::open(options(config))?;
        let left = Undone::from(enforcer.taken_over());
        left.log("an earlier agent had left changes");
        Ok(HostEffects(enforcer))
    }
}

impl Effects for HostEffects {
    fn set(&mut self, wanted: Vec<Wanted>) {
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

    fn withdraw(&mut self, container: &str) -> bool {
        self.0.withdraw(container)
    }

    fn settle(&mut self) {
        self.0.settle();
    }

    fn reserves(&self) -> bool {
        self.0.reserves()
    }

    fn is_pressed(&self) -> bool {
        self.0.is_pressed()
    }

    fn wants_reading(&self) -> bool {
        self.0.wants_reading()
    }

    fn would_look(&self, seen: &Interval) -> bool {
        self.0.would_look(seen)
    }

    fn may_rest(&self) -> bool {
        self.0.may_rest()
    }

    fn status(&self) -> EnforcementStatus {
        let mut status = self.0.status();
        status.containers.retain(|c| {
            let touched = c.network.is_some() || c.reservation.is_some();
            touched || !c.degraded.is_empty() || changes_host(&c.policy)
        });
        status.containers.iter_mut().for_each(say_what_lacks);
        status
    }

    fn undo(self: Box<Self>) -> Undone {
        Undone::from(&self.0.undo())
    }
}

/// A class of which nothing at all is in force is never passed over in silence.
fn say_what_lacks(container: &mut ContainerStatus) {
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

impl From<&UndoReport> for Undone {
    fn from(report: &UndoReport) -> Undone {
        let failures = report.failed.iter().chain(&report.damage);
        Undone {
            changes: report.restored,
            instead: report.instead.clone(),
            left_alone: report.foreign.clone(),
            failures: failures.cloned().collect(),
        }
    }
}

impl Undone {
    /// Logs the result; nothing if there was nothing to revert.
    pub(crate) fn log(&self, what: &str) {
        if *self != Undone::default() {
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
