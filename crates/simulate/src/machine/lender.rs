//! Reservations with the agent's code: planned once, lent and reclaimed by its rules.

use crate::cpus::CpuSet;
use crate::host::CgroupVersion;
use crate::scenario::{Policy, Scenario};
use cofferdam_reserve::lending::{Lending, is_wanted};
use cofferdam_reserve::{Impossible, Plan, PlanOptions, plan_what_fits, weight};
use cofferdam_types::{CgroupId, CpuId};
use std::collections::HashMap;
use std::time::Duration;

/// ID of a tenant in the plan.
pub(crate) fn id(tenant: usize) -> CgroupId {
    CgroupId(tenant as u64 + 1)
}

/// Reservations of one simulation.
#[derive(Debug)]
pub(super) struct Lender {
    plan: Plan,
    impossible: Vec<Impossible>,
    /// Owners by tenant; `None` without a reservation.
    owners: Vec<Option<Owner>>,
    parents: Vec<Option<usize>>,
    is_on: bool,
    version: CgroupVersion,
    places: HashMap<CpuId, usize>,
}

#[derive(Debug)]
struct Owner {
    cpus: CpuSet,
    milli_cpus: u32,
    lending: Lending<Duration>,
    lendings: u64,
}

impl Lender {
    pub fn new(scenario: &Scenario<'_>) -> Lender {
        let tenants = &scenario.tenants.tenants;
        let cpus = &scenario.host.topology.cpus;
        let places: HashMap<CpuId, usize> =
            cpus.iter().enumerate().map(|(i, c)| (c.cpu, i)).collect();
        let mut requests = Vec::new();
        if scenario.policy != Policy::Standard {
            let reserved = tenants.iter().enumerate();
            requests.extend(reserved.filter_map(|(i, t)| Some((id(i), t.reserved?))));
        }
        let options = PlanOptions {
            keep_cpus: scenario.keep_cpus,
        };
        let (plan, impossible) = plan_what_fits(
            &scenario.host.topology,
            &Plan::default(),
            &requests,
            options,
        );
        let owner = |tenant: usize| {
            let place = plan.placements.get(&id(tenant))?;
            let own = place.cpus();
            Some(Owner {
                cpus: CpuSet::of(own.iter().filter_map(|c| places.get(c).copied())),
                milli_cpus: place.milli_cpus(),
                lending: Lending::default(),
                lendings: 0,
            })
        };
        let owners: Vec<Option<Owner>> = (0..tenants.len()).map(owner).collect();
        let standard = tenants.iter().filter(|t| t.reserved.is_none());
        let quotas = standard.map(|t| Some((t.cgroup.quota?.cpus() * 1000.0) as u64));
        let wanted = is_wanted(plan.shared.len(), quotas);
        Lender {
            is_on: wanted && scenario.policy == Policy::StrictLending,
            owners,
            parents: tenants.iter().map(|t| t.cgroup.parent).collect(),
            version: scenario.host.cgroup,
            plan,
            impossible,
            places,
        }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn impossible(&self) -> &[Impossible] {
        &self.impossible
    }

    /// Whether anything may be lent.
    pub fn lends(&self) -> bool {
        self.is_on && self.owners.iter().any(Option::is_some)
    }

    pub fn is_placed(&self, tenant: usize) -> bool {
        self.owners[tenant].is_some()
    }

    pub fn lendings(&self, tenant: usize) -> u64 {
        self.owners[tenant].as_ref().map_or(0, |o| o.lendings)
    }

    /// Weight of a tenant's cgroup, as a multiple of the default; `None`: unchanged.
    pub fn weight(&self, tenant: usize, lending: bool) -> Option<f64> {
        let share = weight::of(&self.plan, id(tenant), lending)?;
        let v1 = self.version == CgroupVersion::V1;
        let (_, value) = weight::value(share, v1);
        let value: f64 = value.parse().ok()?;
        Some(value / if v1 { 1024.0 } else { 100.0 })
    }

    /// CPUs of a tenant whose cgroups allow `base`: its reservation, or the CPUs that others'
    /// reservations leave, with those lent by siblings.
    pub fn cpus(&self, tenant: usize, base: &CpuSet) -> CpuSet {
        if let Some(owner) = &self.owners[tenant] {
            return owner.cpus.clone();
        }
        let mut barred = CpuSet::default();
        for (other, owner) in self.owners.iter().enumerate() {
            let Some(owner) = owner else { continue };
            let lent = owner.lending.is_lent() && self.parents[other] == self.parents[tenant];
            if !lent {
                barred = barred.or(&owner.cpus);
            }
        }
        let left = base.without(&barred);
        if !left.is_empty() {
            return left;
        }
        // A tenant bound only to reserved CPUs is moved to the shared ones.
        let shared = self.plan.shared.iter();
        CpuSet::of(shared.filter_map(|c| self.places.get(c).copied()))
    }

    /// Updates lending by the owners' CPU use; returns whether lent CPUs have changed.
    pub fn update(&mut self, now_ns: u64, used_ns: impl Fn(usize) -> u64) -> bool {
        let now = Duration::from_nanos(now_ns);
        let mut changed = false;
        for (tenant, owner) in self.owners.iter_mut().enumerate() {
            let Some(owner) = owner else { continue };
            if owner
                .lending
                .update(now, used_ns(tenant), owner.milli_cpus, 0)
            {
                owner.lendings += u64::from(owner.lending.is_lent());
                changed = true;
            }
        }
        changed
    }
}
