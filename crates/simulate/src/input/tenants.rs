//! Reader of `tenants.json`.

use super::document::{
    BehaviourDocument, GroupDocument, LoadDocument, PeriodUs, QuotaCpus, TenantDocument,
    TenantsDocument,
};
use super::{InputError, check};
use crate::host::Host;
use crate::scenario::{Behaviour, Cgroup, Load, Quota, Tenant, Tenants};
use cofferdam_types::CpuId;
use std::collections::HashMap;

/// Schema of `tenants.json`.
pub const TENANTS: &str = "cofferdam.tenants/1";

/// Default period of quotas in Kubernetes and the kernel, microseconds.
const PERIOD_US: f64 = 100_000.0;

/// Reads `tenants.json` for a host.
///
/// # Errors
/// Returns the fault with its line.
pub fn tenants(text: &str, host: &Host) -> Result<Tenants, InputError> {
    let read: TenantsDocument = serde_json::from_str(text).map_err(|e| InputError::form(&e))?;
    if read.schema != TENANTS {
        let found = &read.schema;
        return Err(InputError::Content {
            line: line_of(text, "schema"),
            what: format!("the schema is '{found}': it must be '{TENANTS}'"),
        });
    }
    let content = |(name, what): (String, String)| InputError::Content {
        line: line_of(text, &name),
        what,
    };
    let tenants = build(read, host).map_err(content)?;
    check(&tenants, host).map_err(content)?;
    Ok(tenants)
}

/// Last line that contains a name as a string: for a duplicate name, the second one.
fn line_of(text: &str, name: &str) -> usize {
    let quoted = serde_json::to_string(name).unwrap_or_default();
    let found = text
        .lines()
        .enumerate()
        .filter(|(_, l)| l.contains(&quoted));
    let named = found.clone().filter(|(_, l)| l.contains("\"name\""));
    let first = named.last().or_else(|| found.last());
    first.map_or(1, |(line, _)| line + 1)
}

/// Name, and its fault.
type NamedFault = (String, String);

fn build(read: TenantsDocument, host: &Host) -> Result<Tenants, NamedFault> {
    let order = order(&read.groups)?;
    let places: HashMap<&str, usize> = order
        .iter()
        .enumerate()
        .map(|(place, group)| (read.groups[*group].name.as_str(), place))
        .collect();
    let parent = |name: &str, parent: &Option<String>| match parent {
        None => Ok(None),
        Some(parent) => match places.get(parent.as_str()) {
            Some(place) => Ok(Some(*place)),
            None => Err((
                name.to_owned(),
                format!(
                    "the parent '{parent}' of '{name}' is not in 'groups': add it there, or leave \
                     'parent' out"
                ),
            )),
        },
    };
    let cgroup = |g: &GroupDocument| -> Result<Cgroup, NamedFault> {
        Ok(Cgroup {
            name: g.name.clone(),
            parent: parent(&g.name, &g.parent)?,
            weight: g.weight.map_or(100, |w| w.0),
            quota: quota(&g.name, g.quota_cpus, g.quota_period_us)?,
            cpus: match &g.cpus {
                None => None,
                Some(list) => Some(cpu_list(list, host).map_err(|what| (g.name.clone(), what))?),
            },
        })
    };
    let groups = order.iter().map(|g| cgroup(&read.groups[*g]));
    let groups = groups.collect::<Result<Vec<Cgroup>, NamedFault>>()?;
    let mut tenants = Vec::new();
    for one in read.tenants {
        let TenantDocument {
            name,
            parent,
            weight,
            quota_cpus,
            quota_period_us,
            cpus,
            reserved_cpus,
            loads,
        } = one;
        let own = GroupDocument {
            name,
            parent,
            weight,
            quota_cpus,
            quota_period_us,
            cpus,
        };
        tenants.push(Tenant {
            cgroup: cgroup(&own)?,
            reserved: reserved_cpus,
            loads: loads.iter().map(load).collect(),
        });
    }
    Ok(Tenants { groups, tenants })
}

/// Indices of the groups, parents before children.
fn order(groups: &[GroupDocument]) -> Result<Vec<usize>, NamedFault> {
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for (i, group) in groups.iter().enumerate() {
        if by_name.insert(&group.name, i).is_some() {
            let name = &group.name;
            return Err((
                name.clone(),
                format!("'{name}' is there twice: give each its own name"),
            ));
        }
    }
    let mut order = Vec::new();
    let mut placed = vec![false; groups.len()];
    for start in 0..groups.len() {
        let mut path = Vec::new();
        let mut next = Some(start);
        while let Some(group) = next.filter(|g| !placed[*g]) {
            if path.contains(&group) {
                let name = &groups[group].name;
                let what = format!("'{name}' is above itself: remove a 'parent' of the circle");
                return Err((name.clone(), what));
            }
            path.push(group);
            if path.len() > super::DEEPEST {
                let name = groups[start].name.clone();
                let what = format!("'{name}' has more than {} cgroups above it", super::DEEPEST);
                return Err((name, what));
            }
            // An unknown parent is refused later, by its name.
            let parent = groups[group].parent.as_deref();
            next = parent.and_then(|p| by_name.get(p)).copied();
        }
        for group in path.into_iter().rev() {
            placed[group] = true;
            order.push(group);
        }
    }
    Ok(order)
}

fn quota(
    name: &str,
    cpus: Option<QuotaCpus>,
    period: Option<PeriodUs>,
) -> Result<Option<Quota>, NamedFault> {
    let Some(QuotaCpus(cpus)) = cpus else {
        let what =
            format!("'{name}' has a quota_period_us without quota_cpus: give both, or neither");
        return match period {
            Some(_) => Err((name.to_owned(), what)),
            None => Ok(None),
        };
    };
    let period_us = period.map_or(PERIOD_US, |p| p.0);
    let quota = Quota {
        quota_ns: (cpus * period_us * 1000.0) as u64,
        period_ns: (period_us * 1000.0) as u64,
    };
    if quota.quota_ns < 1_000_000 {
        let what = format!(
            "the quota of '{name}' is less than 1 ms a period, which the kernel refuses: give \
             more CPUs or a longer period"
        );
        return Err((name.to_owned(), what));
    }
    Ok(Some(quota))
}

fn load(read: &LoadDocument) -> Load {
    let ns = |us: f64| (us * 1000.0) as u64;
    Load {
        threads: read.threads.0,
        behaviour: match &read.behaviour {
            BehaviourDocument::CpuBound {} => Behaviour::CpuBound,
            BehaviourDocument::Periodic { run_us, sleep_us } => Behaviour::Periodic {
                run_ns: ns(run_us.0),
                sleep_ns: ns(sleep_us.0),
            },
            BehaviourDocument::Bursts {
                mean_run_us,
                mean_sleep_us,
            } => Behaviour::Bursts {
                mean_run_ns: ns(mean_run_us.0),
                mean_sleep_ns: ns(mean_sleep_us.0),
            },
            BehaviourDocument::Phases { run_us } => Behaviour::Phases {
                run_ns: ns(run_us.0),
            },
        },
    }
}

/// Indices in the host of a list such as `0-3,8`.
fn cpu_list(list: &str, host: &Host) -> Result<Vec<usize>, String> {
    let wrong = || format!("'{list}' is no list of CPUs: write 0-3,8");
    let cpus = &host.topology.cpus;
    let mut places = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        let chosen = cpus.iter().enumerate();
        let chosen = chosen.filter(|(_, c)| (CpuId(first)..=CpuId(last)).contains(&c.cpu));
        let chosen: Vec<usize> = chosen.map(|(place, _)| place).collect();
        if chosen.len() as u64 != u64::from(last - first) + 1 {
            return Err(format!(
                "the host has not all of the CPUs {part}: name those it has"
            ));
        }
        places.extend(chosen);
    }
    places.sort_unstable();
    places.dedup();
    Ok(places)
}
