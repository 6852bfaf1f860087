//! Promise to each tenant, by the rule of the diagnosis: its reservation, or the share that its
//! weight gives it while every sibling wants what it used, level by level, cut by quotas and
//! cpusets.

use crate::machine::TenantCounts;
use crate::scenario::{Cgroup, Policy, Scenario};
use cofferdam_types::{Entitlement, fair_share};

/// Part of the host, and the setting that determines it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Promise {
    pub cpus: f64,
    pub by: Entitlement,
}

/// Computes the promise to each tenant.
pub(crate) fn promises(
    scenario: &Scenario<'_>,
    counts: &[TenantCounts],
    duration_ns: u64,
    cpus: usize,
) -> Vec<Promise> {
    let tenants = scenario.tenants;
    let groups = tenants.groups.len();
    // Groups first, then tenants.
    let cgroups: Vec<&Cgroup> = tenants
        .groups
        .iter()
        .chain(tenants.tenants.iter().map(|t| &t.cgroup))
        .collect();
    let mut used = vec![0.0; cgroups.len()];
    for (tenant, one) in counts.iter().enumerate() {
        let mut next = Some(groups + tenant);
        while let Some(place) = next {
            used[place] += one.time.run_ns as f64 / duration_ns.max(1) as f64;
            next = cgroups[place].parent;
        }
    }
    let mut promises: Vec<Promise> = Vec::new();
    for (place, own) in cgroups.iter().enumerate() {
        let above = match own.parent {
            Some(parent) => promises[parent],
            None => Promise {
                cpus: cpus as f64,
                by: Entitlement::Weight,
            },
        };
        let siblings = cgroups.iter().enumerate();
        let siblings = siblings.filter(|(i, c)| *i != place && c.parent == own.parent);
        let others: Vec<(u64, f64)> = siblings
            .map(|(i, c)| (u64::from(c.weight), used[i]))
            .collect();
        let mut promise = Promise {
            cpus: fair_share(above.cpus, u64::from(own.weight), &others),
            by: above.by,
        };
        let allowed = own.cpus.as_ref().map(|c| c.len() as f64);
        let caps = [
            (own.quota.map(|q| q.cpus()), Entitlement::Quota),
            (allowed, Entitlement::Cpuset),
        ];
        for (cap, by) in caps {
            if let Some(cpus) = cap.filter(|cpus| *cpus < promise.cpus) {
                promise = Promise { cpus, by };
            }
        }
        promises.push(promise);
    }
    let mut promises = promises.split_off(groups);
    for (tenant, promise) in promises.iter_mut().enumerate() {
        let reserved = tenants.tenants[tenant].reserved;
        if let Some(amount) = reserved.filter(|_| scenario.policy != Policy::Standard)
            && counts[tenant].is_placed
        {
            *promise = Promise {
                cpus: f64::from(amount),
                by: Entitlement::Reserved,
            };
        }
    }
    promises
}
