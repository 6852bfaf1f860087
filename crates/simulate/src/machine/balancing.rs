//! Balancing of threads between CPUs: when a CPU becomes idle, and periodically at each level of
//! the topology. Follows kernel/sched/fair.c (`sched_balance_rq`, `calculate_imbalance`,
//! `detach_tasks`, `sched_balance_newidle`):
//!
//! - A CPU that becomes idle pulls one thread, from its core outward.
//! - At each level, a CPU balances every n milliseconds, where n is the level's number of CPUs, and
//!   up to 2n while there is nothing to do; a busy CPU 16 times as rarely. In each group only the
//!   first idle CPU balances, or the first CPU if none is idle. Idle CPUs balance only while some
//!   CPU has two runnable threads.
//! - Towards an idle CPU, numbers of threads are evened out. Between busy CPUs, loads are, if the
//!   other group's exceeds the level's percentage.
//! - Running threads stay, and threads whose cpuset forbids the move. Threads that ran less than
//!   0.5 ms ago stay unless balancing has failed before.
//! - If counts differ and only a running thread could be moved, it is moved after three failures.
//!
//! Left out: capacity of slower CPUs, misfit threads, NUMA preferences, the estimated cost of a
//! search, blocked load of other groups.

use super::Machine;
use super::domains::Level;
use super::tree::NICE_0;

/// Time after a run for which a thread stays (`sysctl_sched_migration_cost`), nanoseconds.
const HOT_NS: u64 = 500_000;
/// Number of failures after which that time no longer counts (`cache_nice_tries`).
const TRIES: u32 = 1;
/// Most threads that are examined at once (`sysctl_sched_nr_migrate`).
const MOST_EXAMINED: usize = 32;
/// Factor by which a busy CPU balances more rarely (`busy_factor`).
const BUSY_FACTOR: u64 = 16;

/// Occasion of balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    NewlyIdle,
    Idle,
    Busy,
}

/// Amount to move.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Imbalance {
    Threads(u32),
    Load(f64),
}

/// Sums of one group of a domain.
#[derive(Clone, Copy, Debug, Default)]
struct GroupLoad {
    load: f64,
    threads: u32,
    cpus: u32,
    idle: u32,
}

impl GroupLoad {
    fn is_overloaded(&self) -> bool {
        self.threads > self.cpus
    }

    fn has_spare(&self) -> bool {
        self.threads < self.cpus
    }

    fn load_each(&self) -> f64 {
        self.load / f64::from(self.cpus.max(1))
    }

    /// Order of groups by how busy they are: by fullness, then by load.
    fn rank(&self) -> (bool, bool, f64) {
        let by = match self.is_overloaded() {
            true => self.load_each(),
            false => f64::from(self.threads) / f64::from(self.cpus.max(1)),
        };
        (self.is_overloaded(), !self.has_spare(), by)
    }
}

impl Machine<'_> {
    /// Balances the levels of every CPU whose time has come. `crowded`: some CPU has waiting
    /// threads.
    pub(super) fn balance_all(&mut self, crowded: bool) {
        for cpu in 0..self.cpus.len() {
            let busy = !self.idle.has(cpu);
            if !busy && !crowded {
                continue;
            }
            let mut decayed = false;
            for level in 0..self.cpus[cpu].levels.len() {
                let one = self.cpus[cpu].levels[level];
                let factor = if busy { BUSY_FACTOR } else { 1 };
                let interval = (one.interval_ms * 1_000_000 * factor).max(self.tick_ns);
                if self.now_ns - one.looked_ns < interval {
                    continue;
                }
                self.cpus[cpu].levels[level].looked_ns = self.now_ns;
                if !std::mem::replace(&mut decayed, true) {
                    self.decay(cpu);
                }
                if !self.is_its_turn(cpu, level) {
                    continue;
                }
                let occasion = match busy {
                    true => Occasion::Busy,
                    false => Occasion::Idle,
                };
                let moved = self.balance(cpu, level, occasion);
                let span = self.domains[one.domain].cpus as u64;
                let next = if moved { span } else { one.interval_ms * 2 };
                self.cpus[cpu].levels[level].interval_ms = next.min(2 * span);
            }
        }
    }

    /// Whether `cpu` balances for its group: the first idle CPU does, or the first CPU if none is
    /// idle.
    fn is_its_turn(&self, cpu: usize, level: usize) -> bool {
        let level = &self.cpus[cpu].levels[level];
        let group = &self.domains[level.domain].groups[level.group];
        let idle = group.iter().find(|c| self.idle.has(**c));
        *idle.unwrap_or(&group[0]) == cpu
    }

    /// Pulls a thread to a CPU that has become idle; returns whether it got one.
    pub(super) fn pull(&mut self, cpu: usize) -> bool {
        self.decay(cpu);
        (0..self.cpus[cpu].levels.len()).any(|level| self.balance(cpu, level, Occasion::NewlyIdle))
    }

    /// Moves threads to `cpu` from the busiest group of one of its levels; returns whether any
    /// came.
    fn balance(&mut self, cpu: usize, level: usize, occasion: Occasion) -> bool {
        let Some((group, imbalance)) = self.find(cpu, level, occasion) else {
            return false;
        };
        let at = self.cpus[cpu].levels[level];
        let failed = if occasion == Occasion::NewlyIdle {
            at.failed.min(TRIES)
        } else {
            at.failed
        };
        let mut sources = self.domains[at.domain].groups[group].clone();
        sources.retain(|c| *c != cpu && self.tree.queues[self.tree.queue(0, *c)].tasks > 1);
        // The busiest first; then the next one if nothing can be moved from it.
        let busy = |c: &usize| {
            let root = &self.tree.queues[self.tree.queue(0, *c)];
            match imbalance {
                Imbalance::Threads(_) => f64::from(root.tasks),
                Imbalance::Load(_) => root.average.value,
            }
        };
        sources.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
        let mut moved = 0;
        for from in sources {
            moved = self.detach(from, cpu, imbalance, occasion, failed, at);
            if moved > 0 {
                break;
            }
        }
        if moved == 0 && occasion == Occasion::Idle && failed > TRIES + 2 {
            moved = self.push_running(group, cpu, at.domain, imbalance);
        }
        if occasion != Occasion::NewlyIdle {
            self.cpus[cpu].levels[level].failed = if moved > 0 { 0 } else { at.failed + 1 };
        }
        moved > 0
    }

    /// Busiest other group of a level, and the amount to take from it; `None` if the level is
    /// balanced.
    fn find(&mut self, cpu: usize, level: usize, occasion: Occasion) -> Option<(usize, Imbalance)> {
        let at = self.cpus[cpu].levels[level];
        let count = self.domains[at.domain].groups.len();
        let sums: Vec<GroupLoad> = (0..count).map(|g| self.sum(at.domain, g)).collect();
        let local = sums[at.group];
        let others = (0..count).filter(|g| *g != at.group && sums[*g].threads > 0);
        let group = others.max_by(|a, b| {
            let (a, b) = (sums[*a].rank(), sums[*b].rank());
            (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
        })?;
        let busiest = sums[group];
        let domain = &self.domains[at.domain];
        if local.has_spare() {
            if occasion == Occasion::Busy && !busiest.is_overloaded() {
                return None;
            }
            let by_threads = busiest.threads.saturating_sub(local.threads);
            let by_idle = local.idle.saturating_sub(busiest.idle);
            let difference = match domain.is_numa {
                true => by_idle,
                false => by_threads,
            };
            let few = difference / 2;
            // A crowded group always gives a thread to one with idle CPUs.
            let few = if busiest.is_overloaded() {
                few.max(1)
            } else {
                few
            };
            return (few > 0).then_some((group, Imbalance::Threads(few)));
        }
        if !busiest.is_overloaded() || local.load_each() >= busiest.load_each() {
            return None;
        }
        let (load, cpus) = sums.iter().fold((0.0, 0), |(load, cpus), one| {
            (load + one.load, cpus + one.cpus)
        });
        let mean = load / f64::from(cpus.max(1));
        if local.load_each() >= mean {
            return None;
        }
        let is_close = 100.0 * busiest.load_each() <= domain.imbalance_pct * local.load_each();
        if local.is_overloaded() && is_close {
            return None;
        }
        let above = (busiest.load_each() - mean) * f64::from(busiest.cpus);
        let below = (mean - local.load_each()) * f64::from(local.cpus);
        let imbalance = above.min(below);
        (imbalance > 0.0).then_some((group, Imbalance::Load(imbalance)))
    }

    fn sum(&mut self, domain: usize, group: usize) -> GroupLoad {
        let mut sum = GroupLoad::default();
        for i in 0..self.domains[domain].groups[group].len() {
            let cpu = self.domains[domain].groups[group][i];
            let root = self.tree.queue(0, cpu);
            self.tree.update_average(root, self.now_ns);
            let root = &self.tree.queues[root];
            sum.load += root.average.value;
            sum.threads += root.tasks;
            sum.cpus += 1;
            sum.idle += u32::from(self.idle.has(cpu));
        }
        sum
    }

    /// Moves up to `imbalance` from one CPU to another; returns the number of threads.
    fn detach(
        &mut self,
        from: usize,
        to: usize,
        imbalance: Imbalance,
        occasion: Occasion,
        failed: u32,
        at: Level,
    ) -> u32 {
        let is_core = self.domains[at.domain].is_core;
        let local = self.domains[at.domain].groups[at.group].clone();
        let looked_at: Vec<usize> = self.cpus[from]
            .threads
            .iter()
            .copied()
            .take(MOST_EXAMINED)
            .collect();
        let mut left = imbalance;
        let mut moved = 0;
        for thread in looked_at {
            let root = &self.tree.queues[self.tree.queue(0, from)];
            if occasion != Occasion::Busy && root.tasks <= 1 {
                break;
            }
            let hot = self.now_ns - self.threads[thread].ran_at_ns < HOT_NS;
            if hot && !is_core && failed <= TRIES {
                continue;
            }
            let Some(to) = self.destination(thread, to, &local) else {
                continue;
            };
            match &mut left {
                Imbalance::Threads(0) => break,
                Imbalance::Threads(n) => *n -= 1,
                Imbalance::Load(load) => {
                    let own = self.load_of(thread);
                    let least = own / f64::from(1u32 << failed.min(20));
                    if least > *load {
                        continue;
                    }
                    *load -= own;
                }
            }
            self.migrate(thread, to);
            moved += 1;
            let enough = matches!(left, Imbalance::Load(load) if load <= 0.0);
            if enough || occasion == Occasion::NewlyIdle {
                break;
            }
        }
        moved
    }

    /// Moves a running thread to an idle CPU, from a group that has more threads.
    fn push_running(
        &mut self,
        group: usize,
        to: usize,
        domain: usize,
        imbalance: Imbalance,
    ) -> u32 {
        if !matches!(imbalance, Imbalance::Threads(_)) || !self.idle.has(to) {
            return 0;
        }
        let cpus = self.domains[domain].groups[group].clone();
        let running = cpus.iter().find_map(|c| {
            let thread = self.cpus[*c].current?;
            self.allowed[self.threads[thread].tenant]
                .has(to)
                .then_some(thread)
        });
        let Some(thread) = running else { return 0 };
        self.migrate(thread, to);
        1
    }

    /// Returns `to` or, if a cpuset forbids that, another idle CPU of its group.
    fn destination(&self, thread: usize, to: usize, local: &[usize]) -> Option<usize> {
        let idle = local.iter().copied().filter(|c| self.idle.has(*c));
        let mut all = std::iter::once(to).chain(idle);
        all.find(|c| self.may_move(thread, *c))
    }

    fn may_move(&self, thread: usize, to: usize) -> bool {
        let (group, from) = self.tree.places[thread];
        self.cpus[from].current != Some(thread)
            && !self.tree.entities[thread].delayed
            && self.allowed[self.threads[thread].tenant].has(to)
            && !self.is_throttled(group, from)
    }

    /// Part of its CPU's load that a thread has, by the weights of its cgroups there.
    fn load_of(&mut self, thread: usize) -> f64 {
        self.threads[thread].update_average(self.now_ns);
        let mut load = self.threads[thread].average.value * NICE_0;
        let mut next = self.tree.queue_of(thread);
        while let Some(queue) = next {
            next = self.tree.parent(queue);
            if next.is_some() {
                let entity = self.tree.entity_of(queue);
                load *= self.tree.entities[entity].weight / self.tree.queues[queue].load.max(1.0);
            }
        }
        load.max(1.0)
    }

    /// Moves a thread that is in a run queue to another CPU.
    pub(super) fn migrate(&mut self, thread: usize, to: usize) {
        let (_, from) = self.tree.places[thread];
        self.update(from);
        self.update(to);
        let ran = self.cpus[from].current == Some(thread);
        self.dequeue(thread, super::tree::LeaveReason::Move);
        if ran {
            self.stop(from);
            self.note(self.threads[thread].tenant, from);
            self.resched(from);
        }
        self.carry(thread, to, false);
        self.enqueue(thread);
        self.preempt(thread);
    }
}
