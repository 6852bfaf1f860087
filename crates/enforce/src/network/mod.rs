//! Network-CPU enforcement (Iron): charge who caused, return to who paid, stop who used up its
//! share.
//!
//! Nothing is done to a container until another one pays for its packets on a CPU; then the
//! best means that the host offers are put in place, and stay for a while.

mod container;
mod control;
mod correct;
mod cpus;
mod ingress;
mod interrupt;
mod moving;
mod napi;
mod napis;
mod place;
mod quota;
mod rivals;
mod share;
mod status;
mod stop;
mod usage;

use crate::journal::{Journal, UndoReport};
use cofferdam_host::CgroupLayout;
use cofferdam_types::{CgroupId, Container, ContainerLedger, IfIndex, Interval, Means, NetnsId};
use container::Enforced;
use control::Rates;
use cpus::IdleTime;
use ingress::Ingress;
use interrupt::Interrupts;
use napis::Leaving;
use rivals::Rivals;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How network CPU is enforced.
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// The means that may be used; default all.
    pub means: Vec<Means>,
    /// Where NAPI threads run; default in the container's cgroup.
    pub napi_in_container: bool,
    /// Debt that a container can have at most, in CPU time; default 1 s.
    pub debt_bound: Duration,
    /// What an interrupt for a container's packets costs whoever it interrupts, beyond what the
    /// ledger can see; default measured on this host when first needed.
    pub interruption: Option<Duration>,
    /// How long the means stay in place when nobody pays any more; default 30 s.
    pub linger: Duration,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        NetworkOptions {
            means: Means::ALL.to_vec(),
            napi_in_container: true,
            debt_bound: Duration::from_secs(1),
            interruption: None,
            linger: Duration::from_secs(30),
        }
    }
}

/// Others pay on a CPU when this part of it is charged to them.
const PAID: f64 = 0.003;
/// A container causes work on a CPU when it takes this part of it.
const CAUSES: f64 = 0.01;
/// Below this part of a CPU a container's network work is passed over.
const COUNTS: f64 = 0.001;
/// The enforcement of network CPU on this host.
pub(crate) struct Network {
    options: NetworkOptions,
    layout: CgroupLayout,
    enforced: BTreeMap<CgroupId, Enforced>,
    idle: IdleTime,
    ingress: Ingress,
    /// The host's ends of all containers' interfaces.
    host_ends: BTreeSet<(NetnsId, IfIndex)>,
    rivals: Rivals,
    leaving: Leaving,
    /// `None` until something is enforced.
    interrupts: Option<Interrupts>,
    /// When [`Network::look_around`] was last.
    looked: Option<Instant>,
    pressed: bool,
    /// A quota stops a NAPI thread as it stops a task. Asked when first needed.
    stops_threads: Option<bool>,
}

impl Network {
    pub fn new(options: NetworkOptions, layout: CgroupLayout) -> Network {
        Network {
            options,
            layout,
            enforced: BTreeMap::new(),
            idle: IdleTime::default(),
            ingress: Ingress::default(),
            host_ends: BTreeSet::new(),
            rivals: Rivals::default(),
            leaving: Leaving::default(),
            interrupts: None,
            looked: None,
            pressed: false,
            stops_threads: None,
        }
    }

    fn may(&self, means: Means) -> bool {
        self.options.means.contains(&means)
    }

    fn may_drop(&self) -> bool {
        self.may(Means::IngressDrop) || self.may(Means::EgressDrop)
    }

    /// The containers to enforce: complete, in any order. The weights of those in `reserved`
    /// belong to their CPU reservations.
    pub fn set(
        &mut self,
        journal: &mut Journal,
        wanted: &[Arc<Container>],
        reserved: &HashSet<CgroupId>,
    ) {
        if !wanted.is_empty() && self.interrupts.is_none() {
            let cost = self.options.interruption.or_else(interrupt::measure);
            self.interrupts = Some(Interrupts::new(cost.unwrap_or_default()));
        }
        let may_drop = self.may_drop();
        let keep: HashSet<CgroupId> = wanted.iter().map(|c| c.cgroup).collect();
        let gone: Vec<CgroupId> = self
            .enforced
            .keys()
            .filter(|id| !keep.contains(id))
            .copied()
            .collect();
        for id in gone {
            if let Some(mut enforced) = self.enforced.remove(&id) {
                self.let_go(journal, &mut enforced);
            }
        }
        for container in wanted {
            match self.enforced.get_mut(&container.cgroup) {
                Some(known) if Arc::ptr_eq(&known.container, container) => {}
                Some(known) => {
                    if may_drop {
                        self.ingress.prepare(container);
                    }
                    let moved = known.container.netns != container.netns;
                    known.container = container.clone();
                    known.place = place::find(&self.layout, container);
                    if moved || known.napi.is_stale(container) {
                        self.leaving
                            .add(container.cgroup, known.napi.leave(journal));
                    }
                }
                None => {
                    if may_drop {
                        self.ingress.prepare(container);
                    }
                    let place = place::find(&self.layout, container);
                    let new = Enforced::new(container.clone(), place);
                    self.enforced.insert(container.cgroup, new);
                }
            }
            if let Some(known) = self.enforced.get_mut(&container.cgroup) {
                known.weight_reserved = reserved.contains(&container.cgroup);
                if known.weight_reserved {
                    known.weight.restore(journal);
                }
            }
        }
        let behind = |c: &Arc<Container>| ingress::gate_of(c, false);
        self.ingress
            .keep(&wanted.iter().filter_map(behind).collect());
    }

    /// Acts on what happened in `interval`.
    pub fn step(&mut self, journal: &mut Journal, interval: &Interval) {
        self.leaving.step(journal, false);
        if self.enforced.is_empty() || interval.length.is_zero() {
            self.pressed = false;
            return;
        }
        let rows: HashMap<CgroupId, &ContainerLedger> = interval
            .containers
            .iter()
            .map(|row| (row.container.cgroup, row))
            .collect();
        let length_ns = interval.length.as_nanos() as f64;
        let mut charged_by_cpu = vec![0_u64; interval.cpus.len()];
        for row in &interval.containers {
            for (sum, ns) in charged_by_cpu.iter_mut().zip(&row.charged_by_cpu_ns) {
                *sum += ns;
            }
        }
        // Most containers did nothing, or nothing that counts: they cost a look, no more.
        let mut active = Vec::new();
        for (id, enforced) in &self.enforced {
            let row = rows.get(id);
            let pressed = row.map_or_else(Vec::new, |row| {
                pressed_cpus(row, &charged_by_cpu, interval, length_ns)
            });
            let counts = |r: &ContainerLedger| r.ledger.caused_ns() as f64 > COUNTS * length_ns;
            let counts = row.is_some_and(|row| counts(row));
            if enforced.until.is_some() || !pressed.is_empty() || counts {
                active.push((*id, pressed));
            }
        }
        self.pressed = false;
        if active.is_empty() {
            return;
        }
        self.look_around(interval);
        let mut withheld = Vec::new();
        for (id, pressed) in active {
            let Some(mut enforced) = self.enforced.remove(&id) else {
                continue;
            };
            let row = rows.get(&id).copied();
            self.step_one(journal, &mut enforced, row, &pressed, interval);
            withheld.push((id, pressed, enforced.withheld_ns(interval.length)));
            self.pressed |= enforced.until.is_some();
            self.enforced.insert(id, enforced);
        }
        self.note_returned(&withheld, interval);
    }

    /// What all containers that count now are measured by: idle time, neighbours, interrupts.
    fn look_around(&mut self, interval: &Interval) {
        // After a pause the first figures are of a longer time than the interval.
        let since = self.looked.map_or(interval.length, |at| at.elapsed());
        self.looked = Some(Instant::now());
        self.idle.update(since.max(interval.length).as_secs_f64());
        self.rivals.note(interval);
        if let Some(interrupts) = &mut self.interrupts {
            if since > interval.length * 2 {
                interrupts.forget();
            }
            interrupts.update();
        }
        let rows = interval.containers.iter();
        let pairs = rows.flat_map(|row| &row.container.interfaces);
        self.host_ends = pairs
            .filter_map(|pair| Some((pair.host_netns?, pair.host_ifindex?)))
            .collect();
    }

    /// Whether steps must follow closely: somebody pays for others, or did a while ago.
    pub fn is_pressed(&self) -> bool {
        self.pressed
    }

    /// What was withheld from those who caused went back to those who had paid, by what each
    /// had paid.
    fn note_returned(&mut self, withheld: &[(CgroupId, Vec<u32>, f64)], interval: &Interval) {
        for (offender, pressed, ns) in withheld.iter().filter(|(_, _, ns)| *ns > 0.0) {
            let payers = interval.containers.iter();
            let payers = payers.filter(|row| row.container.cgroup != *offender);
            let paid: Vec<(CgroupId, f64)> = payers
                .map(|row| (row.container.cgroup, paid_ns(row, pressed, interval)))
                .collect();
            let all: f64 = paid.iter().map(|(_, ns)| ns).sum();
            if all <= 0.0 {
                continue;
            }
            for (id, one) in paid {
                if let Some(payer) = self.enforced.get_mut(&id) {
                    payer.returned_ns += (ns.min(all) * one / all) as u64;
                }
            }
        }
        for payer in self.enforced.values_mut() {
            payer.returned_ns += payer.added_quota_ns(interval.length) as u64;
        }
    }

    fn step_one(
        &mut self,
        journal: &mut Journal,
        enforced: &mut Enforced,
        row: Option<&ContainerLedger>,
        pressed: &[u32],
        interval: &Interval,
    ) {
        let now = Instant::now();
        let pressed = &enforced.still_pressed(pressed, now);
        enforced.napi.arrive(journal);
        let unseen_ns = match (&self.interrupts, row) {
            (Some(interrupts), Some(row)) => interrupts.unseen_ns(row, pressed, interval),
            _ => 0.0,
        };
        let used = enforced.measure(row, pressed, interval, unseen_ns);
        if !enforced.is_alive() {
            self.let_go(journal, enforced);
            return;
        }
        enforced.look_at_quota(now);
        let limit = enforced.limit.cpus();
        let charges_quota = limit.is_some_and(|cpus| enforced.rates.caused() > CAUSES * cpus);
        if !pressed.is_empty() || charges_quota {
            enforced.until = Some(now + self.options.linger);
        }
        let Some(until) = enforced.until else {
            return;
        };
        if now >= until {
            enforced.debt.lapse();
            enforced.limit.debt.lapse();
            self.let_go(journal, enforced);
            return;
        }
        self.keep_accounts(enforced, &used, pressed, interval);
        self.stop(enforced, row, interval);
        self.correct_weight(journal, enforced);
        self.correct_quota(journal, enforced);
        if self.may(Means::NapiThread) {
            let container = enforced.container.clone();
            enforced.unstoppable =
                self.options.napi_in_container && limit.is_some() && !self.stops_threads();
            if enforced.unstoppable || enforced.napi.is_stale(&container) {
                self.leaving
                    .add(container.cgroup, enforced.napi.leave(journal));
            }
            if !enforced.unstoppable && !self.leaving.of(container.cgroup) {
                enforced.napi.engage(
                    journal,
                    &container,
                    &enforced.place,
                    self.options.napi_in_container,
                );
            }
        }
    }

    /// Debt and budget: what it used of the CPUs where others wait, and what it may use.
    fn keep_accounts(
        &mut self,
        enforced: &mut Enforced,
        used: &Rates,
        pressed: &[u32],
        interval: &Interval,
    ) {
        let full: Vec<u32> = pressed
            .iter()
            .copied()
            .filter(|cpu| self.idle.is_full(*cpu))
            .collect();
        let bound = self.options.debt_bound;
        let anywhere = used.corrected_anywhere();
        enforced.limit.update(anywhere, interval.length, bound);
        if full.is_empty() {
            enforced.share = None;
            enforced.set_budget(None);
            return;
        }
        let id = enforced.container.cgroup;
        let path = enforced.container.cgroup_path.clone();
        let own = enforced.base_weight().map(|(_, w)| w);
        let shares: f64 = full
            .iter()
            .map(|cpu| self.share(&path, id, *cpu, own))
            .sum();
        // Beyond these CPUs it may use what nobody else wants.
        let used = used.corrected().min(full.len() as f64);
        enforced.debt.update(used, shares, interval.length, bound);
        enforced.share = Some(shares);
        let budget = enforced.rates.budget(shares, &enforced.debt);
        enforced.set_budget(Some(budget));
    }

    /// Whether a NAPI thread may run in a cgroup under a quota. Where it cannot be told, it may not.
    fn stops_threads(&mut self) -> bool {
        let ask = || cofferdam_host::quota_stops_kernel_threads().unwrap_or(false);
        *self.stops_threads.get_or_insert_with(ask)
    }

    fn let_go(&mut self, journal: &mut Journal, enforced: &mut Enforced) {
        let cgroup = enforced.container.cgroup;
        self.ingress.release(cgroup);
        self.leaving.add(cgroup, enforced.napi.leave(journal));
        enforced.release(journal);
    }

    /// Takes back all that was changed for NAPI threads, and waits for those that are on their
    /// way: nothing moves any more after.
    pub fn settle(&mut self, journal: &mut Journal) -> UndoReport {
        for enforced in self.enforced.values_mut() {
            let leaving = enforced.napi.leave(journal);
            self.leaving.add(enforced.container.cgroup, leaving);
        }
        self.leaving.step(journal, true)
    }
}

/// What a container paid for others on these CPUs, nanoseconds.
fn paid_ns(row: &ContainerLedger, cpus: &[u32], interval: &Interval) -> f64 {
    let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
    let columns = interval.cpus.iter().zip(columns);
    let paid = columns
        .filter(|((cpu, _), _)| cpus.contains(&cpu.0))
        .map(|(_, (caused, charged))| charged.saturating_sub(*caused));
    paid.sum::<u64>() as f64
}

/// CPUs on which the container of `row` causes work and others pay.
fn pressed_cpus(
    row: &ContainerLedger,
    charged_by_cpu: &[u64],
    interval: &Interval,
    length_ns: f64,
) -> Vec<u32> {
    let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
    let cpus = interval.cpus.iter().zip(columns).zip(charged_by_cpu);
    cpus.filter(|((_, (caused, own)), all)| {
        let others = all.saturating_sub(**own) as f64;
        others > PAID * length_ns && **caused as f64 > CAUSES * length_ns
    })
    .map(|(((cpu, _), _), _)| cpu.0)
    .collect()
}
