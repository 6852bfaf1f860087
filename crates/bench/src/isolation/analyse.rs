//! Tables of the paper, computed from samples.

use super::experiment::Experiment;
use crate::data::Estimate;
use crate::host_facts;
use crate::isolation::data::{
    IsolationRow, IsolationSample, IsolationTable, Protection, Resource, RuntimeKind, Scenario,
};
use crate::stats;
use std::collections::{BTreeMap, BTreeSet};

/// Computes one table for each runtime, protection and resource with a sample.
pub(crate) fn tables(experiment: &Experiment, samples: &[IsolationSample]) -> Vec<IsolationTable> {
    let kinds: BTreeSet<(RuntimeKind, Protection, Resource)> = samples
        .iter()
        .map(|s| (s.key.runtime, s.key.protection, s.key.resource))
        .collect();
    kinds
        .into_iter()
        .map(|(runtime, protection, resource)| {
            let capacity = capacity(experiment, resource, samples);
            let of = |s: &&IsolationSample| {
                (s.key.runtime, s.key.protection, s.key.resource) == (runtime, protection, resource)
            };
            let mine: Vec<&IsolationSample> = samples.iter().filter(of).collect();
            IsolationTable {
                runtime,
                protection,
                resource,
                capacity,
                rows: rows(&mine, resource, capacity, experiment.seed),
            }
        })
        .collect()
}

/// Capacity of a resource, which is 100%: c_b + c_i, m_u + m_f, n_m and iops_m of Volpert et al.
/// (ICPE 2023).
///
/// The capacity of a disk is the largest median, over the runtimes, of an unrestricted tenant
/// without neighbour. Without such a sample it is the highest rate of any tenant: four times the
/// limit would be a guess. The capacity of the cache is the highest rate of any tenant, which loads
/// the smallest set.
fn capacity(experiment: &Experiment, resource: Resource, samples: &[IsolationSample]) -> f64 {
    match resource {
        Resource::Cpu | Resource::NetworkCpu => host_facts::online_cpus().len() as f64,
        Resource::Memory => host_facts::memory_bytes() as f64,
        Resource::Network => experiment.link.0 as f64,
        Resource::Llc => {
            let of_cache = samples.iter().filter(|s| s.key.resource == resource);
            of_cache.map(|s| s.a.used).fold(0.0, f64::max)
        }
        Resource::Disk | Resource::DiskBuffered => {
            let mut alone: BTreeMap<RuntimeKind, Vec<f64>> = BTreeMap::new();
            let mut most: f64 = 0.0;
            for s in samples.iter().filter(|s| s.key.resource == resource) {
                most = most.max(s.a.used);
                if s.key.scenario.to_string() == "a_f" {
                    alone.entry(s.key.runtime).or_default().push(s.a.used);
                }
            }
            let medians = alone.values().filter_map(|values| stats::median(values));
            medians.reduce(f64::max).unwrap_or(most)
        }
    }
}

fn rows(
    samples: &[&IsolationSample],
    resource: Resource,
    capacity: f64,
    seed: u64,
) -> Vec<IsolationRow> {
    let scenarios: BTreeSet<(usize, Scenario)> = samples
        .iter()
        .map(|s| (s.key.scenario.number(), s.key.scenario))
        .collect();
    scenarios
        .into_iter()
        .filter_map(|(number, scenario)| {
            row(samples, resource, capacity, seed, number as u32, scenario)
        })
        .collect()
}

fn row(
    samples: &[&IsolationSample],
    resource: Resource,
    capacity: f64,
    seed: u64,
    id: u32,
    scenario: Scenario,
) -> Option<IsolationRow> {
    let mine = |of: Scenario| samples.iter().filter(move |s| s.key.scenario == of);
    let estimate = |values: &[f64]| stats::estimate(values, seed);
    let pct = |used: f64| match capacity > 0.0 {
        true => used / capacity * 100.0,
        false => 0.0,
    };
    let all = |of: &dyn Fn(&IsolationSample) -> Option<f64>| {
        let values: Vec<f64> = mine(scenario).filter_map(|s| of(s)).collect();
        estimate(&values)
    };
    let utilisation = all(&|s| Some(pct(s.a.used)))?;
    let performance = all(&|s| Some(s.a.performance))?;
    let mut row = IsolationRow {
        id,
        scenario,
        b_utilisation_pct: all(&|s| s.b.as_ref().map(|b| pct(b.used))),
        i_ulr: None,
        i_plr: None,
        utilisation_loss_pct: None,
        performance_loss_pct: None,
        achieved: all(&|s| achieved_rate(s, resource)),
        p99_us: all(&|s| s.a.p99_us),
        p99_factor: None,
        restarts: mine(scenario).map(|s| s.a.restarts).max().unwrap_or(0),
        utilisation_pct: utilisation,
        performance,
    };
    if scenario.b.is_none() {
        return Some(row);
    }
    // Block by block: drift between blocks affects both samples alike.
    let pairs: Vec<(&IsolationSample, &IsolationSample)> = mine(scenario)
        .filter_map(|s| {
            let same = |base: &&&IsolationSample| base.key.repetition == s.key.repetition;
            Some((*mine(scenario.baseline()).find(same)?, *s))
        })
        .collect();
    let paired = |of: &dyn Fn(&IsolationSample, &IsolationSample) -> Option<f64>| {
        let values: Vec<f64> = pairs.iter().filter_map(|(base, s)| of(base, s)).collect();
        estimate(&values)
    };
    let loss = |base: f64, now: f64| (base > 0.0).then_some((base - now) / base * 100.0);
    row.utilisation_loss_pct = paired(&|base, s| loss(base.a.used, s.a.used));
    row.performance_loss_pct = paired(&|base, s| loss(base.a.performance, s.a.performance));
    row.p99_factor = paired(&|base, s| {
        let (before, now) = (base.a.p99_us?, s.a.p99_us?);
        (before > 0.0).then_some(now / before)
    });
    let bases: Vec<f64> = mine(scenario.baseline()).map(|s| pct(s.a.used)).collect();
    if let Some(base) = stats::median(&bases) {
        let (ulr, plr) = paper_losses(resource, base, row.utilisation_pct.median);
        row.i_ulr = Some(ulr);
        row.i_plr = plr;
    }
    Some(row)
}

/// I_ulr and I_plr as the paper's tables compute them, without a sign. I_plr is `None` if a used
/// nothing.
fn paper_losses(resource: Resource, a: f64, contended: f64) -> (f64, Option<f64>) {
    let points = (a - contended).abs();
    let plr = (a > 0.0).then_some(points / a * 100.0);
    (points * resource.ulr_weight(), plr)
}

/// Ratio of what a tenant got to what it asked for.
fn achieved_rate(sample: &IsolationSample, resource: Resource) -> Option<f64> {
    let asked = sample.a.asked.filter(|asked| *asked > 0.0)?;
    let got = match resource {
        Resource::Disk | Resource::DiskBuffered => sample.a.performance,
        // A cache load asks for a set, and loads as fast as it can.
        Resource::Llc => return None,
        _ => sample.a.used,
    };
    Some(got / asked)
}

/// CPU time of the acquisition, percent of one CPU, for each tenant.
pub(super) fn acquisition(
    experiment: &Experiment,
    samples: &[IsolationSample],
) -> Option<Estimate> {
    let values: Vec<f64> = samples.iter().map(|s| s.acquisition_cpu_pct).collect();
    stats::estimate(&values, experiment.seed)
}

#[cfg(test)]
mod tests;
