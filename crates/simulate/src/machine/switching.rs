//! Choice of the running thread: the clock of a CPU, the tick, the switch.

use super::Machine;
use super::events::Event;
use super::tree::LeaveReason;
use crate::scenario::Behaviour;

impl Machine<'_> {
    /// Marks a CPU that must choose its running thread again.
    pub(super) fn resched(&mut self, cpu: usize) {
        if !std::mem::replace(&mut self.cpus[cpu].resched, true) {
            self.pending.push(cpu);
        }
    }

    /// Accounts the time of a CPU up to now: to the running thread and its cgroups, or as idle.
    pub(super) fn update(&mut self, cpu: usize) {
        let ran_ns = self.now_ns - self.cpus[cpu].updated_ns;
        if ran_ns == 0 {
            return;
        }
        self.cpus[cpu].updated_ns = self.now_ns;
        let Some(thread) = self.cpus[cpu].current else {
            self.accounts.add_idle(cpu, ran_ns);
            return;
        };
        let one = &mut self.threads[thread];
        one.ran_at_ns = self.now_ns;
        one.left_ns = one.left_ns.map(|left| left.saturating_sub(ran_ns));
        self.accounts.add_run(one.tenant, ran_ns);
        let mut due = false;
        let mut spent = false;
        let mut entity = thread;
        while let Some(queue) = self.tree.queue_of(entity) {
            due |= self.tree.advance(queue, entity, ran_ns);
            spent |= self.use_runtime(queue, ran_ns);
            entity = self.tree.entity_of(queue);
        }
        if spent {
            self.throttle_spent(thread);
        }
        if due || spent {
            self.resched(cpu);
        }
    }

    /// Handles the timer tick: clocks, weights, balancing.
    pub(super) fn tick(&mut self) {
        self.events.push_at(self.now_ns + self.tick_ns, Event::Tick);
        let mut crowded = false;
        for cpu in 0..self.cpus.len() {
            if let Some(thread) = self.cpus[cpu].current {
                self.update(cpu);
                let queue = self.tree.queue_of(thread);
                self.reweigh_up(queue);
            }
            crowded |= self.tree.queues[self.tree.queue(0, cpu)].tasks > 1;
        }
        self.balance_all(crowded);
    }

    /// Chooses the running thread of a CPU.
    pub(super) fn reschedule(&mut self, cpu: usize) {
        self.cpus[cpu].resched = false;
        self.update(cpu);
        // Clears the request that throttling in the update above may have made.
        self.cpus[cpu].resched = false;
        self.pending.retain(|c| *c != cpu);
        let before = self.cpus[cpu].current;
        let mut next = self.pick(cpu);
        if next.is_some() && next == before {
            return;
        }
        self.stop(cpu);
        if next.is_none() {
            self.accounts.set_idle(cpu, true, self.now_ns);
            self.idle.insert(cpu);
            if self.pull(cpu) {
                next = self.pick(cpu);
            }
        }
        self.cpus[cpu].switches += 1;
        if let Some(thread) = next {
            self.run_thread(cpu, thread);
        }
        if let Some(thread) = before {
            self.note(self.threads[thread].tenant, cpu);
        }
    }

    /// Thread that the rules of the run queues choose.
    fn pick(&mut self, cpu: usize) -> Option<usize> {
        let root = self.tree.queue(0, cpu);
        let mut queue = root;
        loop {
            let entity = self.tree.pick(queue)?;
            if self.tree.entities[entity].delayed {
                self.finish_delayed(entity);
                queue = root;
                continue;
            }
            match self.tree.below(entity) {
                Ok(thread) => return Some(thread),
                Err(below) => queue = below,
            }
        }
    }

    /// Stops the running thread of a CPU.
    pub(super) fn stop(&mut self, cpu: usize) {
        let mut queue = self.tree.queue(0, cpu);
        while let Some(entity) = self.tree.queues[queue].running.take() {
            match self.tree.below(entity as usize) {
                Ok(_) => break,
                Err(below) => queue = below,
            }
        }
        self.cpus[cpu].current = None;
    }

    fn run_thread(&mut self, cpu: usize, thread: usize) {
        let mut entity = thread;
        while let Some(queue) = self.tree.queue_of(entity) {
            self.tree.begin(queue, entity);
            entity = self.tree.entity_of(queue);
        }
        self.accounts.set_idle(cpu, false, self.now_ns);
        self.idle.remove(cpu);
        let (now_ns, tenant) = (self.now_ns, self.threads[thread].tenant);
        let one = &mut self.cpus[cpu];
        one.current = Some(thread);
        one.threads.retain(|t| *t != thread);
        one.threads.push(thread);
        let switches = one.switches;
        let one = &mut self.threads[thread];
        one.ran_at_ns = now_ns;
        if let Some(woken) = one.woken_ns.take() {
            self.accounts.delayed(tenant, now_ns - woken);
        }
        if let Some(left) = one.left_ns {
            self.events
                .push_at(now_ns + left, Event::RunDone { cpu, switches });
        }
        self.note(tenant, cpu);
    }

    /// Ends the running thread's run: it sleeps, or waits at its barrier.
    pub(super) fn run_done(&mut self, cpu: usize, switches: u64) {
        if self.cpus[cpu].switches != switches {
            return;
        }
        self.update(cpu);
        let Some(thread) = self.cpus[cpu].current else {
            return;
        };
        let tenant = self.threads[thread].tenant;
        self.threads[thread].next_run(&mut self.random);
        if let (Behaviour::Phases { .. }, Some(barrier)) =
            (self.threads[thread].behaviour, self.threads[thread].barrier)
        {
            return self.arrive(cpu, thread, barrier);
        }
        self.accounts.tenants[tenant].rounds += 1;
        match self.threads[thread].next_sleep_ns(&mut self.random) {
            0 => self.rearm(cpu, thread),
            sleep => {
                self.sleep(cpu, thread);
                self.events
                    .push_at(self.now_ns + sleep, Event::Wake { thread });
            }
        }
    }

    fn arrive(&mut self, cpu: usize, thread: usize, barrier: usize) {
        let one = &mut self.barriers[barrier];
        one.arrived += 1;
        if one.arrived < one.members.len() {
            return self.sleep(cpu, thread);
        }
        one.arrived = 0;
        let members = one.members.clone();
        self.accounts.tenants[self.threads[thread].tenant].rounds += 1;
        self.rearm(cpu, thread);
        for member in members.into_iter().filter(|m| *m != thread) {
            self.wake(member);
        }
    }

    /// Lets the thread continue with its next run at once.
    fn rearm(&mut self, cpu: usize, thread: usize) {
        if let Some(left) = self.threads[thread].left_ns {
            let switches = self.cpus[cpu].switches;
            self.events
                .push_at(self.now_ns + left, Event::RunDone { cpu, switches });
        }
    }

    fn sleep(&mut self, cpu: usize, thread: usize) {
        self.threads[thread].update_average(self.now_ns);
        self.threads[thread].is_asleep = true;
        self.dequeue(thread, LeaveReason::Sleep);
        self.resched(cpu);
    }
}
