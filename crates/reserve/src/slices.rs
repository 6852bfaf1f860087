//! Fractions of CPUs: the strict containers that share one. This is bin packing. Moving a container
//! to another CPU costs it its caches, so that is done only if there is no other way.

use crate::plan::Limits;
use crate::work::Work;
use cofferdam_types::{CgroupId, CpuId};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

/// One CPU in thousandths.
pub(crate) const WHOLE: u32 = 1000;

/// Most CPUs, the emptiest first, that [`Slices::consolidate`] tries to empty. Further ones hardly
/// ever work, and the cost must stay bounded.
const CANDIDATES: usize = 4;

#[derive(Clone, Debug, Default)]
struct Bin {
    used: u32,
    members: BTreeMap<CgroupId, u32>,
}

/// Slice CPUs with their members. No bin is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slices {
    bins: BTreeMap<CpuId, Bin>,
    at: BTreeMap<CgroupId, CpuId>,
    total: u64,
    limits: Rc<Limits>,
    work: Work,
}

impl Slices {
    pub fn new(limits: Rc<Limits>, work: Work) -> Slices {
        Slices {
            limits,
            work,
            ..Slices::default()
        }
    }

    /// Slice of `id`.
    pub fn of(&self, id: CgroupId) -> Option<(CpuId, u32)> {
        let cpu = *self.at.get(&id)?;
        Some((cpu, *self.bins.get(&cpu)?.members.get(&id)?))
    }

    /// Containers with a slice.
    pub fn all(&self) -> impl Iterator<Item = (CgroupId, (CpuId, u32))> {
        self.bins.iter().flat_map(|(cpu, bin)| {
            let cpu = *cpu;
            bin.members
                .iter()
                .map(move |(id, milli)| (*id, (cpu, *milli)))
        })
    }

    /// Number of slice CPUs in use.
    pub fn cpus(&self) -> usize {
        self.bins.len()
    }

    /// Thousandths promised on all slice CPUs.
    pub fn total_milli(&self) -> u64 {
        self.total
    }

    pub fn has(&self, cpu: CpuId) -> bool {
        self.bins.contains_key(&cpu)
    }

    /// Puts `id`, which has no slice, on `cpu`, which is or becomes a slice CPU. Returns false, and
    /// changes nothing, if it does not fit or `id` cannot be given that CPU.
    pub fn put(&mut self, cpu: CpuId, id: CgroupId, milli: u32) -> bool {
        let used = self.bins.get(&cpu).map_or(0, |bin| bin.used);
        if used + milli > WHOLE || milli == 0 || !self.limits.allow(id, cpu) {
            return false;
        }
        let bin = self.bins.entry(cpu).or_default();
        bin.used += milli;
        bin.members.insert(id, milli);
        self.at.insert(id, cpu);
        self.total += u64::from(milli);
        true
    }

    /// Removes `id`. Returns its CPU if that is empty now.
    pub fn remove(&mut self, id: CgroupId) -> Option<CpuId> {
        let cpu = self.at.remove(&id)?;
        let bin = self.bins.get_mut(&cpu)?;
        let milli = bin.members.remove(&id).unwrap_or(0);
        bin.used -= milli;
        self.total -= u64::from(milli);
        if bin.members.is_empty() {
            self.bins.remove(&cpu);
            return Some(cpu);
        }
        None
    }

    /// Best fit: the fullest CPU that has `milli` left for `id`.
    pub fn room_for(&self, milli: u32, id: CgroupId) -> Option<CpuId> {
        self.work.add(self.bins.len());
        self.bins
            .iter()
            .filter(|(cpu, _)| self.limits.allow(id, **cpu))
            .map(|(cpu, bin)| (WHOLE - bin.used, *cpu))
            .filter(|(room, _)| *room >= milli)
            .min()
            .map(|(_, cpu)| cpu)
    }

    /// Largest free part of a slice CPU for `id`.
    pub fn most_room(&self, id: CgroupId) -> u32 {
        let bins = self.bins.iter();
        let open = bins.filter(|(cpu, _)| self.limits.allow(id, **cpu));
        open.map(|(_, bin)| WHOLE - bin.used).max().unwrap_or(0)
    }

    /// Frees a CPU with few moves: empties one of the emptiest CPUs into the others. Returns it, or
    /// `None` (and changes nothing) if none can be emptied.
    pub fn consolidate(&mut self) -> Option<CpuId> {
        let mut order: Vec<(u32, CpuId)> = self.bins.iter().map(|(c, b)| (b.used, *c)).collect();
        order.sort();
        for (used, cpu) in order.into_iter().take(CANDIDATES) {
            let room: u64 = self.bins.len() as u64 * u64::from(WHOLE) - self.total;
            if room < u64::from(WHOLE) || room - u64::from(WHOLE - used) < u64::from(used) {
                continue;
            }
            let mut trial = self.clone();
            let members = trial.close(cpu);
            if members.into_iter().all(|(milli, id)| {
                trial
                    .room_for(milli, id)
                    .is_some_and(|to| trial.put(to, id, milli))
            }) {
                *self = trial;
                return Some(cpu);
            }
        }
        None
    }

    /// Removes a CPU. Returns its members, largest first.
    fn close(&mut self, cpu: CpuId) -> Vec<(u32, CgroupId)> {
        let Some(bin) = self.bins.remove(&cpu) else {
            return Vec::new();
        };
        self.total -= u64::from(bin.used);
        let mut members: Vec<(u32, CgroupId)> =
            bin.members.iter().map(|(id, m)| (*m, *id)).collect();
        members.sort_by(|a, b| b.cmp(a));
        for (_, id) in &members {
            self.at.remove(id);
        }
        members
    }

    /// Packs all slices and `extra` again onto the CPUs in use and `more`: the most limited first,
    /// then first-fit decreasing. Returns the CPUs that are not needed, or `None` (and changes
    /// nothing) if they do not fit.
    pub fn repack(
        &mut self,
        extra: Option<(CgroupId, u32)>,
        more: Option<CpuId>,
    ) -> Option<Vec<CpuId>> {
        let cpus: Vec<CpuId> = self.bins.keys().copied().chain(more).collect();
        let mut members: Vec<(u32, CgroupId)> = self
            .bins
            .values()
            .flat_map(|bin| bin.members.iter().map(|(id, milli)| (*milli, *id)))
            .chain(extra.map(|(id, milli)| (milli, id)))
            .collect();
        members.sort_by_key(|one| (self.limits.width(one.1), Reverse(*one)));
        let mut packed = Slices::new(Rc::clone(&self.limits), self.work.clone());
        for (milli, id) in members {
            self.work.add(cpus.len());
            if !cpus.iter().any(|cpu| packed.put(*cpu, id, milli)) {
                return None;
            }
        }
        *self = packed;
        Some(cpus.into_iter().filter(|c| !self.has(*c)).collect())
    }
}
