//! Applies charge, return and stop (Iron) and reservations (rKube) to the host. Idempotent; can
//! take everything back, also after a crash: see [`journal`].

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
pub use journal::UndoReport;

use cofferdam_host::{CgroupLayout, HostFs};
use cofferdam_types::{
    CgroupId, Container, ContainerStatus, CpuAmount, CpuPolicy, Degradation, EnforcementStatus,
    Interval, NetworkCpu, Policy, ReservationState,
};
use journal::Journal;
use network::{Network, NetworkOptions};
use reservation::{Given, Request, ReservationOptions, Reservations};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How to enforce.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of the journal and its lock; default `/run/cofferdam`.
    pub folder: PathBuf,
    /// Network CPU.
    pub network: NetworkOptions,
    /// CPU reservations.
    pub reservation: ReservationOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            folder: journal::FOLDER.into(),
            network: NetworkOptions::default(),
            reservation: ReservationOptions::default(),
        }
    }
}

/// One container and what is wanted of it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which.
    pub container: Arc<Container>,
    /// Its classes.
    pub policy: Policy,
    /// Whether its reserved CPUs may be lent while they sit idle; a host's option may forbid it.
    pub lends: bool,
    /// The CPUs, as a list, that its runtime made it with because of [`Enforcer::promise`].
    pub made_on: Option<String>,
}

impl Wanted {
    /// A container with these classes, and all else as usual.
    pub fn new(container: Arc<Container>, policy: Policy) -> Wanted {
        Wanted {
            container,
            policy,
            lends: true,
            made_on: None,
        }
    }
}

/// Enforces on this host; one at a time. Dropping it leaves the changes in force, for the next
/// one to take back: call [`Enforcer::undo`].
pub struct Enforcer {
    journal: Journal,
    network: Network,
    reservations: Reservations,
    wanted: Vec<Wanted>,
    taken_over: UndoReport,
    last_step: Duration,
}

impl Enforcer {
    /// Takes the lock, and takes back what an earlier process left in force.
    ///
    /// # Errors
    /// When another process enforces, when the journal cannot be kept, or when the host's
    /// cgroups cannot be read.
    pub fn open(options: Options) -> Result<Enforcer, EnforceError> {
        let (journal, taken_over) = Journal::open(&options.folder)?;
        let layout = CgroupLayout::read(&HostFs::host())?;
        Ok(Enforcer {
            journal,
            network: Network::new(options.network, layout),
            reservations: Reservations::new(HostFs::host(), options.reservation)?,
            wanted: Vec::new(),
            taken_over,
            last_step: Duration::ZERO,
        })
    }

    /// What [`Enforcer::open`] took back of an earlier process.
    pub fn taken_over(&self) -> &UndoReport {
        &self.taken_over
    }

    /// Sets what is wanted: every container under a rule, complete. What is not in `wanted` any
    /// more is taken back at once; what is new begins with the next step.
    pub fn set(&mut self, wanted: Vec<Wanted>) {
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
        self.settle();
    }

    /// Promises CPUs to a container that its runtime is about to make; [`Enforcer::settle`] must
    /// follow before it runs. `cgroup_path` is where its cgroup will be, empty if that is not known.
    /// Returns the CPUs, as a list. Changes nothing on the host.
    ///
    /// # Errors
    /// Why it cannot be kept, and what to do.
    pub fn promise(
        &mut self,
        container: &str,
        cgroup_path: &Path,
        amount: CpuAmount,
    ) -> Result<String, String> {
        let (reservations, journal) = (&mut self.reservations, &self.journal);
        reservations.promise(journal, container, cgroup_path, amount)
    }

    /// The container that was promised CPUs will not come. False when it was not promised any;
    /// otherwise [`Enforcer::settle`] gives them to the others again.
    pub fn withdraw(&mut self, container: &str) -> bool {
        self.reservations.withdraw(container)
    }

    /// Has everybody leave the CPUs that are promised, and come back to those that are no more.
    pub fn settle(&mut self) {
        let mut strict = Vec::new();
        let mut standard = Vec::new();
        for one in &self.wanted {
            let given = Given {
                container: one.container.clone(),
                cpus: one.made_on.clone(),
            };
            match one.policy.cpu {
                CpuPolicy::Strict(amount) => strict.push(Request {
                    given,
                    amount,
                    lends: one.lends,
                }),
                CpuPolicy::Standard => standard.push(given),
            }
        }
        // Without a reservation nobody has to make room.
        if strict.is_empty() && !self.reservations.has_promises() {
            standard.retain(|given| given.cpus.is_some());
        }
        let journal = &mut self.journal;
        self.reservations.reconcile(journal, &strict, &standard);
    }

    /// Whether CPUs are reserved, or promised.
    pub fn reserves(&self) -> bool {
        !self.reservations.is_empty()
    }

    /// Acts on what the accounting measured since the last step; 10 to 100 ms are sensible.
    pub fn step(&mut self, interval: &Interval) {
        let start = Instant::now();
        self.network.step(&mut self.journal, interval);
        self.reservations.step(&mut self.journal, start);
        self.last_step = start.elapsed();
    }

    /// Whether steps must follow each other closely: a container pays for others' packets, or means
    /// are in place. Otherwise a fifth as many do.
    pub fn is_pressed(&self) -> bool {
        self.network.is_pressed()
    }

    /// Whether the next step needs the CPU use of containers as of then: one came beside an offender, and how much it uses is
    /// not known yet. For some steps in half a second at most.
    pub fn wants_reading(&self) -> bool {
        self.network.wants_reading()
    }

    /// Whether network CPU would have to be looked at in earnest if what happened in `seen`, however short,
    /// were to go on: see [`Enforcer::step`], which must not be given a sample.
    pub fn would_look(&self, seen: &Interval) -> bool {
        self.network.would_look(seen)
    }

    /// Whether steps may be left out, a second at most, while next to nothing is spent on packets:
    /// nothing of what is in force needs looking after more often.
    pub fn may_rest(&self) -> bool {
        !self.is_pressed() && self.reservations.is_empty()
    }

    /// What is in force.
    pub fn status(&self) -> EnforcementStatus {
        let reservations: HashMap<CgroupId, (ReservationState, Vec<Degradation>)> = self
            .reservations
            .states()
            .map(|(id, state, degraded)| (id, (state, degraded)))
            .collect();
        let status = |wanted: &Wanted| {
            let reserved = reservations.get(&wanted.container.cgroup);
            self.status_of(wanted, reserved)
        };
        EnforcementStatus {
            containers: self.wanted.iter().map(status).collect(),
            degraded: {
                let mut degraded = self.reservations.degraded().to_vec();
                degraded.extend(self.network.unprotected());
                degraded.extend(self.network.estimates());
                degraded
            },
            changes_in_force: self.journal.in_force() + self.network.attached(),
            failed_changes: self.journal.failed_changes(),
            last_step: self.last_step,
        }
    }

    fn status_of(
        &self,
        wanted: &Wanted,
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

    /// Takes everything back, and gives the lock up.
    pub fn undo(mut self) -> UndoReport {
        let mut report = self.network.settle(&mut self.journal);
        // What failed is still in the journal: tried once more, and reported then.
        report.failed.clear();
        report.add(self.journal.undo_all());
        // Dropping the rest detaches the programs.
        report
    }
}

/// Takes back what a process that was killed left in force.
///
/// # Errors
/// When a process enforces right now, or the journal cannot be read.
pub fn restore(options: &Options) -> Result<UndoReport, EnforceError> {
    let (_journal, report) = Journal::open(&options.folder)?;
    Ok(report)
}
