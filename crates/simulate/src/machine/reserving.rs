//! Effect of reservations on the machine: cpusets and weights.

use super::Machine;
use super::tree::NICE_0;
use crate::cpus::CpuSet;
use crate::scenario::Policy;

impl Machine<'_> {
    /// Sets the weights of reservations.
    pub(super) fn set_weights(&mut self, policy: Policy) {
        for tenant in 0..self.tenants.tenants.len() {
            if let Some(weight) = self.lender.weight(tenant, policy == Policy::StrictLending) {
                let group = self.group(tenant);
                self.tree.set_group_weight(group, weight * NICE_0);
            }
        }
    }

    /// Runs the agent's check for idle reserved CPUs.
    pub(super) fn step(&mut self) {
        self.update_all();
        let accounts = &self.accounts.tenants;
        if self
            .lender
            .update(self.now_ns, |tenant| accounts[tenant].used_ns)
        {
            self.set_cpusets();
        }
    }

    /// Sets the current CPUs of every tenant, and moves threads off other CPUs.
    pub(super) fn set_cpusets(&mut self) {
        for tenant in 0..self.tenants.tenants.len() {
            let now = self.lender.cpus(tenant, &self.base(tenant));
            if self.allowed[tenant] == now {
                continue;
            }
            self.accounts
                .close(tenant, self.now_ns, &self.allowed[tenant]);
            self.allowed[tenant] = now;
            for thread in 0..self.threads.len() {
                let (_, cpu) = self.tree.places[thread];
                if self.threads[thread].tenant == tenant && !self.allowed[tenant].has(cpu) {
                    self.move_away(thread);
                }
            }
        }
    }

    /// Moves a thread off a CPU that it may no longer use.
    fn move_away(&mut self, thread: usize) {
        let entity = &self.tree.entities[thread];
        if !entity.queued {
            return;
        }
        if entity.delayed {
            return self.finish_delayed(thread);
        }
        let (_, before) = self.tree.places[thread];
        let cpu = self.least_crowded(self.threads[thread].tenant, before);
        self.migrate(thread, cpu);
    }

    /// CPUs that a tenant's own cgroups allow.
    fn base(&self, tenant: usize) -> CpuSet {
        let cpus = &self.host.topology.cpus;
        let mut base = CpuSet::of((0..cpus.len()).filter(|i| !cpus[*i].isolated));
        let own = &self.tenants.tenants[tenant].cgroup;
        let mut next = Some(own);
        while let Some(cgroup) = next {
            if let Some(cpus) = &cgroup.cpus {
                base = base.and(&CpuSet::of(cpus.iter().copied()));
            }
            next = cgroup.parent.map(|p| &self.tenants.groups[p]);
        }
        base
    }
}
