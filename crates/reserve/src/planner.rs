//! Order of planning: requests that keep their CPUs, then changed ones, then new ones.

use crate::plan::{Impossible, Limits, Placement, Plan, PlanError, PlanOptions};
use crate::pool::{Holder, Pool};
use crate::slices::{Slices, WHOLE};
use crate::work::Work;
use cofferdam_types::{CgroupId, CpuAmount, CpuId, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

type Request = (CgroupId, CpuAmount);

/// Most slice CPUs that are emptied for one request before all slices are packed again.
const MOST_EMPTIED: usize = 8;

/// Meets all `requests`, or reports the ones that cannot be met.
///
/// `previous` is the plan in force: its containers keep their CPUs if possible. Of an id that is
/// given twice, the first request counts. The result depends only on the arguments. Cost: on the
/// order of CPUs × requests.
///
/// Errors name each impossible request, and an amount that would fit next to the others.
pub fn plan(
    topology: &Topology,
    previous: &Plan,
    requests: &[Request],
    options: PlanOptions,
) -> Result<Plan, PlanError> {
    let (plan, impossible) = plan_what_fits(topology, previous, requests, options);
    if impossible.is_empty() {
        Ok(plan)
    } else {
        Err(PlanError { impossible })
    }
}

/// Plans as [`plan`] does, but meets what it can. An impossible new container gets nothing. A
/// container whose change is impossible keeps what it has. If not all new containers fit, the
/// earlier ones in `requests` take precedence.
pub fn plan_what_fits(
    topology: &Topology,
    previous: &Plan,
    requests: &[Request],
    options: PlanOptions,
) -> (Plan, Vec<Impossible>) {
    plan_within(topology, previous, requests, options, &Limits::default())
}

/// Plans as [`plan_what_fits`] does, within `limits`. A container keeps its place unless it can
/// move, even if a new standard container may run nowhere else.
pub fn plan_within(
    topology: &Topology,
    previous: &Plan,
    requests: &[Request],
    options: PlanOptions,
    limits: &Limits,
) -> (Plan, Vec<Impossible>) {
    let work = Work::default();
    let scene = Scene {
        topology,
        limits: Rc::new(limits.clone()),
        keep: options.keep_cpus as usize,
        work: &work,
    };
    let (state, impossible) = scene.solve(previous, requests);
    (state.into_plan(), impossible)
}

/// Input of one plan.
pub(crate) struct Scene<'a> {
    pub topology: &'a Topology,
    pub limits: Rc<Limits>,
    /// Number of CPUs that stay shared.
    pub keep: usize,
    pub work: &'a Work,
}

impl Scene<'_> {
    pub fn solve(&self, previous: &Plan, requests: &[Request]) -> (State, Vec<Impossible>) {
        let found = solve(self, previous, requests, false);
        let is_placed = |one: &Impossible| previous.placements.contains_key(&one.id);
        if self.limits.shared.is_empty() || !found.1.iter().any(is_placed) {
            return found;
        }
        // Containers keep the places that they have.
        let other = solve(self, previous, requests, true);
        if other.1.len() < found.1.len() {
            other
        } else {
            found
        }
    }
}

/// Plan in progress.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pool: Pool,
    slices: Slices,
    own: BTreeMap<CgroupId, BTreeSet<CpuId>>,
    limits: Rc<Limits>,
    keep: usize,
}

fn solve(
    scene: &Scene,
    previous: &Plan,
    requests: &[Request],
    places_stay: bool,
) -> (State, Vec<Impossible>) {
    let mut place = BTreeMap::new();
    let requests: Vec<Request> = requests
        .iter()
        .copied()
        .filter(|(id, _)| {
            let next = place.len();
            *place.entry(*id).or_insert(next) == next
        })
        .collect();
    let mut state = State {
        pool: Pool::new(scene.topology, &scene.limits, scene.work.clone()),
        slices: Slices::new(Rc::clone(&scene.limits), scene.work.clone()),
        own: BTreeMap::new(),
        limits: Rc::clone(&scene.limits),
        keep: scene.keep,
    };
    let (mut harmed, mut shrunk, mut grown, mut new) = (vec![], vec![], vec![], vec![]);
    for &(id, amount) in &requests {
        let Some(old) = previous.placements.get(&id) else {
            new.push((id, amount));
            continue;
        };
        state.keep_place(id, old, places_stay);
        let (had, wanted) = (old.milli_cpus(), amount.milli_cpus());
        match state.holds(id) {
            held_milli if held_milli == wanted => {}
            // One of its CPUs went offline.
            held_milli if held_milli < had => harmed.push((id, amount)),
            _ if wanted < had => shrunk.push((id, amount)),
            _ => grown.push((id, amount)),
        }
    }
    let changed: Vec<Request> = shrunk.into_iter().chain(harmed).chain(grown).collect();
    let mut refused: Vec<Request> = state.meet_all(&changed);
    // The most limited come first, then large ones, which packs best. If not all fit, the order of
    // the requests decides.
    let mut by_size = new.clone();
    by_size.sort_by_key(|(id, amount)| {
        let size = std::cmp::Reverse(amount.milli_cpus());
        (scene.limits.width(*id), size, *id)
    });
    let mut trial = state.clone();
    if trial.meet_all(&by_size).is_empty() {
        state = trial;
    } else {
        refused.extend(state.meet_all(&new));
    }
    // A later request may have freed CPUs by moving slices.
    refused = state.meet_all(&refused);
    refused.sort_by_key(|(id, _)| place.get(id).copied());
    let impossible = refused
        .into_iter()
        .map(|(id, asked)| Impossible {
            id,
            asked,
            fits: state.would_fit(id),
        })
        .collect();
    (state, impossible)
}

impl State {
    /// Number of whole CPUs that may still be taken.
    fn available(&self) -> usize {
        self.pool.free().saturating_sub(self.keep)
    }

    fn holds(&self, id: CgroupId) -> u32 {
        let whole = self.own.get(&id).map_or(0, BTreeSet::len) as u32;
        whole * WHOLE + self.slices.of(id).map_or(0, |(_, milli)| milli)
    }

    /// Takes over the old place of `id` as far as it still exists. With `anyway`, even CPUs without
    /// which a standard container has none.
    fn keep_place(&mut self, id: CgroupId, old: &Placement, anyway: bool) {
        let claim = if anyway {
            Pool::claim_anyway
        } else {
            Pool::claim
        };
        for &cpu in &old.own {
            if self.available() > 0
                && self.limits.allow(id, cpu)
                && claim(&mut self.pool, cpu, Holder::Own(id))
            {
                self.own.entry(id).or_default().insert(cpu);
            }
        }
        if let Some((cpu, milli)) = old.slice
            && (1..WHOLE).contains(&milli)
            && self.limits.allow(id, cpu)
            && (self.slices.has(cpu)
                || (self.available() > 0 && claim(&mut self.pool, cpu, Holder::Slices)))
        {
            self.slices.put(cpu, id, milli);
        }
    }

    /// Meets what can be met; returns the other requests.
    fn meet_all(&mut self, requests: &[Request]) -> Vec<Request> {
        let refused = requests
            .iter()
            .filter(|(id, amount)| !self.meet(*id, *amount));
        refused.copied().collect()
    }

    /// Gives `id` the requested amount; returns false, and changes nothing, if that is impossible.
    fn meet(&mut self, id: CgroupId, amount: CpuAmount) -> bool {
        if !self.adds_up(id, amount) {
            return false;
        }
        // Emptying slice CPUs one by one moves the fewest containers. Packing all slices again is
        // the last resort.
        let mut base = self.clone();
        for _ in 0..MOST_EMPTIED {
            let mut trial = base.clone();
            if trial.place(id, amount) {
                *self = trial;
                return true;
            }
            let Some(cpu) = base.slices.consolidate() else {
                break;
            };
            base.pool.release(cpu);
        }
        let mut trial = self.clone();
        let met = trial.place_repacked(id, amount);
        if met {
            *self = trial;
        }
        met
    }

    /// Whether there are enough CPUs if slices could be packed without gaps.
    fn adds_up(&self, id: CgroupId, amount: CpuAmount) -> bool {
        let mine = self.own.get(&id).map_or(0, BTreeSet::len);
        let whole = self.pool.len() - self.pool.free() - self.slices.cpus() - mine
            + amount.whole_cpus() as usize;
        let milli = self.slices.total_milli() + u64::from(amount.fraction_milli_cpus())
            - u64::from(self.slices.of(id).map_or(0, |(_, milli)| milli));
        let slices = milli.div_ceil(u64::from(WHOLE)) as usize;
        whole + slices + self.keep <= self.pool.len()
    }

    /// Removes `id` from its slice CPU, which is freed if it becomes empty. Returns that CPU.
    fn leave_slice(&mut self, id: CgroupId) -> Option<CpuId> {
        let (cpu, _) = self.slices.of(id)?;
        if let Some(empty) = self.slices.remove(id) {
            self.pool.release(empty);
        }
        Some(cpu)
    }

    /// Tries once: whole CPUs, then the slice. Leaves the state half done on failure.
    fn place(&mut self, id: CgroupId, amount: CpuAmount) -> bool {
        let old = self.leave_slice(id);
        let milli = amount.fraction_milli_cpus();
        // A slice that changes its size stays on its CPU if it fits there.
        let stays = old.is_some_and(|cpu| milli > 0 && self.slice_on(cpu, id, milli));
        self.place_whole(id, amount, old) && (milli == 0 || stays || self.place_slice(id, milli))
    }

    fn slice_on(&mut self, cpu: CpuId, id: CgroupId, milli: u32) -> bool {
        self.limits.allow(id, cpu)
            && (self.slices.has(cpu)
                || (self.available() > 0 && self.pool.claim(cpu, Holder::Slices)))
            && self.slices.put(cpu, id, milli)
    }

    fn place_whole(&mut self, id: CgroupId, amount: CpuAmount, near: Option<CpuId>) -> bool {
        let whole = amount.whole_cpus() as usize;
        let mut own = self.own.remove(&id).unwrap_or_default();
        if own.len() > whole {
            for cpu in self.pool.give_up(own.len() - whole, &own) {
                own.remove(&cpu);
                self.pool.release(cpu);
            }
        } else if own.len() < whole {
            let more = whole - own.len();
            if more > self.available() {
                return false;
            }
            let near: BTreeSet<CpuId> = own.iter().copied().chain(near).collect();
            let allowed = self.limits.allowed.get(&id);
            let Some(taken) = self.pool.take(more, Holder::Own(id), &near, allowed) else {
                return false;
            };
            own.extend(taken);
        }
        if !own.is_empty() {
            self.own.insert(id, own);
        }
        true
    }

    fn place_slice(&mut self, id: CgroupId, milli: u32) -> bool {
        if let Some(cpu) = self.slices.room_for(milli, id) {
            return self.slices.put(cpu, id, milli);
        }
        match self.open_slice_cpu(id) {
            Some(cpu) => self.slices.put(cpu, id, milli),
            None => false,
        }
    }

    fn open_slice_cpu(&mut self, id: CgroupId) -> Option<CpuId> {
        if self.available() == 0 {
            return None;
        }
        let near = self.own.get(&id).cloned().unwrap_or_default();
        let allowed = self.limits.allowed.get(&id);
        self.pool.take(1, Holder::Slices, &near, allowed)?.pop()
    }

    /// Tries once, with all slices packed again.
    fn place_repacked(&mut self, id: CgroupId, amount: CpuAmount) -> bool {
        let old = self.leave_slice(id);
        let milli = amount.fraction_milli_cpus();
        let extra = (milli > 0).then_some((id, milli));
        let mut unused = self.slices.repack(extra, None);
        if unused.is_none()
            && let Some(cpu) = self.open_slice_cpu(id)
        {
            unused = self.slices.repack(extra, Some(cpu));
        }
        let Some(unused) = unused else { return false };
        for cpu in unused {
            self.pool.release(cpu);
        }
        self.place_whole(id, amount, old)
    }

    /// Amount that `id` would certainly get.
    fn would_fit(&self, id: CgroupId) -> Option<CpuAmount> {
        let mut rest = self.clone();
        rest.leave_slice(id);
        for cpu in rest.own.remove(&id).unwrap_or_default() {
            rest.pool.release(cpu);
        }
        let whole = u32::try_from(rest.most_whole(id)).ok()?;
        CpuAmount::from_milli_cpus(whole * WHOLE + rest.slices.most_room(id))
    }

    /// Number of whole CPUs that `id`, which has none, could take.
    fn most_whole(&self, id: CgroupId) -> usize {
        let most = self.available().min(self.limits.width(id));
        if self.limits.is_none_for(id) {
            return most;
        }
        let allowed = self.limits.allowed.get(&id);
        let near = BTreeSet::new();
        let can_take = |count: &usize| {
            let mut pool = self.pool.clone();
            let taken = pool.take(*count, Holder::Own(id), &near, allowed);
            taken.is_some()
        };
        (1..=most).rev().find(can_take).unwrap_or(0)
    }

    pub(crate) fn into_plan(self) -> Plan {
        let mut placements: BTreeMap<CgroupId, Placement> = BTreeMap::new();
        for (id, slice) in self.slices.all() {
            placements.entry(id).or_default().slice = Some(slice);
        }
        for (id, own) in self.own {
            placements.entry(id).or_default().own = own;
        }
        Plan {
            placements,
            shared: self.pool.free_cpus(),
        }
    }
}
