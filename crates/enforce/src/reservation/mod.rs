//! Applies CPU reservations to the host: cpusets, weights, lending, interrupts.
//!
//! A strict container's cpuset is set to the CPUs that `cofferdam_reserve` plans for it within the
//! limits of the cgroups above. Once the kernel has given them, every standard container's cpuset
//! loses them. If the kernel refuses, no container loses any (see [`step`] and [`wants`]). Only
//! cgroups of containers are changed. Host tasks stay where they are: the scheduler may still run
//! them on reserved CPUs, because a kernel thread that is bound to a CPU cannot be moved. `status`
//! shows their cost.
//!
//! A slice is guaranteed by weight among the strict containers of its CPU. For lending see
//! [`cofferdam_reserve::lending`].

mod arrange;
mod cpuset;
mod irq;
mod member;
mod places;
mod promise;
mod reasons;
mod step;
mod stolen_time;
mod tree;
mod wants;

use crate::cpus::Cpus;
use crate::journal::Journal;
use crate::tuning::reservation::COMPARE_EVERY;
use cofferdam_host::{CgroupLayout, HostError, HostFs, topology};
use cofferdam_reserve::Plan;
use cofferdam_types::{CgroupId, Container, CpuAmount, Degradation, ReservationState, Topology};
use member::{Member, Strict};
use promise::Promise;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use stolen_time::StolenTime;
use tree::Hierarchy;

/// Settings of reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationOptions {
    /// Whether reserved CPUs are lent while their owner leaves them idle; default true.
    pub lending: bool,
    /// Whether device interrupts and receive steering are moved off reserved CPUs; default false.
    pub move_irqs: bool,
    /// Number of CPUs that stay for standard containers and the host; default 1.
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

/// Container, and the CPUs that its runtime gave it at our request.
#[derive(Clone, Debug)]
pub struct ReservationContainer {
    /// The container.
    pub container: Arc<Container>,
    /// CPU list with which it was created because of a promise.
    pub cpus: Option<String>,
}

/// Container that is to have CPUs of its own.
#[derive(Clone, Debug)]
pub struct Request {
    /// The container.
    pub target: ReservationContainer,
    /// Number of CPUs.
    pub amount: CpuAmount,
    /// Whether its CPUs may be lent while idle.
    pub lends: bool,
}

impl From<Arc<Container>> for ReservationContainer {
    fn from(container: Arc<Container>) -> ReservationContainer {
        ReservationContainer {
            container,
            cpus: None,
        }
    }
}

impl From<(Arc<Container>, CpuAmount)> for Request {
    fn from((container, amount): (Arc<Container>, CpuAmount)) -> Request {
        Request {
            target: container.into(),
            amount,
            lends: true,
        }
    }
}

/// Reservations of a host. Every change goes through the [`Journal`], so reverting the journal
/// reverts the reservations, even after a crash.
#[derive(Debug)]
pub struct Reservations {
    fs: HostFs,
    layout: CgroupLayout,
    /// Hierarchy of the cpuset controller; `None` if the kernel has none.
    hierarchy: Option<Hierarchy>,
    options: ReservationOptions,
    topology: Topology,
    plan: Plan,
    strict: BTreeMap<CgroupId, Strict>,
    standard: BTreeMap<CgroupId, Member>,
    order: Vec<CgroupId>,
    /// Promises by the runtime's ID of the container that is to come.
    promises: BTreeMap<String, Promise>,
    /// Number of promises so far.
    promised: u64,
    compared_at: Option<Instant>,
    /// Time of the last step.
    now: Option<Instant>,
    stolen: StolenTime,
    degraded: Vec<Degradation>,
    /// Whether standard containers could use more CPUs than they have.
    wanted: bool,
}

impl Reservations {
    /// Reads the host's CPUs and cgroup hierarchies; changes nothing.
    ///
    /// # Errors
    /// Fails if they cannot be read.
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
            compared_at: None,
            now: None,
            stolen: StolenTime::default(),
            degraded: Vec::new(),
            wanted: true,
        })
    }

    /// Sets other options; they take effect with the next [`Reservations::set`].
    pub fn set_options(&mut self, options: ReservationOptions) {
        self.options = options;
    }

    /// Makes exactly these containers strict and standard, and reconciles the host; idempotent. A
    /// container in neither list gets its own settings back, so that two empty lists revert all
    /// reservations. A container in both lists is strict.
    ///
    /// A failure concerns one container, and [`Reservations::states`] reports it; the others keep
    /// their service. If not all fit, the earlier ones in `strict` take precedence.
    pub fn set(
        &mut self,
        journal: &mut Journal,
        strict: &[(Arc<Container>, CpuAmount)],
        standard: &[Arc<Container>],
    ) {
        let strict: Vec<Request> = strict.iter().cloned().map(Request::from).collect();
        let standard: Vec<ReservationContainer> = standard
            .iter()
            .cloned()
            .map(ReservationContainer::from)
            .collect();
        self.reconcile(journal, &strict, &standard);
    }

    /// Reconciles as [`Reservations::set`] does, with the promised CPUs of the containers.
    pub fn reconcile(
        &mut self,
        journal: &mut Journal,
        strict: &[Request],
        standard: &[ReservationContainer],
    ) {
        let mut left: BTreeMap<CgroupId, Member> = std::mem::take(&mut self.standard);
        let mut old = std::mem::take(&mut self.strict);
        self.order.clear();
        for request in strict {
            let container = &request.target.container;
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
            one.member.adopt(&self.fs, journal, &request.target);
            self.strict.insert(id, one);
            self.order.push(id);
        }
        for one in standard {
            let container = &one.container;
            let id = container.cgroup;
            if self.strict.contains_key(&id) {
                continue;
            }
            let mut member = match old.remove(&id) {
                Some(strict) => {
                    strict.member.revert_weight(&self.fs, journal);
                    strict.member
                }
                None => left.remove(&id).unwrap_or_default(),
            };
            member.locate(&self.fs, &self.layout, container);
            member.adopt(&self.fs, journal, one);
            self.standard.insert(id, member);
        }
        let removed = old.into_values().map(|s| s.member);
        for member in left.into_values().chain(removed) {
            member.revert_weight(&self.fs, journal);
        }
        self.arrange(journal);
    }

    /// Lends and reclaims CPUs, and once a second compares the host with the plan. To be called
    /// every 50 to 200 ms while there are reservations. Without changes it reads one small file per
    /// strict container.
    pub fn step(&mut self, journal: &mut Journal, now: Instant) {
        self.now = Some(now);
        if self
            .compared_at
            .is_none_or(|at| now.saturating_duration_since(at) >= COMPARE_EVERY)
        {
            self.compared_at = Some(now);
            self.compare_host(journal);
        }
        let mut changed = false;
        let lending = self.options.lending && self.wanted;
        if lending && !self.strict.is_empty() {
            self.stolen.update(&self.fs, now);
        }
        for (id, strict) in &mut self.strict {
            let Some(place) = self.plan.placements.get(id) else {
                continue;
            };
            let milli = (place.milli_cpus(), self.stolen.milli(&place.cpus()));
            let lending = lending && strict.lends;
            changed |= strict.update_lending(&self.fs, now, milli, lending);
        }
        if changed {
            if self.place(journal).is_refused() {
                self.arrange(journal);
            }
            self.note_lent();
        }
    }

    /// Whether nothing is reserved or promised, and no container has to leave CPUs.
    pub fn is_empty(&self) -> bool {
        self.strict.is_empty() && self.standard.is_empty() && !self.has_promises()
    }

    /// Compares the host with the plan; writes nothing if both agree.
    fn compare_host(&mut self, journal: &mut Journal) {
        if self.is_empty() {
            return;
        }
        if let Ok(topology) = topology(&self.fs) {
            self.topology = topology;
        }
        self.arrange(journal);
    }

    /// Strict containers with the state of their reservations and their degradations; then degraded
    /// standard containers, with an empty state.
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

    /// Degradations of the host as a whole.
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

    /// CPUs that `id` lends now: its own CPUs, and its slice's CPU if all containers of that CPU
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
