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
mod payers;
mod place;
mod quota;
mod rivals;
mod share;
mod status;
mod step;
mod stop;
mod usage;

use crate::journal::{Journal, UndoReport};
use cofferdam_host::CgroupLayout;
use cofferdam_types::{CgroupId, Container, IfIndex, Interval, Means, NetnsId};
use container::Enforced;
use control::Rates;
use cpus::IdleTime;
use ingress::Ingress;
use interrupt::Interrupts;
use napis::Leaving;
use payers::Payers;
use rivals::Rivals;
use std::collections::{BTreeMap, BTreeSet, HashSet};
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
    payers: Payers,
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
            payers: Payers::default(),
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

    /// Whether steps must follow closely: somebody pays for others, or did a while ago.
    pub fn is_pressed(&self) -> bool {
        self.pressed
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
        // What dropping costs no limit can lower: as a debt it would only grow.
        let anywhere = (used.corrected_anywhere() - enforced.dropping).max(0.0);
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
