//! CPUs that each cgroup is to have: a pure function of the plan and of the tree without us.
//!
//! The owner is a strict container with CPUs in the plan. Each cgroup gets
//!
//! - its own part: an owner's CPUs; below an owner, the part of its list within the owner's CPUs,
//!   or all of them; elsewhere its list without the CPUs of owners, except those lent to it;
//! - and the CPUs of all owners below it, because the kernel gives no cgroup CPUs that its parent
//!   lacks.
//!
//! Nothing is written if a cgroup would have these CPUs without us.

use super::tree::CpusetTree;
use crate::cpus::Cpus;
use cofferdam_types::CgroupId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Strict container with a place in the plan.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub id: CgroupId,
    pub cpus: Cpus,
    /// CPUs that it lends now.
    pub lent: Cpus,
    /// Parent of its cgroup in the cpu hierarchy.
    pub cpu_parent: Option<PathBuf>,
}

/// Container without CPUs of its own.
#[derive(Clone, Debug)]
pub(super) struct Neighbour {
    pub id: CgroupId,
    pub cpu_parent: Option<PathBuf>,
}

/// Container whose list has only CPUs of owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub id: CgroupId,
    /// CPUs in its list.
    pub bound: Cpus,
    /// CPUs that it gets instead. `None` if it stays, because the cgroups above it have no others.
    pub moved: Option<Cpus>,
}

/// CPUs of cgroups by their directories in the cpuset hierarchy.
#[derive(Clone, Debug, Default)]
pub(super) struct Wants {
    /// CPUs of the cgroups that would have other ones without us.
    pub cpus: BTreeMap<PathBuf, Cpus>,
    pub conflicts: Vec<Conflict>,
}

/// Input of the wants.
pub(super) struct Scene<'a> {
    pub tree: &'a CpusetTree<'a>,
    pub owners: &'a BTreeMap<PathBuf, Owner>,
    pub neighbours: &'a BTreeMap<PathBuf, Neighbour>,
    /// CPUs of owners, including promised ones.
    pub reserved: &'a Cpus,
    pub shared: &'a Cpus,
}

/// Parent of the visited cgroup.
#[derive(Clone, Default)]
struct ParentCpus {
    /// Own part of the parent; `None` above a container that is in no other one.
    own: Option<Cpus>,
    /// All CPUs of the parent.
    cpus: Cpus,
    /// CPUs lent to it, or to a container around it.
    lent: Cpus,
}

impl Scene<'_> {
    pub fn wants(&self) -> Wants {
        let mut wants = Wants::default();
        let mut containers: Vec<&PathBuf> =
            self.owners.keys().chain(self.neighbours.keys()).collect();
        containers.sort();
        let mut last: Option<&PathBuf> = None;
        for directory in containers {
            if last.is_some_and(|last| directory.starts_with(last)) {
                continue;
            }
            last = Some(directory);
            let above = ParentCpus {
                cpus: self.tree.above(directory),
                ..ParentCpus::default()
            };
            self.visit(directory, &above, &mut wants);
        }
        wants
    }

    /// CPUs of the owners below `directory`.
    fn owner_cpus_below(&self, directory: &Path) -> Cpus {
        let after = self.owners.range(directory.to_owned()..);
        let inside = after.take_while(|(path, _)| path.starts_with(directory));
        let below = inside.filter(|(path, _)| path.as_path() != directory);
        below.flat_map(|(_, owner)| owner.cpus.clone()).collect()
    }

    /// CPUs that owners lend to a container whose cgroup in the cpu hierarchy is below `parent`. An
    /// owner's weight protects it only against siblings.
    fn lent_below(&self, parent: Option<&Path>) -> Cpus {
        let lend = |owner: &&Owner| parent.is_some() && owner.cpu_parent.as_deref() == parent;
        let owners = self.owners.values().filter(lend);
        owners.flat_map(|owner| owner.lent.clone()).collect()
    }

    fn visit(&self, directory: &Path, above: &ParentCpus, wants: &mut Wants) {
        let Ok(base) = self.tree.base(directory) else {
            return;
        };
        let below = self.owner_cpus_below(directory);
        let is_owner = self.owners.contains_key(directory);
        let mut lent = if is_owner {
            Cpus::new()
        } else {
            above.lent.clone()
        };
        if let Some(neighbour) = self.neighbours.get(directory) {
            lent.extend(self.lent_below(neighbour.cpu_parent.as_deref()));
        }
        let own = match (self.owners.get(directory), &above.own) {
            (Some(owner), _) => Some(owner.cpus.clone()),
            (None, Some(pool)) => {
                let pool: Cpus = pool.union(&lent).copied().collect();
                let part = base.as_ref().unwrap_or(&pool);
                let part: Cpus = part.intersection(&pool).copied().collect();
                Some(if part.is_empty() { pool } else { part })
            }
            (None, None) => self.part_of(directory, base.as_ref(), above, &lent, wants),
        };
        let next = match own {
            Some(own) => {
                let cpus: Cpus = own.union(&below).copied().collect();
                if !self
                    .tree
                    .has_without_write(base.as_ref(), &cpus, &above.cpus)
                {
                    wants.cpus.insert(directory.to_owned(), cpus.clone());
                }
                ParentCpus {
                    own: Some(own),
                    cpus,
                    lent,
                }
            }
            None => ParentCpus {
                own: None,
                cpus: self.tree.effective(base.as_ref(), &above.cpus),
                lent,
            },
        };
        // A v2 cgroup follows its parent by itself, unless the parent has CPUs of an owner below.
        if self.tree.hierarchy.v1 || !below.is_empty() {
            for child in self.tree.children(directory) {
                self.visit(&child, &next, wants);
            }
        }
    }

    /// Part of a container that is in no other one; `None` if it stays as it is. Records a conflict
    /// if its list has only CPUs of owners.
    fn part_of(
        &self,
        directory: &Path,
        base: Option<&Cpus>,
        above: &ParentCpus,
        lent: &Cpus,
        wants: &mut Wants,
    ) -> Option<Cpus> {
        let list = match base {
            Some(base) if self.tree.hierarchy.v1 => self.tree.effective(Some(base), &above.cpus),
            Some(base) => base.clone(),
            None => self.tree.effective(None, &above.cpus),
        };
        let is_free = |cpu: &&_| !self.reserved.contains(*cpu) || lent.contains(*cpu);
        let part: Cpus = list.iter().filter(is_free).copied().collect();
        if !part.is_disjoint(&above.cpus) {
            return Some(part);
        }
        let id = self.neighbours.get(directory)?.id;
        let others: Cpus = self.shared.intersection(&above.cpus).copied().collect();
        let moved = (!others.is_empty()).then_some(others);
        if !list.is_empty() {
            wants.conflicts.push(Conflict {
                id,
                bound: list,
                moved: moved.clone(),
            });
        }
        moved
    }
}
