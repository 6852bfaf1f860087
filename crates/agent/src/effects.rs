//! What the agent does to the host, behind one small door.

use cofferdam_types::{Container, ContainerStatus, Degraded, EnforcementStatus, Interval, Policy};
use std::sync::Arc;

/// A container and the classes that it shall have.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Who.
    pub container: Arc<Container>,
    /// Its classes.
    pub policy: Policy,
}

/// What taking everything back came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Changes taken back.
    pub changes: u64,
    /// What could not be taken back, one line each.
    pub failures: Vec<String>,
}

/// Puts classes in force, and takes all of it back.
pub trait Effects {
    /// The complete desired set; what was wanted before and is not in it is taken back.
    fn set(&mut self, wanted: Vec<Wanted>);

    /// One control step, with what happened since the last.
    fn step(&mut self, interval: &Interval);

    /// What is in force, and what is not and why.
    fn status(&self) -> EnforcementStatus;

    /// Takes everything back.
    fn undo(self: Box<Self>) -> Undone;
}

/// Changes nothing. Where a rule asks for a change, says that it is not in force, and why.
#[derive(Debug)]
pub struct ObserveOnly {
    why: Degraded,
    wanted: Vec<Wanted>,
}

impl ObserveOnly {
    /// `why` is told for each container that a rule would change.
    pub fn new(why: Degraded) -> ObserveOnly {
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
        EnforcementStatus {
            containers: self.wanted.iter().map(container).collect(),
            ..EnforcementStatus::default()
        }
    }

    fn undo(self: Box<Self>) -> Undone {
        Undone::default()
    }
}
