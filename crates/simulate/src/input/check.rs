//! Requirements of a simulation beyond the form of its files.

use super::{DEEPEST, MOST_RUNQUEUES, MOST_THREADS};
use crate::host::Host;
use crate::scenario::{Behaviour, Cgroup, Tenants};
use std::collections::HashSet;

/// Checks that tenants can be simulated on a host.
///
/// # Errors
/// Returns the name of the faulty item, and the fault with a remedy.
pub fn check(tenants: &Tenants, host: &Host) -> Result<(), (String, String)> {
    let all = || tenants.tenants.iter();
    if tenants.tenants.is_empty() {
        return Err((
            "tenants".to_owned(),
            "'tenants' is empty: give at least one".to_owned(),
        ));
    }
    let cgroups = tenants.groups.iter().chain(all().map(|t| &t.cgroup));
    let mut names = HashSet::new();
    for (place, cgroup) in cgroups.enumerate() {
        let name = &cgroup.name;
        let fail = |what: String| Err((name.clone(), what));
        if !names.insert(name) {
            return fail(format!("'{name}' is there twice: give each its own name"));
        }
        if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
            return fail(
                "a name has 1 to 255 characters, none of them a control character".to_owned(),
            );
        }
        if cgroup
            .parent
            .is_some_and(|p| p >= place.min(tenants.groups.len()))
        {
            return fail(format!("the parent of '{name}' does not stand before it"));
        }
        if depth(cgroup, tenants) > DEEPEST {
            return fail(format!("'{name}' has more than {DEEPEST} cgroups above it"));
        }
        if base(cgroup, tenants, host).is_empty() {
            return fail(format!(
                "'{name}' may use no CPU: give its 'cpus' some that are in those of the cgroups \
                 above and not isolated"
            ));
        }
    }
    for tenant in all() {
        let name = &tenant.cgroup.name;
        let fail = |what: String| Err((name.clone(), what));
        if tenant.threads() == 0 {
            return fail(format!("'{name}' has no threads: give it a load"));
        }
        let forever = |b: &Behaviour| match *b {
            Behaviour::Periodic { run_ns, .. } | Behaviour::Phases { run_ns } => run_ns > 0,
            Behaviour::Bursts { mean_run_ns, .. } => mean_run_ns > 0,
            Behaviour::CpuBound => true,
        };
        if !tenant.loads.iter().all(|l| forever(&l.behaviour)) {
            return fail(format!("a run of '{name}' takes no time: give it some"));
        }
        let restricted = |c: &Cgroup| c.cpus.is_some();
        if tenant.reserved.is_some() && path(&tenant.cgroup, tenants).any(restricted) {
            return fail(format!(
                "'{name}' has reserved_cpus, which choose its CPUs: remove 'cpus' from it and the \
                 cgroups above"
            ));
        }
    }
    let threads = all().try_fold(0usize, |sum, t| sum.checked_add(t.threads()));
    if threads.is_none_or(|threads| threads > MOST_THREADS) {
        let what = format!("there are more than {MOST_THREADS} threads: simulate fewer");
        return Err(("tenants".to_owned(), what));
    }
    let cgroups = 1 + tenants.groups.len() + tenants.tenants.len();
    if cgroups.saturating_mul(host.topology.cpus.len()) > MOST_RUNQUEUES {
        let what = format!(
            "{cgroups} cgroups on {} CPUs are too many run queues: simulate fewer tenants, or a \
             smaller host",
            host.topology.cpus.len()
        );
        return Err(("tenants".to_owned(), what));
    }
    Ok(())
}

/// A cgroup, followed by its ancestors.
fn path<'a>(cgroup: &'a Cgroup, tenants: &'a Tenants) -> impl Iterator<Item = &'a Cgroup> {
    let above = |c: &&'a Cgroup| tenants.groups.get(c.parent?);
    std::iter::successors(Some(cgroup), above)
}

fn depth(cgroup: &Cgroup, tenants: &Tenants) -> usize {
    path(cgroup, tenants).take(DEEPEST + 2).count() - 1
}

/// CPUs that a cgroup may use.
fn base(cgroup: &Cgroup, tenants: &Tenants, host: &Host) -> Vec<usize> {
    let cpus = &host.topology.cpus;
    let mut left: Vec<usize> = (0..cpus.len()).filter(|i| !cpus[*i].isolated).collect();
    for one in path(cgroup, tenants) {
        if let Some(own) = &one.cpus {
            left.retain(|cpu| own.contains(cpu));
        }
    }
    left
}
