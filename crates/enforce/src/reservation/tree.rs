//! Cpusets of the host as they would be without our changes.

use super::cpuset;
use crate::cpus::{Cpus, read_list};
use crate::journal::{Journal, Target};
use cofferdam_host::{CgroupLayout, Controller, HostFs};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Hierarchy with the cpuset controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// Mount point.
    pub mount: PathBuf,
    pub v1: bool,
}

impl Hierarchy {
    /// Hierarchy of the host; `None` if the kernel has no cpusets.
    pub fn of(layout: &CgroupLayout) -> Option<Hierarchy> {
        let (mount, v1) = match layout.controller("cpuset")? {
            Controller::V1(mount) => (mount, true),
            Controller::V2(mount) => (mount, false),
        };
        Some(Hierarchy {
            mount: mount.to_owned(),
            v1,
        })
    }
}

/// Cpusets without our changes, each read once.
pub(super) struct CpusetTree<'a> {
    fs: &'a HostFs,
    journal: &'a Journal,
    pub hierarchy: &'a Hierarchy,
    /// Online CPUs.
    online: &'a Cpus,
    found: RefCell<BTreeMap<PathBuf, Natural>>,
}

/// CPUs that a cgroup would have without us.
#[derive(Clone, Debug)]
struct Natural {
    cpus: Cpus,
    /// Whether we have changed this cgroup or one above it.
    is_changed: bool,
}

impl<'a> CpusetTree<'a> {
    pub fn new(
        fs: &'a HostFs,
        journal: &'a Journal,
        hierarchy: &'a Hierarchy,
        online: &'a Cpus,
    ) -> CpusetTree<'a> {
        CpusetTree {
            fs,
            journal,
            hierarchy,
            online,
            found: RefCell::default(),
        }
    }

    /// Cgroups directly below `directory`.
    pub fn children(&self, directory: &Path) -> Vec<PathBuf> {
        let names = self.fs.directories(directory).unwrap_or_default();
        names.iter().map(|name| directory.join(name)).collect()
    }

    /// List that the cgroup would have; `Ok(None)` if it has none of its own.
    pub fn base(&self, directory: &Path) -> io::Result<Option<Cpus>> {
        let path = directory.join(cpuset::FILE);
        let target = Target::file(&self.fs.path(&path))?;
        match self.journal.before(&target) {
            Some(text) => Ok(read_list(text)),
            None => Ok(read_list(&self.fs.read_text(&path)?)),
        }
    }

    /// CPUs of the parent of `directory`: the most that the kernel gives it.
    pub fn above(&self, directory: &Path) -> Cpus {
        let parent = directory.parent().unwrap_or(&self.hierarchy.mount);
        self.natural(parent).cpus
    }

    /// CPUs that the kernel gives a cgroup with `list` whose parent has `above`.
    pub fn effective(&self, list: Option<&Cpus>, above: &Cpus) -> Cpus {
        let Some(list) = list else {
            let inherits = !self.hierarchy.v1;
            return if inherits { above.clone() } else { Cpus::new() };
        };
        let both: Cpus = list.intersection(above).copied().collect();
        if both.is_empty() { above.clone() } else { both }
    }

    /// Whether a cgroup with the list `base` has `cpus` without a write, given the parent's CPUs
    /// `above`. v1 does not narrow a list together with the parent's: it refuses that.
    pub fn has_without_write(&self, base: Option<&Cpus>, cpus: &Cpus, above: &Cpus) -> bool {
        if self.hierarchy.v1 {
            let base = base.into_iter().flatten();
            return base.filter(|cpu| self.online.contains(cpu)).eq(cpus);
        }
        self.effective(base, above) == self.effective(Some(cpus), above)
    }

    /// Topmost cgroup above `directory` that leaves no more CPUs than all cgroups above together,
    /// and those CPUs. `None` if nothing above limits it.
    pub fn limiting(&self, directory: &Path) -> Option<(PathBuf, Cpus)> {
        let parent = directory.parent()?;
        let cpus = self.natural(parent).cpus;
        let above = parent.ancestors();
        let within = above.take_while(|path| {
            path.starts_with(&self.hierarchy.mount) && self.natural(path).cpus == cpus
        });
        let cgroup = within.last()?;
        (cgroup != self.hierarchy.mount).then(|| (cgroup.to_owned(), cpus))
    }

    fn natural(&self, directory: &Path) -> Natural {
        if let Some(natural) = self.found.borrow().get(directory) {
            return natural.clone();
        }
        let natural = self.read_natural(directory);
        let mut found = self.found.borrow_mut();
        found.insert(directory.to_owned(), natural.clone());
        natural
    }

    fn read_natural(&self, directory: &Path) -> Natural {
        let parent = directory.parent();
        let Some(parent) = parent.filter(|p| p.starts_with(&self.hierarchy.mount)) else {
            let all = cpuset::effective(self.fs, directory);
            let cpus = match all {
                Some(all) => all.intersection(self.online).copied().collect(),
                None => self.online.clone(),
            };
            return Natural {
                cpus,
                is_changed: false,
            };
        };
        let above = self.natural(parent);
        let file = self.fs.path(directory.join(cpuset::FILE));
        let ours = Target::file(&file).is_ok_and(|t| self.journal.before(&t).is_some());
        let is_changed = above.is_changed || ours;
        // The kernel's value accounts for partitions, which no list shows.
        let kernel = (!is_changed && !self.hierarchy.v1)
            .then(|| cpuset::effective(self.fs, directory))
            .flatten();
        let cpus = match (kernel, self.base(directory)) {
            (Some(cpus), _) => cpus.intersection(&above.cpus).copied().collect(),
            (None, Ok(base)) => self.effective(base.as_ref(), &above.cpus),
            // There is no cgroup yet, or none with this controller.
            (None, Err(_)) => above.cpus,
        };
        Natural { cpus, is_changed }
    }
}
