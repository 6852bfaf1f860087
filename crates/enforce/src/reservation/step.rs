//! Writes the cpusets of an arrangement: owners first. No container loses CPUs to an owner that the
//! kernel refuses.
//!
//! v1 requires every cgroup to be within its parent: cgroups are first widened from the top, then
//! set from the bottom. v2 accepts every list and gives less. Each owner's CPUs are therefore read
//! back before others leave them.

use super::cpuset;
use super::tree::Hierarchy;
use super::wants::Owner;
use crate::cpus::{Cpus, read_list, spell};
use crate::journal::{ChangeError, Form, Journal, Target};
use cofferdam_host::HostFs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Value that a cgroup's list is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Goal {
    Cpus(Cpus),
    /// The former list, if it was one.
    Revert(Option<Cpus>),
}

/// Reason why an owner does not get its CPUs.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The owner's cgroup is gone.
    Gone,
    /// The kernel refused a write.
    Write(ChangeError),
    /// The kernel gives the owner these CPUs instead.
    Others(Cpus),
}

/// All cpusets to write, by their directories.
pub(super) struct Step<'a> {
    pub fs: &'a HostFs,
    pub journal: &'a mut Journal,
    hierarchy: &'a Hierarchy,
    online: &'a Cpus,
    goals: BTreeMap<PathBuf, Goal>,
    /// Files written for the owner that is being placed, with their lists before, oldest first.
    written: Vec<(PathBuf, String)>,
    /// Directories whose list another program had rewritten.
    pub rewritten: Vec<PathBuf>,
}

impl<'a> Step<'a> {
    /// Sets `wants`, and reverts every other cpuset in the journal.
    pub fn new(
        fs: &'a HostFs,
        journal: &'a mut Journal,
        hierarchy: &'a Hierarchy,
        online: &'a Cpus,
        wants: BTreeMap<PathBuf, Cpus>,
    ) -> Step<'a> {
        cpuset::close_removed(journal, &fs.path(&hierarchy.mount), cpuset::FILE);
        let root = fs.path("/");
        let mut goals = BTreeMap::new();
        for target in journal.targets() {
            if let Target::File { path, .. } = target
                && path.ends_with(cpuset::FILE)
                && path.starts_with(fs.path(&hierarchy.mount))
                && let Some(Ok(directory)) = path.parent().map(|d| d.strip_prefix(&root))
            {
                let before = journal.before(target).and_then(read_list);
                goals.insert(Path::new("/").join(directory), Goal::Revert(before));
            }
        }
        let wants = wants.into_iter().map(|(dir, cpus)| (dir, Goal::Cpus(cpus)));
        goals.extend(wants);
        Step {
            fs,
            journal,
            hierarchy,
            online,
            goals,
            written: Vec::new(),
            rewritten: Vec::new(),
        }
    }

    /// Gives an owner its CPUs: `all` includes those of the owners inside it.
    ///
    /// # Errors
    /// Returns the reason of a refusal, after reverting all writes for this owner.
    pub fn place(&mut self, directory: &Path, owner: &Owner, all: &Cpus) -> Result<(), Refusal> {
        let placed = self.try_place(directory, owner, all);
        match placed {
            Ok(()) => self.written.clear(),
            Err(_) => self.revert(),
        }
        placed
    }

    fn try_place(&mut self, directory: &Path, owner: &Owner, all: &Cpus) -> Result<(), Refusal> {
        if !self.fs.exists(directory) {
            return Err(Refusal::Gone);
        }
        // Containers around it, from the top.
        let around: Vec<PathBuf> = {
            let above = directory.ancestors().skip(1);
            let written = above.filter(|path| self.goals.contains_key(*path));
            written.map(Path::to_owned).collect()
        };
        for cgroup in around.iter().rev() {
            self.widen(cgroup, &owner.cpus).map_err(Refusal::of)?;
        }
        self.apply(directory).map_err(Refusal::of)?;
        match cpuset::effective(self.fs, directory) {
            Some(cpus) if cpus != *all => Err(Refusal::Others(cpus)),
            _ if !self.fs.exists(directory) => Err(Refusal::Gone),
            _ => Ok(()),
        }
    }

    /// Sets all remaining cpusets: of containers that leave the owners' CPUs or return. Returns the
    /// topmost cgroups that the kernel refused, with everything below them unchanged.
    pub fn place_others(&mut self) -> Vec<(PathBuf, ChangeError)> {
        let mut tops: Vec<PathBuf> = Vec::new();
        for directory in self.goals.keys() {
            if !tops.last().is_some_and(|top| directory.starts_with(top)) {
                tops.push(directory.clone());
            }
        }
        let mut refused = Vec::new();
        for top in tops {
            let mut applied = self.apply(&top);
            if is_busy(&applied) {
                // A cgroup was created below it meanwhile.
                self.revert();
                applied = self.apply(&top);
            }
            match applied {
                Ok(()) => self.written.clear(),
                Err(error) => {
                    self.revert();
                    refused.push((top, error));
                }
            }
        }
        refused
    }

    /// Sets the cgroup and all below it.
    fn apply(&mut self, top: &Path) -> Result<(), ChangeError> {
        let goals = self.goals.range(top.to_owned()..);
        let part = goals.take_while(|(directory, _)| directory.starts_with(top));
        let part: Vec<(PathBuf, Goal)> = part.map(|(d, goal)| (d.clone(), goal.clone())).collect();
        for (i, (directory, goal)) in part.iter().enumerate() {
            let has_below = part
                .get(i + 1)
                .is_some_and(|(d, _)| d.starts_with(directory));
            if let Goal::Cpus(cpus) | Goal::Revert(Some(cpus)) = goal
                && has_below
                && self.hierarchy.v1
            {
                let cpus = cpus.intersection(self.online).copied().collect();
                unless_gone(self.widen(directory, &cpus))?;
            }
        }
        for (directory, goal) in part.iter().rev() {
            match goal {
                Goal::Cpus(cpus) => unless_gone(self.write(directory, cpus))?,
                Goal::Revert(_) => self.revert_one(directory),
            }
        }
        Ok(())
    }

    /// Adds `more` to the cgroup's list, if it has one.
    fn widen(&mut self, directory: &Path, more: &Cpus) -> Result<(), ChangeError> {
        let now = self.fs.read_text(directory.join(cpuset::FILE));
        let Some(now) = now.ok().and_then(|text| read_list(&text)) else {
            return Ok(());
        };
        if now.is_superset(more) {
            return Ok(());
        }
        let both = now.union(more).copied().collect();
        self.write(directory, &both)
    }

    fn write(&mut self, directory: &Path, cpus: &Cpus) -> Result<(), ChangeError> {
        use crate::journal::WriteOutcome::{AfterRewrite, Same};
        let file = directory.join(cpuset::FILE);
        let before = self.fs.read_text(&file).unwrap_or_default();
        let file = self.fs.path(&file);
        let found = self.journal.set_file(&file, Form::CpuList, &spell(cpus))?;
        if matches!(found, AfterRewrite(_)) {
            self.rewritten.push(directory.to_owned());
        }
        if found != Same {
            self.written.push((directory.to_owned(), before));
        }
        Ok(())
    }

    fn revert_one(&mut self, directory: &Path) {
        let file = directory.join(cpuset::FILE);
        let before = self.fs.read_text(&file).unwrap_or_default();
        if let Ok(target) = Target::file(&self.fs.path(&file))
            && self.journal.revert(&target).reverted > 0
        {
            self.written.push((directory.to_owned(), before));
        }
    }

    /// Reverts the writes since the last owner or neighbour was placed.
    fn revert(&mut self) {
        for (directory, before) in std::mem::take(&mut self.written).into_iter().rev() {
            let file = self.fs.path(directory.join(cpuset::FILE));
            let Ok(target) = Target::file(&file) else {
                continue;
            };
            let same =
                |text: &str| Form::CpuList.canonical(text) == Form::CpuList.canonical(&before);
            if self.journal.before(&target).is_some_and(same) {
                self.journal.revert(&target);
            } else {
                // Another program may have changed the tree: the next step corrects it.
                let _ = self.journal.set_file(&file, Form::CpuList, before.trim());
            }
        }
    }
}

impl Refusal {
    fn of(error: ChangeError) -> Refusal {
        if error.vanished() {
            Refusal::Gone
        } else {
            Refusal::Write(error)
        }
    }
}

fn is_busy(applied: &Result<(), ChangeError>) -> bool {
    let refused = applied.as_ref().err();
    refused.is_some_and(|e| e.source.raw_os_error() == Some(libc::EBUSY))
}

fn unless_gone(applied: Result<(), ChangeError>) -> Result<(), ChangeError> {
    match applied {
        Err(error) if error.vanished() => Ok(()),
        applied => applied,
    }
}
