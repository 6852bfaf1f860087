//! CPUs promised to containers without a cgroup: their runtime requests them before it creates the
//! container.
//!
//! A promise takes part in every plan as the reservation of a synthetic cgroup. When the container
//! arrives, it takes the promise's place in the plan, and so gets the same CPUs.

use super::Reservations;
use crate::cpus::spell;
use crate::journal::Journal;
use cofferdam_reserve::{Limits, Plan, PlanOptions, plan_within};
use cofferdam_types::{CgroupId, Container, CpuAmount};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// First synthetic cgroup ID. The kernel's IDs are inode numbers and grow from small values.
const FIRST_SYNTHETIC: u64 = 1 << 63;

/// Promise of CPUs to one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    id: CgroupId,
    amount: CpuAmount,
    /// Future directory of its cgroup in the cpuset hierarchy, if known.
    directory: Option<PathBuf>,
}

impl Reservations {
    /// Promises CPUs to the container that its runtime calls `container` and creates at
    /// `cgroup_path` (empty: unknown). Changes nothing on the host. Returns the CPUs as a list. A
    /// second promise replaces the first.
    ///
    /// # Errors
    /// Returns the reason if the promise cannot be kept. All other promises stay.
    pub fn promise(
        &mut self,
        journal: &Journal,
        container: &str,
        cgroup_path: &Path,
        amount: CpuAmount,
    ) -> Result<String, String> {
        self.cancel_promise(container);
        self.promised += 1;
        let id = CgroupId(FIRST_SYNTHETIC + self.promised);
        let below_mount = cgroup_path.strip_prefix("/").ok();
        let directory = self.hierarchy.as_ref().zip(below_mount);
        let promise = Promise {
            id,
            amount,
            directory: directory.map(|(hierarchy, path)| hierarchy.mount.join(path)),
        };
        self.promises.insert(container.to_owned(), promise);
        let limits = self.limits(journal);
        let (plan, impossible) = self.plan_for(&self.requests(), &limits);
        if let Some(mine) = impossible.iter().find(|one| one.id == id) {
            let why = self.why_impossible(journal, &limits, mine);
            self.promises.remove(container);
            return Err(why);
        }
        let cpus = plan.placements.get(&id).map(|place| spell(&place.cpus()));
        self.plan = plan;
        Ok(cpus.unwrap_or_default())
    }

    /// Cancels the promise to a container that will not come. Its CPUs are free with the next plan.
    pub fn cancel_promise(&mut self, container: &str) -> bool {
        let promise = self.promises.remove(container);
        if let Some(promise) = &promise {
            self.plan.placements.remove(&promise.id);
        }
        promise.is_some()
    }

    /// Whether a promised container is still to come.
    pub fn has_promises(&self) -> bool {
        !self.promises.is_empty()
    }

    /// Gives a container that has arrived the place that it was promised.
    pub(super) fn redeem(&mut self, container: &Container) {
        let id = container.id.as_deref();
        let Some(promise) = id.and_then(|id| self.promises.remove(id)) else {
            return;
        };
        if let Some(place) = self.plan.placements.remove(&promise.id) {
            self.plan.placements.insert(container.cgroup, place);
        }
    }

    /// Future directories of promised containers.
    pub(super) fn promised_directories(&self) -> impl Iterator<Item = (CgroupId, &Path)> {
        let promises = self.promises.values();
        promises.filter_map(|promise| Some((promise.id, promise.directory.as_deref()?)))
    }

    pub(super) fn promised_directory(&self, id: CgroupId) -> Option<&Path> {
        let mut all = self.promised_directories();
        all.find(|(other, _)| *other == id).map(|(_, path)| path)
    }

    /// Requests in the order of planning. If several containers share one cpuset, the first one's
    /// request counts.
    pub(super) fn requests(&self) -> Vec<(CgroupId, CpuAmount)> {
        let mut directories = BTreeSet::new();
        let strict = self.order.iter().filter_map(|id| {
            let one = self.strict.get(id)?;
            let directory = one.member.cpuset_directory()?;
            directories.insert(directory).then_some((*id, one.amount))
        });
        let mut requests: Vec<(CgroupId, CpuAmount)> = strict.collect();
        requests.extend(self.promises.values().map(|p| (p.id, p.amount)));
        requests
    }

    pub(super) fn plan_for(
        &self,
        requests: &[(CgroupId, CpuAmount)],
        limits: &Limits,
    ) -> (Plan, Vec<cofferdam_reserve::Impossible>) {
        let options = PlanOptions {
            keep_cpus: self.options.keep_cpus,
        };
        plan_within(&self.topology, &self.plan, requests, options, limits)
    }
}
