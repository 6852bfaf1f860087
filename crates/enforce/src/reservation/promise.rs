//! CPUs promised to containers that have no cgroup yet: their runtime asks before it makes them.
//!
//! A promise takes part in every plan as the reservation of a made-up cgroup would. When the
//! container comes, it takes the promise's place in the plan and so gets the same CPUs.

use super::{Reservations, member};
use crate::cpus::spell;
use cofferdam_reserve::{Options, Plan, plan_what_fits};
use cofferdam_types::{CgroupId, Container, CpuAmount};

/// Ids of the kernel's cgroups are inode numbers and grow from small ones.
const FIRST_MADE_UP: u64 = 1 << 63;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    id: CgroupId,
    amount: CpuAmount,
}

impl Reservations {
    /// Promises CPUs to the container that its runtime calls `container`; nothing on the host is
    /// changed. Returns the CPUs, as a list. A second promise replaces the first.
    ///
    /// # Errors
    /// Why it cannot be kept. All others are kept.
    pub fn promise(&mut self, container: &str, amount: CpuAmount) -> Result<String, String> {
        self.withdraw(container);
        self.promised += 1;
        let id = CgroupId(FIRST_MADE_UP + self.promised);
        let mut requests = self.requests();
        requests.push((id, amount));
        let (plan, impossible) = self.plan_for(&requests);
        if let Some(mine) = impossible.iter().find(|one| one.id == id) {
            return Err(member::impossible(mine));
        }
        let cpus = plan.placements.get(&id).map(|place| spell(&place.cpus()));
        self.plan = plan;
        let promise = Promise { id, amount };
        self.promises.insert(container.to_owned(), promise);
        Ok(cpus.unwrap_or_default())
    }

    /// The container will not come. Its CPUs are free with the next plan.
    pub fn withdraw(&mut self, container: &str) -> bool {
        let gone = self.promises.remove(container);
        if let Some(promise) = gone {
            self.plan.placements.remove(&promise.id);
        }
        gone.is_some()
    }

    /// Whether a container is still to come.
    pub fn has_promises(&self) -> bool {
        !self.promises.is_empty()
    }

    /// A container that has come takes the place that it was promised.
    pub(super) fn redeem(&mut self, container: &Container) {
        let id = container.id.as_deref();
        let Some(promise) = id.and_then(|id| self.promises.remove(id)) else {
            return;
        };
        if let Some(place) = self.plan.placements.remove(&promise.id) {
            self.plan.placements.insert(container.cgroup, place);
        }
    }

    /// What is asked for, in the order in which it is planned.
    pub(super) fn requests(&self) -> Vec<(CgroupId, CpuAmount)> {
        let strict = self.order.iter().filter_map(|id| {
            let one = self.strict.get(id)?;
            one.member.places.cpuset.as_ref()?;
            Some((*id, one.amount))
        });
        let promised = self.promises.values().map(|p| (p.id, p.amount));
        strict.chain(promised).collect()
    }

    pub(super) fn plan_for(
        &self,
        requests: &[(CgroupId, CpuAmount)],
    ) -> (Plan, Vec<cofferdam_reserve::Impossible>) {
        let options = Options {
            keep_cpus: self.options.keep_cpus,
        };
        plan_what_fits(&self.topology, &self.plan, requests, options)
    }
}
