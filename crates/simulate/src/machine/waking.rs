//! Placement of woken threads, and preemption of the threads that run there.
//!
//! A thread goes to the CPU where it last ran, if that is idle; otherwise to an idle core or an
//! idle CPU of the same last-level cache, from there upward; otherwise to the CPU where it last
//! ran. A new thread, and one that may no longer use its CPU, goes to the allowed CPU with the
//! fewest runnable threads. The kernel also considers the waker's CPU (`wake_affine`), and gives up
//! a long search early.

use super::Machine;
use crate::cpus::CpuSet;

impl Machine<'_> {
    /// Ends a thread's sleep.
    pub(super) fn wake(&mut self, thread: usize) {
        let one = &mut self.threads[thread];
        if !one.is_asleep {
            return;
        }
        one.update_average(self.now_ns);
        (one.is_asleep, one.woken_ns) = (false, Some(self.now_ns));
        let (_, before) = self.tree.places[thread];
        // A thread that is still in its queue stays there.
        if !self.tree.entities[thread].queued {
            let is_new = self.threads[thread].is_new;
            let cpu = self.choose_cpu(thread);
            if is_new || cpu != before {
                self.carry(thread, cpu, is_new);
            }
        }
        self.enqueue(thread);
        self.preempt(thread);
    }

    fn choose_cpu(&mut self, thread: usize) -> usize {
        let one = &self.threads[thread];
        let allowed = &self.allowed[one.tenant];
        let (_, before) = self.tree.places[thread];
        if one.is_new || !allowed.has(before) {
            return self.least_crowded(one.tenant, before);
        }
        if self.idle.has(before) {
            return before;
        }
        let idle = self.idle.and(&self.llc[before]).and(allowed);
        if idle.is_empty() {
            return before;
        }
        let core = |cpu: usize| self.host.topology.cpus[cpu].core;
        let wrapped = idle.iter().filter(|c| *c > before);
        let wrapped: Vec<usize> = wrapped.chain(idle.iter().filter(|c| *c < before)).collect();
        let busy_cores: Vec<u32> = self.llc[before]
            .without(&self.idle)
            .iter()
            .map(core)
            .collect();
        let whole = wrapped.iter().find(|c| !busy_cores.contains(&core(**c)));
        *whole.unwrap_or(&wrapped[0])
    }

    /// The allowed CPU with the fewest runnable threads; a random one of equals.
    pub(super) fn least_crowded(&mut self, tenant: usize, otherwise: usize) -> usize {
        let crowd = |cpu: usize| {
            let root = &self.tree.queues[self.tree.queue(0, cpu)];
            (root.tasks, root.load as u64)
        };
        let allowed: &CpuSet = &self.allowed[tenant];
        let Some(least) = allowed.iter().map(crowd).min() else {
            return otherwise;
        };
        let equal: Vec<usize> = allowed.iter().filter(|c| crowd(*c) == least).collect();
        equal[self.random.usize(0..equal.len())]
    }

    /// Moves a thread that is in no queue to another CPU, with its past.
    pub(super) fn carry(&mut self, thread: usize, cpu: usize, is_new: bool) {
        let (group, before) = self.tree.places[thread];
        if !is_new {
            self.shift_averages(thread, group, before, -1.0);
        }
        self.tree.places[thread].1 = cpu;
        self.shift_averages(thread, group, cpu, 1.0);
    }

    /// Adds (1) or removes (−1) a thread's average load in its queue. The queues above get the part
    /// of it that their cgroup's weight gives it there.
    fn shift_averages(&mut self, thread: usize, group: usize, cpu: usize, sign: f64) {
        self.threads[thread].update_average(self.now_ns);
        let mut load = self.threads[thread].average.value * super::tree::NICE_0;
        let mut next = Some(self.tree.queue(group, cpu));
        while let Some(queue) = next {
            self.tree.shift_average(queue, sign * load, self.now_ns);
            self.list(queue);
            let entity = self.tree.entity_of(queue);
            let one = &self.tree.queues[queue];
            let below = one.load.max(one.average.value).max(load).max(1.0);
            load *= self.tree.entities[entity].weight / below;
            next = self.tree.parent(queue);
        }
    }

    /// Lets `thread` preempt the CPU's running thread if the rules prefer it.
    pub(super) fn preempt(&mut self, thread: usize) {
        let (_, cpu) = self.tree.places[thread];
        let Some(_) = self.cpus[cpu].current else {
            return self.resched(cpu);
        };
        // The queue where the paths of both threads meet.
        let mut entity = thread;
        while let Some(queue) = self.tree.queue_of(entity) {
            if self.tree.queues[queue].throttled {
                return;
            }
            match self.tree.queues[queue].running {
                Some(running) if running as usize == entity => return,
                Some(_) => {
                    if self.tree.pick(queue) == Some(entity) {
                        self.resched(cpu);
                    }
                    return;
                }
                None => entity = self.tree.entity_of(queue),
            }
        }
    }
}
