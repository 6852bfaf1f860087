//! Plans within the limits of the cgroups above, and applies the plan: owners first. Others leave
//! the owners' CPUs once the kernel has given them.

use super::member::RefusedCpus;
use super::step::{Refusal, Step};
use super::tree::CpusetTree;
use super::wants::{Neighbour, Owner, Scene};
use super::{Reservations, irq, reasons};
use crate::cpus::Cpus;
use crate::journal::Journal;
use crate::tuning::reservation::RETRY_REFUSED;
use cofferdam_reserve::lending::is_wanted;
use cofferdam_reserve::{Impossible, Limits, weight};
use cofferdam_types::CgroupId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most tries with other CPUs for an owner that the kernel refuses some.
pub(super) const MOST_OTHER_TRIES: u32 = 3;
/// Most repetitions for a tree that others write meanwhile.
const MOST_REWRITE_ROUNDS: u32 = 2;

/// Outcome of an arrangement's writes.
#[derive(Debug, Default)]
pub(super) struct PlaceOutcome {
    refused: Vec<(CgroupId, Cpus, Refusal)>,
    is_rewritten: bool,
}

impl PlaceOutcome {
    pub fn is_refused(&self) -> bool {
        !self.refused.is_empty()
    }
}

impl Reservations {
    /// Plans, and applies the plan to the host.
    pub(super) fn arrange(&mut self, journal: &mut Journal) {
        let strict = self.strict.values_mut().map(|one| &mut one.member);
        for member in strict.chain(self.standard.values_mut()) {
            member.refresh(&self.fs);
        }
        self.retry_refused(journal);
        for round in 0.. {
            self.plan_again(journal);
            let outcome = self.place(journal);
            let is_refused = outcome.is_refused();
            for (id, cpus, refusal) in outcome.refused {
                self.refuse(journal, id, cpus, &refusal, round < MOST_OTHER_TRIES);
            }
            let is_pending = outcome.is_rewritten && round < MOST_REWRITE_ROUNDS;
            if !is_refused && !is_pending {
                break;
            }
        }
        self.set_weights(journal);
        self.note_lent();
        let none = Cpus::new();
        let (reserved, shared) = match self.options.move_irqs {
            true => (self.plan.reserved(), &self.plan.shared),
            false => (none, &self.plan.shared),
        };
        self.degraded = irq::apply(&self.fs, journal, &reserved, shared)
            .into_iter()
            .collect();
    }

    /// Online CPUs.
    fn online(&self) -> Cpus {
        self.topology.cpus.iter().map(|c| c.cpu).collect()
    }

    /// Calls `read` with the tree; `None` if the kernel has no cpusets.
    pub(super) fn with_tree<R>(
        &self,
        journal: &Journal,
        read: impl FnOnce(&CpusetTree) -> R,
    ) -> Option<R> {
        let online = self.online();
        let hierarchy = self.hierarchy.as_ref()?;
        Some(read(&CpusetTree::new(
            &self.fs, journal, hierarchy, &online,
        )))
    }

    /// Allows refused CPUs to be tried again: after a while, and when the cgroups above have other
    /// CPUs.
    fn retry_refused(&mut self, journal: &Journal) {
        let is_due = |tree: &CpusetTree, refused: &RefusedCpus, directory: &Path| {
            let passed = refused.at.zip(self.now).map(|(at, now)| now - at);
            refused.text.is_none()
                || passed.is_none_or(|passed| passed >= RETRY_REFUSED)
                || tree.above(directory) != refused.above
        };
        let due = self.with_tree(journal, |tree| {
            let all = self.strict.iter();
            let due = all.filter(|(_, one)| {
                let directory = one.member.cpuset_directory();
                let refused = one.refused.as_ref().zip(directory);
                refused.is_some_and(|(refused, directory)| is_due(tree, refused, directory))
            });
            due.map(|(id, _)| *id).collect::<Vec<CgroupId>>()
        });
        for id in due.unwrap_or_default() {
            if let Some(one) = self.strict.get_mut(&id) {
                one.refused = None;
            }
        }
    }

    fn refuse(
        &mut self,
        journal: &Journal,
        id: CgroupId,
        cpus: Cpus,
        refusal: &Refusal,
        others_may_do: bool,
    ) {
        // The owner has no place until it has one that the kernel gives.
        self.plan.placements.remove(&id);
        let Some(one) = self.strict.get(&id) else {
            return;
        };
        let directory = one.member.cpuset_directory().map(Path::to_owned);
        let above = directory.and_then(|d| self.with_tree(journal, |tree| tree.above(&d)));
        let Some(one) = self.strict.get_mut(&id) else {
            return;
        };
        let before = one.refused.take().and_then(|refused| refused.cpus);
        let text = reasons::refusal(one.member.name(), &cpus, refusal);
        let of_cpus = match refusal {
            Refusal::Gone => None,
            Refusal::Others(effective) => {
                let less: Cpus = cpus.difference(effective).copied().collect();
                Some(if less.is_empty() { cpus } else { less })
            }
            Refusal::Write(error) if is_of_cpus(error.source.raw_os_error()) => Some(cpus),
            Refusal::Write(_) => None,
        };
        let of_cpus: Option<Cpus> = of_cpus.filter(|_| others_may_do);
        one.refused = Some(RefusedCpus {
            cpus: of_cpus.map(|cpus| {
                cpus.into_iter()
                    .chain(before.into_iter().flatten())
                    .collect()
            }),
            above: above.unwrap_or_default(),
            at: self.now,
            text,
        });
    }

    fn plan_again(&mut self, journal: &Journal) {
        let limits = self.limits(journal);
        let (plan, impossible) = self.plan_for(&self.requests(), &limits);
        self.plan = plan;
        for (id, one) in &mut self.strict {
            one.member.clear_degradations();
            if !self.plan.placements.contains_key(id) {
                one.lending.stop();
            }
        }
        for member in self.standard.values_mut() {
            member.clear_degradations();
        }
        for one in impossible {
            let text = self.why_impossible(journal, &limits, &one);
            let Some(strict) = self.strict.get_mut(&one.id) else {
                continue;
            };
            match strict.refused.as_ref().map(|refused| refused.text.clone()) {
                Some(Some(text)) => strict.member.degrade("cpuset_refused", text),
                // The cgroup is gone, and soon the container.
                Some(None) => {}
                None => strict.member.degrade("reservation_impossible", text),
            }
        }
        // Borrowers whose quotas are below the shared CPUs gain nothing by lending.
        let quotas = self.standard.values().map(|m| m.quota_milli_cpus(&self.fs));
        self.wanted = is_wanted(self.plan.shared.len(), quotas);
    }

    /// Reason why `one` is impossible, and a remedy.
    pub(super) fn why_impossible(
        &self,
        journal: &Journal,
        limits: &Limits,
        one: &Impossible,
    ) -> String {
        let directory = match self.strict.get(&one.id) {
            Some(strict) => strict.member.cpuset_directory(),
            None => self.promised_directory(one.id),
        };
        let is_limited = limits.allowed.contains_key(&one.id);
        let limiting = directory
            .filter(|_| is_limited)
            .and_then(|directory| self.with_tree(journal, |tree| tree.limiting(directory)));
        reasons::impossible(one, limiting.flatten())
    }

    /// Limits that the cgroups above the containers set.
    pub(super) fn limits(&self, journal: &Journal) -> Limits {
        let read = |tree: &CpusetTree| {
            let usable: Cpus = self.topology.usable().map(|c| c.cpu).collect();
            let above = |directory: &Path| -> Cpus {
                tree.above(directory)
                    .intersection(&usable)
                    .copied()
                    .collect()
            };
            let mut limits = Limits::default();
            let mut owners: BTreeSet<&Path> = BTreeSet::new();
            for (id, one) in &self.strict {
                let Some(directory) = one.member.cpuset_directory() else {
                    continue;
                };
                owners.insert(directory);
                let mut allowed = above(directory);
                match one.refused.as_ref().map(|refused| &refused.cpus) {
                    Some(Some(cpus)) => allowed.retain(|cpu| !cpus.contains(cpu)),
                    Some(None) => allowed.clear(),
                    None => {}
                }
                limits.allowed.insert(*id, allowed);
            }
            for (id, directory) in self.promised_directories() {
                limits.allowed.insert(id, above(directory));
            }
            limits.allowed.retain(|_, allowed| *allowed != usable);
            let standard = self.standard.values().filter_map(|m| m.cpuset_directory());
            let outside = standard.filter(|d| !d.ancestors().any(|above| owners.contains(above)));
            let shared: BTreeSet<Cpus> = outside.map(above).collect();
            limits.shared = shared.into_iter().collect();
            limits
        };
        self.with_tree(journal, read).unwrap_or_default()
    }

    /// Applies the plan to the cpusets. If the kernel refuses an owner its CPUs, its cpuset stays
    /// as before, and no other container loses any CPU.
    pub(super) fn place(&mut self, journal: &mut Journal) -> PlaceOutcome {
        let (owners, neighbours) = self.sides();
        let reserved = self.plan.reserved();
        let wants = self.with_tree(journal, |tree| {
            let scene = Scene {
                tree,
                owners: &owners,
                neighbours: &neighbours,
                reserved: &reserved,
                shared: &self.plan.shared,
            };
            scene.wants()
        });
        let (Some(wants), Some(hierarchy)) = (wants, &self.hierarchy) else {
            return PlaceOutcome::default();
        };
        let online = self.online();
        let mut step = Step::new(&self.fs, journal, hierarchy, &online, wants.cpus);
        let mut outcome = PlaceOutcome::default();
        for (directory, owner) in &owners {
            let inside = owners.range(directory.clone()..);
            let inside = inside.take_while(|(path, _)| path.starts_with(directory));
            let all: Cpus = inside.flat_map(|(_, inner)| inner.cpus.clone()).collect();
            if let Err(refusal) = step.place(directory, owner, &all) {
                outcome
                    .refused
                    .push((owner.id, owner.cpus.clone(), refusal));
            }
        }
        let others = match outcome.is_refused() {
            true => Vec::new(),
            false => step.place_others(),
        };
        let rewritten: BTreeSet<PathBuf> = step.rewritten.into_iter().collect();
        outcome.is_rewritten = !rewritten.is_empty();
        for member in self.members() {
            let Some(directory) = member.cpuset_directory().map(Path::to_owned) else {
                continue;
            };
            member.rewrites += u64::from(rewritten.contains(&directory));
            let refused = others.iter().find(|(top, _)| directory.starts_with(top));
            if let Some((_, error)) = refused {
                let text = reasons::stays(member.name(), error);
                member.degrade("cpuset_refused", text);
            }
        }
        for conflict in &wants.conflicts {
            if let Some(member) = self.member(conflict.id) {
                let text = reasons::conflict(member.name(), conflict);
                member.degrade("cpuset_conflict", text);
            }
        }
        self.note_shared(&owners, &neighbours);
        outcome
    }

    /// Owners, and the containers that must leave their CPUs, by their directories.
    fn sides(&self) -> (BTreeMap<PathBuf, Owner>, BTreeMap<PathBuf, Neighbour>) {
        let (mut owners, mut neighbours) = (BTreeMap::new(), BTreeMap::new());
        let strict = self.strict.iter().map(|(id, one)| (*id, &one.member));
        for (id, member) in strict.chain(self.standard.iter().map(|(id, m)| (*id, m))) {
            let Some(directory) = member.cpuset_directory().map(Path::to_owned) else {
                continue;
            };
            let cpu_parent = member.cpu_parent();
            match self.plan.placements.get(&id) {
                Some(place) => {
                    let owner = Owner {
                        id,
                        cpus: place.cpus(),
                        lent: self.lent_by(id),
                        cpu_parent,
                    };
                    owners.insert(directory, owner);
                }
                None => {
                    neighbours.insert(directory, Neighbour { id, cpu_parent });
                }
            }
        }
        neighbours.retain(|directory, _| !owners.contains_key(directory));
        (owners, neighbours)
    }

    /// Records which owners share CPUs with processes of the containers around them.
    fn note_shared(
        &mut self,
        owners: &BTreeMap<PathBuf, Owner>,
        neighbours: &BTreeMap<PathBuf, Neighbour>,
    ) {
        let container = |directory: &Path| {
            let owner = owners.get(directory).map(|owner| owner.id);
            owner.or_else(|| neighbours.get(directory).map(|neighbour| neighbour.id))
        };
        for (directory, owner) in owners {
            let around = directory.ancestors().skip(1);
            let outer = around
                .clone()
                .filter_map(|d| Some((d, container(d)?)))
                .last();
            let shared = outer.and_then(|(top, outer)| {
                let mut inside = around.take_while(|d| d.starts_with(top));
                let cgroup = inside.find(|d| self.has_processes(d))?;
                let name = self.member(outer)?.name().to_owned();
                Some((cgroup, name))
            });
            let Some(one) = self.strict.get_mut(&owner.id) else {
                continue;
            };
            one.is_shared = shared.is_some();
            if let Some((cgroup, outer)) = shared {
                let text = reasons::shared(one.member.name(), &outer, cgroup, &owner.cpus);
                one.member.degrade("reservation_shared", text);
            }
        }
    }

    fn has_processes(&self, cgroup: &Path) -> bool {
        let processes = self.fs.read_text(cgroup.join("cgroup.procs"));
        processes.is_ok_and(|text| !text.trim().is_empty())
    }

    /// Sets the weights of the owners.
    fn set_weights(&mut self, journal: &mut Journal) {
        for (id, one) in &mut self.strict {
            let Some(place) = self.plan.placements.get(id) else {
                one.member.revert_weight(&self.fs, journal);
                continue;
            };
            let share = weight::of(&self.plan, *id, self.options.lending);
            match share.or(one.is_shared.then_some(weight::LARGEST)) {
                Some(share) => one.set_weight(&self.fs, journal, share, place.slice.is_some()),
                None => one.member.revert_weight(&self.fs, journal),
            }
        }
    }
}

/// Whether another list of CPUs may be accepted after this error.
fn is_of_cpus(errno: Option<i32>) -> bool {
    matches!(
        errno,
        Some(libc::EACCES | libc::EINVAL | libc::EBUSY | libc::ENOSPC)
    )
}
