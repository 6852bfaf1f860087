//! Threads and cgroups in run queues, level by level, and the effect of quotas on them.

use super::Machine;
use super::accounts::TenantState;
use super::events::Event;
use super::tree::LeaveReason;

impl Machine<'_> {
    /// Puts a runnable thread into its CPU's queues.
    pub(super) fn enqueue(&mut self, thread: usize) {
        let (group, cpu) = self.tree.places[thread];
        self.update(cpu);
        let first = std::mem::replace(&mut self.threads[thread].is_new, false);
        if !self.tree.entities[thread].queued {
            self.cpus[cpu].threads.push(thread);
        }
        self.enqueue_up(thread, first);
        self.count_up(self.tree.queue(group, cpu), 1);
        self.idle.remove(cpu);
        self.note(self.threads[thread].tenant, cpu);
    }

    /// Removes a thread that sleeps or moves from its CPU's queues. A thread that sleeps with
    /// negative lag stays in the queue, but is no longer runnable.
    pub(super) fn dequeue(&mut self, thread: usize, why: LeaveReason) {
        let (group, cpu) = self.tree.places[thread];
        self.update(cpu);
        let was_runnable = !self.tree.entities[thread].delayed;
        self.dequeue_up(thread, why);
        if !self.tree.entities[thread].queued {
            self.cpus[cpu].threads.retain(|t| *t != thread);
        }
        if was_runnable {
            self.count_up(self.tree.queue(group, cpu), -1);
        }
        self.note(self.threads[thread].tenant, cpu);
    }

    /// Enqueues an entity, and every ancestor that was not in its queue.
    fn enqueue_up(&mut self, entity: usize, first: bool) {
        let start = self.tree.queue_of(entity);
        let (mut entity, mut first) = (entity, first);
        while let Some(queue) = self.tree.queue_of(entity) {
            if self.tree.entities[entity].queued {
                if self.tree.entities[entity].delayed {
                    self.tree.revive(queue, entity, self.now_ns);
                }
                break;
            }
            if let Err(own) = self.tree.below(entity) {
                self.tree.update_average(own, self.now_ns);
                self.tree.reweigh(own, self.now_ns);
            }
            self.tree.enqueue(queue, entity, first, self.now_ns);
            first = false;
            self.list(queue);
            self.demand(queue);
            if self.tree.queues[queue].throttled {
                break;
            }
            entity = self.tree.entity_of(queue);
        }
        self.reweigh_up(start);
    }

    /// Dequeues an entity, and every ancestor whose queue becomes empty.
    fn dequeue_up(&mut self, entity: usize, why: LeaveReason) {
        let start = self.tree.queue_of(entity);
        let (mut entity, mut why) = (entity, why);
        while let Some(queue) = self.tree.queue_of(entity) {
            let one = &self.tree.entities[entity];
            if !one.queued {
                break;
            }
            let asleep = one.delayed;
            if why == LeaveReason::Sleep && !asleep && self.tree.delay(queue, entity) {
                break;
            }
            self.tree.dequeue(queue, entity, why, self.now_ns);
            if !self.tree.queues[queue].queued.is_empty() {
                break;
            }
            self.return_runtime(queue);
            if self.tree.queues[queue].throttled {
                break;
            }
            entity = self.tree.entity_of(queue);
            // A cgroup does not move: without threads it sleeps.
            if why == LeaveReason::Move {
                why = LeaveReason::Sleep;
            }
        }
        self.reweigh_up(start);
    }

    /// Removes a sleeping entity that was chosen: its negative lag is used up.
    pub(super) fn finish_delayed(&mut self, entity: usize) {
        if let Ok(thread) = self.tree.below(entity) {
            let cpu = self.tree.places[thread].1;
            self.cpus[cpu].threads.retain(|t| *t != thread);
        }
        self.dequeue_up(entity, LeaveReason::Sleep);
    }

    /// Adds `by` to the runnable threads of a queue and its ancestors, up to a throttled one.
    fn count_up(&mut self, queue: usize, by: i64) {
        let mut next = Some(queue);
        while let Some(queue) = next {
            let one = &mut self.tree.queues[queue];
            one.tasks = one.tasks.saturating_add_signed(by as i32);
            next = if one.throttled {
                None
            } else {
                self.tree.parent(queue)
            };
        }
    }

    /// Updates the weights of the cgroups from `queue` upward.
    pub(super) fn reweigh_up(&mut self, queue: Option<usize>) {
        let mut next = queue;
        while let Some(queue) = next {
            self.tree.update_average(queue, self.now_ns);
            self.tree.reweigh(queue, self.now_ns);
            next = self.tree.parent(queue);
        }
    }

    /// Adds the queue to the CPU's list of decaying averages.
    pub(super) fn list(&mut self, queue: usize) {
        if !std::mem::replace(&mut self.tree.queues[queue].listed, true) {
            let (_, cpu) = self.tree.group_and_cpu(queue);
            self.cpus[cpu].decaying.push(queue);
        }
    }

    /// Lets the averages of a CPU's queues decay.
    pub(super) fn decay(&mut self, cpu: usize) {
        let mut listed = std::mem::take(&mut self.cpus[cpu].decaying);
        listed.retain(|queue| {
            self.tree.update_average(*queue, self.now_ns);
            let keep = !self.tree.has_decayed(*queue);
            self.tree.queues[*queue].listed = keep;
            keep
        });
        self.cpus[cpu].decaying = listed;
    }

    /// Gives runtime to a queue that has become non-empty, or throttles it.
    fn demand(&mut self, queue: usize) {
        let (group, cpu) = self.tree.group_and_cpu(queue);
        let one = &self.tree.queues[queue];
        if self.bandwidth[group].is_none() || one.queued.len() > 1 || one.throttled {
            return;
        }
        self.take_runtime(queue);
        if self.tree.queues[queue].runtime_ns <= 0 {
            self.tree.queues[queue].throttled = true;
            if let Some(bandwidth) = &mut self.bandwidth[group] {
                bandwidth.throttled.push_back(cpu);
            }
        }
    }

    /// Refills a queue's used-up runtime from its pool.
    fn take_runtime(&mut self, queue: usize) {
        let (group, _) = self.tree.group_and_cpu(queue);
        let one = &mut self.tree.queues[queue];
        let Some(bandwidth) = &mut self.bandwidth[group] else {
            return;
        };
        if one.runtime_ns > 0 {
            return;
        }
        if let Some(end) = bandwidth.start(self.now_ns) {
            self.events.push_at(end, Event::Period { group });
        }
        one.runtime_ns += bandwidth.take(one.runtime_ns);
    }

    /// Returns the spare runtime of an empty queue.
    fn return_runtime(&mut self, queue: usize) {
        let (group, _) = self.tree.group_and_cpu(queue);
        let one = &mut self.tree.queues[queue];
        if let Some(bandwidth) = &mut self.bandwidth[group] {
            let (returned_ns, slack) = bandwidth.return_runtime(one.runtime_ns, self.now_ns);
            one.runtime_ns -= returned_ns;
            if let Some(at) = slack {
                self.events.push_at(at, Event::Slack { group });
            }
        }
    }

    /// Subtracts `ran_ns` from a running cgroup's runtime; returns whether it has to stop.
    pub(super) fn use_runtime(&mut self, queue: usize, ran_ns: u64) -> bool {
        let (group, _) = self.tree.group_and_cpu(queue);
        if self.bandwidth[group].is_none() || self.tree.queues[queue].throttled {
            return false;
        }
        self.tree.queues[queue].runtime_ns -= ran_ns as i64;
        self.take_runtime(queue);
        self.tree.queues[queue].runtime_ns <= 0
    }

    /// Throttles every ancestor of a running thread that has no runtime left.
    pub(super) fn throttle_spent(&mut self, thread: usize) {
        let mut next = self.tree.queue_of(thread);
        while let Some(queue) = next {
            let (group, _) = self.tree.group_and_cpu(queue);
            if self.bandwidth[group].is_some() && self.tree.queues[queue].runtime_ns <= 0 {
                self.throttle(queue);
            }
            next = self.tree.parent(queue);
        }
    }

    /// Removes a cgroup from a CPU until it gets runtime.
    fn throttle(&mut self, queue: usize) {
        let (group, cpu) = self.tree.group_and_cpu(queue);
        if std::mem::replace(&mut self.tree.queues[queue].throttled, true) {
            return;
        }
        if let Some(bandwidth) = &mut self.bandwidth[group] {
            bandwidth.throttled.push_back(cpu);
        }
        self.dequeue_up(self.tree.entity_of(queue), LeaveReason::Throttle);
        let tasks = i64::from(self.tree.queues[queue].tasks);
        if let Some(parent) = self.tree.parent(queue) {
            self.count_up(parent, -tasks);
        }
        self.note_below(group, cpu);
    }

    /// Lets a cgroup run again on a CPU.
    fn unthrottle(&mut self, queue: usize) {
        let (group, cpu) = self.tree.group_and_cpu(queue);
        self.update(cpu);
        self.tree.queues[queue].throttled = false;
        if !self.tree.queues[queue].queued.is_empty() {
            self.enqueue_up(self.tree.entity_of(queue), false);
            let tasks = i64::from(self.tree.queues[queue].tasks);
            if let Some(parent) = self.tree.parent(queue) {
                self.count_up(parent, tasks);
            }
            self.idle.remove(cpu);
            if self.cpus[cpu].current.is_none() {
                self.resched(cpu);
            }
        }
        self.note_below(group, cpu);
    }

    /// Starts a quota's period.
    pub(super) fn period(&mut self, group: usize) {
        let Some(bandwidth) = &mut self.bandwidth[group] else {
            return;
        };
        if let Some(next) = bandwidth.refill(self.now_ns) {
            self.events.push_at(next, Event::Period { group });
            self.distribute(group);
        }
    }

    /// Distributes returned runtime to throttled CPUs.
    pub(super) fn slack(&mut self, group: usize) {
        if let Some(bandwidth) = &mut self.bandwidth[group] {
            bandwidth.slack();
            self.distribute(group);
        }
    }

    /// Pays the debts of throttled CPUs, longest throttled first, while the pool lasts.
    fn distribute(&mut self, group: usize) {
        let Some(bandwidth) = &self.bandwidth[group] else {
            return;
        };
        let waiting = bandwidth.throttled.clone();
        for cpu in waiting {
            let queue = self.tree.queue(group, cpu);
            let Some(bandwidth) = self.bandwidth[group].as_mut().filter(|b| !b.is_dry()) else {
                return;
            };
            self.tree.queues[queue].runtime_ns += bandwidth.pay(self.tree.queues[queue].runtime_ns);
            if self.tree.queues[queue].runtime_ns > 0 {
                bandwidth.throttled.retain(|c| *c != cpu);
                self.unthrottle(queue);
            }
        }
    }

    /// Whether the cgroup `group`, or one above it, is throttled on `cpu`.
    pub(super) fn is_throttled(&self, group: usize, cpu: usize) -> bool {
        let mut next = Some(self.tree.queue(group, cpu));
        while let Some(queue) = next {
            if self.tree.queues[queue].throttled {
                return true;
            }
            next = self.tree.parent(queue);
        }
        false
    }

    /// Updates the account of a tenant's state on a CPU.
    pub(super) fn note(&mut self, tenant: usize, cpu: usize) {
        let group = self.group(tenant);
        let current = self.cpus[cpu].current;
        let state = if current.is_some_and(|t| self.threads[t].tenant == tenant) {
            TenantState::Running
        } else if self.tree.queues[self.tree.queue(group, cpu)].tasks == 0 {
            TenantState::Away
        } else if self.is_throttled(group, cpu) {
            TenantState::Throttled
        } else {
            TenantState::Waiting
        };
        self.accounts
            .set(tenant, cpu, state, self.now_ns, &self.allowed[tenant]);
    }

    /// Updates the accounts of all tenants of a cgroup.
    fn note_below(&mut self, group: usize, cpu: usize) {
        let first = self.group(0);
        if group >= first {
            return self.note(group - first, cpu);
        }
        for tenant in 0..self.tenants.tenants.len() {
            if self.tree.queues[self.tree.queue(self.group(tenant), cpu)].tasks > 0 {
                self.note(tenant, cpu);
            }
        }
    }
}
