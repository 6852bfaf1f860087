//! Applies CPU reservations to the host: cpusets, weights, lending, interrupts.
//!
//! A strict container's cpuset is set to the CPUs that `cofferdam_reserve` plans for it within what
//! the cgroups above allow. When the kernel has given them, every standard container's cpuset loses
//! them; where the kernel refuses, no container loses any (see [`step`] and [`wants`]). Only cgroups
//! of containers are touched. Processes of the host that are in no container stay where they are:
//! the scheduler may still put them on reserved CPUs (a kernel thread that is bound to a CPU cannot
//! be moved at all), and `status` shows what they cost.
//!
//! The guarantee of a slice is by weight among the strict containers of that CPU. Lending is explained in [`cofferdam_reserve::lending`].

mod arrange;
mod cpuset;
mod irq;
mod member;
mod places;
mod promise;
mod reasons;
mod step;
mod stolen;
mod tree;
mod wants;

use crate::cpus::Cpus;
use crate::journal::Journal;
use crate::tuning::reservation::LOOK_OVER;
use cofferdam_host::{CgroupLayout, HostError, HostFs, topology};
use cofferdam_reserve::Plan;
use cofferdam_types::{CgroupId, Container, CpuAmount, Degradation, ReservationState, Topology};
use member::{Member, Strict};
use promise::Promise;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use stolen::Stolen;
use tree::Hierarchy;

/// How reservations are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationOptions {
    /// Lend reserved CPUs while their owner leaves them idle; default yes.
    pub lending: bool,
    /// Move device interrupts and receive steering off reserved CPUs; default no.
    pub move_irqs: bool,
    /// CPUs that stay for standard containers and the host; default 1.
    pub keep_cpus: u32,
}

impl Default for ReservationOptions {
    fn default() -> Self {
        ReservationOptions {
            lending: true,
            move_irqs: false,
            keep_cpus: 1,
        }
    }
}

/// A container, and what its runtime gave it on our behalf.
#[derive(Clone, Debug)]
pub struct Given {
    /// Which.
    pub container: Arc<Container>,
    /// The CPUs, as a list, that it was made with because of a promise.
    pub cpus: Option<String>,
}

/// A container that shall have CPUs of its own.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which.
    pub given: Given,
    /// How much.
    pub amount: CpuAmount,
    /// Whether its CPUs may be lent while they sit idle.
    pub lends: bool,
}

impl From<Arc<Container>> for Given {
    fn from(container: Arc<Container>) -> Given {
        Given {
            container,
            cpus: None,
        }
    }
}

impl From<(Arc<Container>, CpuAmount)> for Request {
    fn from((container, amount): (Arc<Container>, CpuAmount)) -> Request {
        Request {
            given: container.into(),
            amount,
            lends: true,
        }
    }
}

/// The reservations of a host. Every change goes through the [`Journal`], so that taking back
/// the journal takes back the reservations, also after a crash.
#[derive(Debug)]
pub struct Reservations {
    fs: HostFs,
    layout: CgroupLayout,
    /// Of cpusets; `None` where the kernel has none.
    hierarchy: Option<Hierarchy>,
    options: ReservationOptions,
    topology: Topology,
    plan: Plan,
    strict: BTreeMap<CgroupId, Strict>,
    standard: BTreeMap<CgroupId, Member>,
    order: Vec<CgroupId>,
    /// By the runtime's id of the container that is to come.
    promises: BTreeMap<String, Promise>,
    /// Promises so far.
    promised: u64,
    looked_over: Option<Instant>,
    /// Time of the last step.
    now: Option<Instant>,
    stolen: Stolen,
    degraded: Vec<Degradation>,
    /// Whether standard containers could use more CPUs than they have.
    wanted: bool,
}

impl Reservations {
    /// Reads the host's CPUs and cgroup hierarchies; changes nothing.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn new(fs: HostFs, options: ReservationOptions) -> Result<Reservations, HostError> {
        let layout = CgroupLayout::read(&fs)?;
        Ok(Reservations {
            hierarchy: Hierarchy::of(&layout),
            layout,
            topology: topology(&fs)?,
            fs,
            options,
            plan: Plan::default(),
            strict: BTreeMap::new(),
            standard: BTreeMap::new(),
            order: Vec::new(),
            promises: BTreeMap::new(),
            promised: 0,
            looked_over: None,
            now: None,
            stolen: Stolen::default(),
            degraded: Vec::new(),
            wanted: true,
        })
    }

    /// Other options from now on; they take effect with the next [`Reservations::set`].
    pub fn set_options(&mut self, options: ReservationOptions) {
        self.options = options;
    }

    /// These containers, and no others, are strict and standard. Reconciles the host with that;
    /// idempotent. Who is in neither list any more gets its own settings back, so that two empty
    /// lists take all reservations back. A container in both lists is strict.
    ///
    /// Whatever fails concerns one container and is reported by [`Reservations::states`]; the
    /// others keep their service. When not all fit, the earlier in `strict` go first.
    pub fn set(
        &mut self,
        journal: &mut Journal,
        strict: &[(Arc<Container>, CpuAmount)],
        standard: &[Arc<Container>],
    ) {
        let strict: Vec<Request> = strict.iter().cloned().map(Request::from).collect();
        let standard: Vec<Given> = standard.iter().cloned().map(Given::from).collect();
        self.reconcile(journal, &strict, &standard);
    }

    /// As [`Reservations::set`], for containers of which more is known.
    pub fn reconcile(&mut self, journal: &mut Journal, strict: &[Request], standard: &[Given]) {
        let mut left: BTreeMap<CgroupId, Member> = std::mem::take(&mut self.standard);
        let mut old = std::mem::take(&mut self.strict);
        self.order.clear();
        for request in strict {
            let container = &request.given.container;
            let id = container.cgroup;
            if self.strict.contains_key(&id) {
                continue;
            }
            self.redeem(container);
            let mut one = old.remove(&id).unwrap_or_else(|| {
                let member = left.remove(&id);
                Strict::new(member.unwrap_or_default(), request.amount)
            });
            one.amount = request.amount;
            one.lends = request.lends;
            one.member.locate(&self.fs, &self.layout, container);
            one.member.adopt(&self.fs, journal, &request.given);
            self.strict.insert(id, one);
            self.order.push(id);
        }
        for given in standard {
            let container = &given.container;
            let id = container.cgroup;
            if self.strict.contains_key(&id) {
                continue;
            }
            let mut member = match old.remove(&id) {
                Some(strict) => {
                    strict.member.put_back_weight(&self.fs, journal);
                    strict.member
                }
                None => left.remove(&id).unwrap_or_default(),
            };
            member.locate(&self.fs, &self.layout, container);
            member.adopt(&self.fs, journal, given);
            self.standard.insert(id, member);
        }
        let gone = old.into_values().map(|s| s.member);
        for member in left.into_values().chain(gone) {
            member.put_back_weight(&self.fs, journal);
        }
        self.arrange(journal);
    }

    /// What is to be done all the time: lends and takes back, and once a second looks the host
    /// over. To be called every 50 to 200 ms while there are reservations; cheap (one small file
    /// a strict container) when nothing changes.
    pub fn step(&mut self, journal: &mut Journal, now: Instant) {
        self.now = Some(now);
        if self
            .looked_over
            .is_none_or(|at| now.saturating_duration_since(at) >= LOOK_OVER)
        {
            self.looked_over = Some(now);
            self.look_over(journal);
        }
        let mut changed = false;
        let lending = self.options.lending && self.wanted;
        if lending && !self.strict.is_empty() {
            self.stolen.look(&self.fs, now);
        }
        for (id, strict) in &mut self.strict {
            let Some(place) = self.plan.placements.get(id) else {
                continue;
            };
            let milli = (place.milli_cpus(), self.stolen.milli(&place.cpus()));
            let lending = lending && strict.lends;
            changed |= strict.look(&self.fs, now, milli, lending);
        }
        if changed {
            if self.place(journal).is_refused() {
                self.arrange(journal);
            }
            self.note_lent();
        }
    }

    /// Whether nothing is reserved, and nobody has to make room.
    pub fn is_empty(&self) -> bool {
        self.strict.is_empty() && self.standard.is_empty() && !self.has_promises()
    }

    /// A look-over writes nothing when all is as it should be.
    fn look_over(&mut self, journal: &mut Journal) {
        if self.is_empty() {
            return;
        }
        if let Ok(topology) = topology(&self.fs) {
            self.topology = topology;
        }
        self.arrange(journal);
    }

    /// The strict containers, with what of their reservation is in force and what is not; and
    /// with an empty state those standard ones of which something is not as it should be.
    pub fn states(&self) -> impl Iterator<Item = (CgroupId, ReservationState, Vec<Degradation>)> {
        let strict = self.strict.iter().map(|(id, one)| {
            let place = self.plan.placements.get(id);
            let state = ReservationState {
                own_cpus: place.map_or_else(Vec::new, |p| p.own.iter().copied().collect()),
                slice: place.and_then(|p| p.slice),
                lent_cpus: one.lent.iter().copied().collect(),
                lendings: one.lendings,
                rewrites: one.member.rewrites,
            };
            (*id, state, one.member.degraded.clone())
        });
        let standard = self.standard.iter().filter(|(_, m)| !m.degraded.is_empty());
        let standard =
            standard.map(|(id, m)| (*id, ReservationState::default(), m.degraded.clone()));
        strict.chain(standard)
    }

    /// What is degraded for the host as a whole.
    pub fn degraded(&self) -> &[Degradation] {
        &self.degraded
    }

    /// All containers.
    fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        let strict = self.strict.values_mut().map(|one| &mut one.member);
        strict.chain(self.standard.values_mut())
    }

    fn member(&mut self, id: CgroupId) -> Option<&mut Member> {
        match self.strict.get_mut(&id) {
            Some(one) => Some(&mut one.member),
            None => self.standard.get_mut(&id),
        }
    }

    /// CPUs that `id` lends now: its own, and that of its slice when all containers that share it
    /// lend.
    fn lent_by(&self, id: CgroupId) -> Cpus {
        let lends = |id: &CgroupId| self.strict.get(id).is_some_and(|s| s.lending.is_lent());
        let Some(place) = self.plan.placements.get(&id).filter(|_| lends(&id)) else {
            return Cpus::new();
        };
        let slice = place.slice.map(|(cpu, _)| cpu).filter(|cpu| {
            let mut others = self.plan.placements.iter();
            others.all(|(other, p)| p.slice.is_none_or(|(c, _)| c != *cpu) || lends(other))
        });
        place.own.iter().copied().chain(slice).collect()
    }

    fn note_lent(&mut self) {
        let ids: Vec<CgroupId> = self.strict.keys().copied().collect();
        for id in ids {
            let lent = self.lent_by(id);
            if let Some(one) = self.strict.get_mut(&id) {
                one.lendings += lent.difference(&one.lent).count() as u64;
                one.lent = lent;
            }
        }
    }
}

#[cfg(test)]
mod tests;
