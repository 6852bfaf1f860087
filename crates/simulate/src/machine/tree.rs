//! Run queues: one for each cgroup on each CPU, with threads and child cgroups in it, and EEVDF's
//! rules for the choice among them.
//!
//! An entity (a thread, or a cgroup on one CPU) of weight w that runs for t advances its virtual
//! runtime by t · 1024 ÷ w. The average V of a queue is Σ w·v ÷ Σ w. An entity is *eligible* if its
//! lag V − v is not negative: it has had no more than its part. The eligible entity with the
//! earliest virtual deadline runs; a deadline is one slice of virtual time after the start of a
//! request. An entity that begins to run is protected until its deadline while it stays eligible
//! (`RUN_TO_PARITY`). Lag is kept over sleep (`PLACE_LAG`). An entity that falls asleep with
//! negative lag stays in the queue until the lag is used up (`DELAY_DEQUEUE`).
//!
//! Sources: kernel/sched/fair.c of Linux 6.12 to 6.18 (`avg_vruntime`, `place_entity`,
//! `pick_eevdf`, `reweight_entity`, `calc_group_shares`); Stoica and Abdel-Wahab, 1995.

use super::average::Average;

/// Weight of a thread of nice 0, and default weight of a cgroup.
pub(super) const NICE_0: f64 = 1024.0;
/// Least weight of a cgroup on one CPU (`MIN_SHARES`).
const MIN_SHARES: f64 = 2.0;
/// Difference below which virtual times are equal: the kernel counts whole nanoseconds.
const SAME_NS: f64 = 0.5;

/// Reason why an entity leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaveReason {
    /// The entity goes to sleep.
    Sleep,
    /// The entity's cgroup is throttled.
    Throttle,
    /// The entity moves to the queue of another CPU.
    Move,
}

/// Thread, or cgroup on one CPU, as its parent's run queue sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Entity {
    pub weight: f64,
    pub vruntime: f64,
    pub deadline: f64,
    /// Lag at the time when it left its queue.
    vlag: f64,
    /// Virtual runtime up to which it runs undisturbed.
    protected_until: f64,
    pub queued: bool,
    /// Whether it is asleep, but still in the queue until its lag is not negative.
    pub delayed: bool,
    /// Whether `deadline` is relative to `vruntime` because it moves between queues.
    relative: bool,
}

/// Run queue of a cgroup on one CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Runqueue {
    /// Entities in the queue, including the running one.
    pub queued: Vec<u32>,
    pub running: Option<u32>,
    /// Sum of the queued entities' weights.
    pub load: f64,
    /// Runnable threads here and below, without throttled child cgroups.
    pub tasks: u32,
    pub throttled: bool,
    /// Remaining runtime from the quota's pool, nanoseconds.
    pub runtime_ns: i64,
    pub average: Average,
    /// Part of the average that is in the cgroup's sum over all CPUs.
    counted: f64,
    last_v: f64,
    /// Whether it is in its CPU's list of decaying averages.
    pub listed: bool,
}

/// Weight and load of a cgroup.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub parent: Option<usize>,
    /// Weight in the kernel's scale: 1024 is the default.
    pub weight: f64,
    /// Sum of the averages of its run queues.
    load: f64,
}

/// All run queues. Entities are numbered with the threads first, then one per cgroup and CPU.
/// Queues are numbered cgroup × CPUs + CPU. Group 0 is the root.
#[derive(Debug)]
pub(super) struct Tree {
    pub groups: Vec<Group>,
    pub queues: Vec<Runqueue>,
    pub entities: Vec<Entity>,
    /// Leaf cgroup and CPU of each thread.
    pub places: Vec<(usize, usize)>,
    cpus: usize,
    slice_ns: f64,
    tick_ns: f64,
}

impl Tree {
    /// Creates the queues of `groups` (parent and weight, the root first) and `threads` (the cgroup
    /// of each).
    pub fn new(
        groups: &[(Option<usize>, f64)],
        threads: &[usize],
        cpus: usize,
        slice_ns: u64,
        tick_ns: u64,
    ) -> Tree {
        let queues = groups.len() * cpus;
        let mut entities = vec![Entity::default(); threads.len() + queues];
        for entity in &mut entities[..threads.len()] {
            entity.weight = NICE_0;
        }
        let mut tree = Tree {
            groups: groups
                .iter()
                .map(|(parent, weight)| Group {
                    parent: *parent,
                    weight: *weight,
                    load: 0.0,
                })
                .collect(),
            queues: vec![Runqueue::default(); queues],
            entities,
            places: threads.iter().map(|group| (*group, 0)).collect(),
            cpus,
            slice_ns: slice_ns as f64,
            tick_ns: tick_ns as f64,
        };
        for queue in 0..queues {
            let weight = tree.groups[queue / cpus].weight;
            let entity = tree.entity_of(queue);
            tree.entities[entity].weight = weight;
        }
        tree
    }

    /// Sets the weight of a cgroup, before anything is in its queues.
    pub fn set_group_weight(&mut self, group: usize, weight: f64) {
        self.groups[group].weight = weight;
        for cpu in 0..self.cpus {
            let entity = self.entity_of(self.queue(group, cpu));
            self.entities[entity].weight = weight;
        }
    }

    pub fn queue(&self, group: usize, cpu: usize) -> usize {
        group * self.cpus + cpu
    }

    pub fn group_and_cpu(&self, queue: usize) -> (usize, usize) {
        (queue / self.cpus, queue % self.cpus)
    }

    /// Entity of the cgroup of `queue` in its parent's queue.
    pub fn entity_of(&self, queue: usize) -> usize {
        self.places.len() + queue
    }

    /// Thread, or queue of the cgroup, that an entity represents.
    pub fn below(&self, entity: usize) -> Result<usize, usize> {
        match entity.checked_sub(self.places.len()) {
            None => Ok(entity),
            Some(queue) => Err(queue),
        }
    }

    /// Queue that an entity belongs in; `None` for the root's own.
    pub fn queue_of(&self, entity: usize) -> Option<usize> {
        match self.below(entity) {
            Ok(thread) => {
                let (group, cpu) = self.places[thread];
                Some(self.queue(group, cpu))
            }
            Err(queue) => self.parent(queue),
        }
    }

    /// Queue of the parent cgroup on the same CPU.
    pub fn parent(&self, queue: usize) -> Option<usize> {
        let (group, cpu) = self.group_and_cpu(queue);
        Some(self.queue(self.groups[group].parent?, cpu))
    }

    /// Average virtual time V.
    fn average_v(&self, queue: usize) -> f64 {
        let queue = &self.queues[queue];
        let Some(first) = queue.queued.first() else {
            return queue.last_v;
        };
        // Relative to one of them, so that small differences of large numbers stay exact.
        let base = self.entities[*first as usize].vruntime;
        let (mut sum, mut load) = (0.0, 0.0);
        for entity in &queue.queued {
            let entity = &self.entities[*entity as usize];
            sum += entity.weight * (entity.vruntime - base);
            load += entity.weight;
        }
        base + sum / load
    }

    fn virtual_slice(&self, weight: f64) -> f64 {
        self.slice_ns * NICE_0 / weight
    }

    fn lag(&self, v: f64, entity: usize) -> f64 {
        let entity = &self.entities[entity];
        let limit = f64::max(2.0 * self.slice_ns, self.tick_ns) * NICE_0 / entity.weight;
        (v - entity.vruntime).clamp(-limit, limit)
    }

    pub fn is_eligible(&self, queue: usize, entity: usize) -> bool {
        self.entities[entity].vruntime <= self.average_v(queue) + SAME_NS
    }

    fn is_protected(&self, entity: usize) -> bool {
        let entity = &self.entities[entity];
        entity.vruntime < entity.protected_until
    }

    /// Puts an entity into its queue. `first`: it has never been in one.
    pub fn enqueue(&mut self, queue: usize, entity: usize, first: bool, now_ns: u64) {
        self.update_average(queue, now_ns);
        let v = self.average_v(queue);
        let load = self.queues[queue].load;
        let slice = self.virtual_slice(self.entities[entity].weight);
        let one = &mut self.entities[entity];
        let lag = match load > 0.0 {
            // Joining moves V towards the entity: this preserves its lag.
            true => one.vlag * (load + one.weight) / load,
            false => 0.0,
        };
        one.vruntime = v - lag;
        one.deadline = match (one.relative, first) {
            (true, _) => one.vruntime + one.deadline,
            (false, true) => one.vruntime + slice / 2.0,
            (false, false) => one.vruntime + slice,
        };
        (one.relative, one.queued, one.delayed) = (false, true, false);
        let weight = one.weight;
        let queue = &mut self.queues[queue];
        queue.queued.push(entity as u32);
        queue.load += weight;
    }

    /// Removes an entity from its queue.
    pub fn dequeue(&mut self, queue: usize, entity: usize, why: LeaveReason, now_ns: u64) {
        self.update_average(queue, now_ns);
        let v = self.average_v(queue);
        let lag = self.lag(v, entity);
        let one = &mut self.entities[entity];
        one.vlag = lag;
        if why == LeaveReason::Move {
            one.deadline -= one.vruntime;
            one.relative = true;
        }
        if one.delayed {
            one.vlag = one.vlag.min(0.0);
        }
        (one.queued, one.delayed) = (false, false);
        let weight = one.weight;
        let queue = &mut self.queues[queue];
        if let Some(at) = queue.queued.iter().position(|e| *e as usize == entity) {
            queue.queued.remove(at);
        }
        queue.load = match queue.queued.is_empty() {
            true => 0.0,
            false => queue.load - weight,
        };
        queue.last_v = v;
    }

    /// Lets an entity sleep within the queue if its lag is negative; returns whether it does.
    pub fn delay(&mut self, queue: usize, entity: usize) -> bool {
        let delayed = !self.is_eligible(queue, entity);
        self.entities[entity].delayed |= delayed;
        delayed
    }

    /// Wakes an entity within the queue. Lag that it has gained meanwhile does not count
    /// (`DELAY_ZERO`).
    pub fn revive(&mut self, queue: usize, entity: usize, now_ns: u64) {
        if self.entities[entity].vruntime < self.average_v(queue) {
            self.dequeue(queue, entity, LeaveReason::Sleep, now_ns);
            self.entities[entity].vlag = 0.0;
            self.enqueue(queue, entity, false, now_ns);
        }
        self.entities[entity].delayed = false;
    }

    /// Entity of a queue that runs next.
    pub fn pick(&self, queue: usize) -> Option<usize> {
        let all = &self.queues[queue];
        if let [only] = all.queued[..] {
            return Some(only as usize);
        }
        let v = self.average_v(queue) + SAME_NS;
        let eligible = |e: &usize| self.entities[*e].vruntime <= v;
        let running = all.running.map(|e| e as usize);
        let running = running.filter(|e| self.entities[*e].queued && eligible(e));
        if let Some(running) = running.filter(|e| self.is_protected(*e)) {
            return Some(running);
        }
        let waiting = all.queued.iter().map(|e| *e as usize);
        let waiting = waiting.filter(|e| all.running != Some(*e as u32) && eligible(e));
        let first = |a: usize, b: usize| match self.entities[b].deadline < self.entities[a].deadline
        {
            true => b,
            false => a,
        };
        let best = waiting.reduce(first);
        match (running, best) {
            (Some(running), Some(best)) => Some(first(best, running)),
            (one, other) => one.or(other),
        }
    }

    /// Marks the entity as running.
    pub fn begin(&mut self, queue: usize, entity: usize) {
        self.queues[queue].running = Some(entity as u32);
        let entity = &mut self.entities[entity];
        entity.protected_until = entity.deadline;
    }

    /// Advances the running entity by `ran_ns`; returns whether another may be due.
    pub fn advance(&mut self, queue: usize, entity: usize, ran_ns: u64) -> bool {
        let slice_ns = self.slice_ns;
        let one = &mut self.entities[entity];
        one.vruntime += ran_ns as f64 * NICE_0 / one.weight;
        let done = one.vruntime >= one.deadline;
        if done {
            one.deadline = one.vruntime + slice_ns * NICE_0 / one.weight;
        }
        self.queues[queue].queued.len() > 1 && (done || !self.is_protected(entity))
    }

    /// Updates the averages of a queue to now.
    pub fn update_average(&mut self, queue: usize, now_ns: u64) {
        let group = queue / self.cpus;
        let queue = &mut self.queues[queue];
        queue.average.update(now_ns, queue.load);
        self.groups[group].load += queue.average.value - queue.counted;
        queue.counted = queue.average.value;
    }

    /// Moves the past of a thread, or its part of a cgroup's, into or out of a queue.
    pub fn shift_average(&mut self, queue: usize, by: f64, now_ns: u64) {
        self.update_average(queue, now_ns);
        let group = queue / self.cpus;
        let queue = &mut self.queues[queue];
        queue.average.shift(by);
        self.groups[group].load += queue.average.value - queue.counted;
        queue.counted = queue.average.value;
    }

    /// Whether nothing is left of a queue's past.
    pub fn has_decayed(&self, queue: usize) -> bool {
        let queue = &self.queues[queue];
        queue.queued.is_empty() && queue.average.value < 1.0
    }

    /// Sets the part, by load, of the cgroup's weight that the cgroup of `queue` has on this CPU.
    pub fn reweigh(&mut self, queue: usize, now_ns: u64) {
        let Some(parent) = self.parent(queue) else {
            return;
        };
        let group = &self.groups[queue / self.cpus];
        let own = &self.queues[queue];
        let load = own.load.max(own.average.value);
        let all = (group.load - own.counted).max(0.0) + load;
        let part = if all > 0.0 { load / all } else { 0.0 };
        let shares = (group.weight * part).clamp(MIN_SHARES, group.weight.max(MIN_SHARES));
        let entity = self.entity_of(queue);
        self.set_weight(parent, entity, shares, now_ns);
    }

    /// Sets a weight. Lag and the rest of the request stay the same in real time.
    fn set_weight(&mut self, queue: usize, entity: usize, weight: f64, now_ns: u64) {
        let old = self.entities[entity].weight;
        if old == weight {
            return;
        }
        let ratio = old / weight;
        if !self.entities[entity].queued {
            let one = &mut self.entities[entity];
            one.weight = weight;
            one.vlag *= ratio;
            if one.relative {
                one.deadline *= ratio;
            }
            return;
        }
        self.update_average(queue, now_ns);
        let v = self.average_v(queue);
        let lag = self.lag(v, entity);
        let one = &mut self.entities[entity];
        let (rest, protected) = (
            one.deadline - one.vruntime,
            one.protected_until - one.vruntime,
        );
        one.weight = weight;
        one.vruntime = v - lag * ratio;
        one.deadline = one.vruntime + rest * ratio;
        one.protected_until = one.vruntime + protected * ratio;
        self.queues[queue].load += weight - old;
    }
}
