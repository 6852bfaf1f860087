//! Whole CPUs: which are free, and which to take next.

use crate::work::Work;
use cofferdam_types::{CgroupId, CpuId, LogicalCpu, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Who has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Nobody: it is shared by standard containers and the host.
    Free,
    /// One strict container.
    Own(CgroupId),
    /// Strict containers in slices.
    Slices,
}

/// The usable CPUs of a host. CPUs and cores are named by their place in these lists.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    cpus: Vec<LogicalCpu>,
    holders: Vec<Holder>,
    /// Members of each core, from the highest core down.
    cores: Vec<Vec<usize>>,
    free: usize,
    work: Work,
}

/// A part of the host in which all of a request may be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Region {
    Llc(u32),
    Node(u32),
    Host,
}

impl Region {
    fn has(self, cpu: &LogicalCpu) -> bool {
        match self {
            Region::Llc(llc) => cpu.llc == llc,
            Region::Node(node) => cpu.node == node,
            Region::Host => true,
        }
    }
}

impl Pool {
    pub fn new(topology: &Topology, work: Work) -> Pool {
        let mut cpus: Vec<LogicalCpu> = topology.usable().copied().collect();
        cpus.sort_by_key(|c| c.cpu);
        cpus.dedup_by_key(|c| c.cpu);
        let mut by_core: BTreeMap<(u32, u32, u32), Vec<usize>> = BTreeMap::new();
        for (i, cpu) in cpus.iter().enumerate() {
            by_core
                .entry((cpu.node, cpu.llc, cpu.core))
                .or_default()
                .push(i);
        }
        let mut cores: Vec<Vec<usize>> = by_core.into_values().collect();
        cores.sort_by_key(|members| std::cmp::Reverse(members[0]));
        Pool {
            holders: vec![Holder::Free; cpus.len()],
            free: cpus.len(),
            cpus,
            cores,
            work,
        }
    }

    fn count(&self, steps: usize) {
        self.work.add(steps);
    }

    pub fn len(&self) -> usize {
        self.cpus.len()
    }

    pub fn free(&self) -> usize {
        self.free
    }

    pub fn free_cpus(&self) -> BTreeSet<CpuId> {
        self.cpus
            .iter()
            .zip(&self.holders)
            .filter(|(_, holder)| **holder == Holder::Free)
            .map(|(cpu, _)| cpu.cpu)
            .collect()
    }

    fn index(&self, cpu: CpuId) -> Option<usize> {
        self.cpus.binary_search_by_key(&cpu, |c| c.cpu).ok()
    }

    /// Gives `cpu` to `holder`, when it is usable and free.
    pub fn claim(&mut self, cpu: CpuId, holder: Holder) -> bool {
        match self.index(cpu) {
            Some(i) if self.holders[i] == Holder::Free => {
                self.holders[i] = holder;
                self.free -= 1;
                true
            }
            _ => false,
        }
    }

    pub fn release(&mut self, cpu: CpuId) {
        if let Some(i) = self.index(cpu)
            && self.holders[i] != Holder::Free
        {
            self.holders[i] = Holder::Free;
            self.free += 1;
        }
    }

    /// Takes `count` free CPUs, close to those in `near`. The caller has made sure that there
    /// are as many.
    pub fn take(&mut self, count: usize, holder: Holder, near: &BTreeSet<CpuId>) -> Vec<CpuId> {
        let near: Vec<LogicalCpu> = near
            .iter()
            .filter_map(|cpu| self.index(*cpu).map(|i| self.cpus[i]))
            .collect();
        let region = self.region(count, &near);
        let chosen = self.choose(count, region, &near);
        for &i in &chosen {
            self.holders[i] = holder;
        }
        self.free -= chosen.len();
        chosen.into_iter().map(|i| self.cpus[i].cpu).collect()
    }

    /// Of `own`, the `count` CPUs that are given up with the least harm: those on cores that are
    /// split already, then those in the cache where it has fewest.
    pub fn give_up(&self, count: usize, own: &BTreeSet<CpuId>) -> Vec<CpuId> {
        let mine: Vec<usize> = own.iter().filter_map(|c| self.index(*c)).collect();
        let mut by_llc: BTreeMap<u32, usize> = BTreeMap::new();
        for &i in &mine {
            *by_llc.entry(self.cpus[i].llc).or_default() += 1;
        }
        let mut keyed = Vec::new();
        for members in &self.cores {
            self.count(members.len());
            let whole = members.iter().all(|i| own.contains(&self.cpus[*i].cpu));
            for &i in members.iter().filter(|i| own.contains(&self.cpus[**i].cpu)) {
                let cpu = &self.cpus[i];
                keyed.push((whole, by_llc.get(&cpu.llc), cpu.llc, cpu.core, cpu.cpu));
            }
        }
        keyed.sort();
        keyed.into_iter().take(count).map(|key| key.4).collect()
    }

    /// Where to place `count` CPUs: first where the fewest cores are split, then the smallest
    /// region, then the fullest one that has room, then the one furthest from CPU 0.
    fn region(&self, count: usize, near: &[LogicalCpu]) -> Region {
        let least = self.leftover(count, Region::Host, near);
        let mut free: BTreeMap<Region, (usize, usize)> = BTreeMap::new();
        for (i, cpu) in self.cpus.iter().enumerate() {
            self.count(1);
            for region in [Region::Llc(cpu.llc), Region::Node(cpu.node)] {
                let entry = free.entry(region).or_insert((0, i));
                entry.0 += usize::from(self.holders[i] == Holder::Free);
            }
        }
        let mut best: Option<((bool, u8, usize, usize), Region)> = None;
        for (region, (room, first)) in free {
            if room < count || self.leftover(count, region, near) > least {
                continue;
            }
            let far = !near.is_empty() && !near.iter().any(|c| region.has(c));
            let size = u8::from(matches!(region, Region::Node(_)));
            let key = (far, size, room, usize::MAX - first);
            if best.is_none_or(|(other, _)| key < other) {
                best = Some((key, region));
            }
        }
        best.map_or(Region::Host, |(_, region)| region)
    }

    /// CPUs of `count` that do not come in whole free cores within `region`.
    fn leftover(&self, count: usize, region: Region, near: &[LogicalCpu]) -> usize {
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        let mut left = count;
        for members in &self.cores {
            self.count(1);
            if !region.has(&self.cpus[members[0]]) {
                continue;
            }
            let free = self.count_free(members);
            if free == members.len() {
                *sizes.entry(free).or_default() += 1;
            } else if self.heals(members, near) {
                left = left.saturating_sub(free);
            }
        }
        for (size, cores) in sizes.into_iter().rev() {
            left -= size * cores.min(left / size);
        }
        left
    }

    fn count_free(&self, members: &[usize]) -> usize {
        members
            .iter()
            .filter(|i| self.holders[**i] == Holder::Free)
            .count()
    }

    /// Whether all that is taken of a core belongs to the asker already.
    fn heals(&self, members: &[usize], near: &[LogicalCpu]) -> bool {
        let mine = |i: usize| near.iter().any(|c| c.cpu == self.cpus[i].cpu);
        members.iter().any(|i| mine(*i))
            && members
                .iter()
                .all(|i| self.holders[*i] == Holder::Free || mine(*i))
    }

    fn choose(&self, count: usize, region: Region, near: &[LogicalCpu]) -> Vec<usize> {
        // Caches in the order in which they are filled: those it is in, then the emptiest.
        let mut caches: BTreeMap<u32, usize> = BTreeMap::new();
        for (i, cpu) in self.cpus.iter().enumerate() {
            self.count(1);
            *caches.entry(cpu.llc).or_default() += usize::from(self.holders[i] == Holder::Free);
        }
        let rank = |cpu: &LogicalCpu| {
            (
                !near.iter().any(|c| c.llc == cpu.llc),
                !near.iter().any(|c| c.node == cpu.node),
                std::cmp::Reverse(caches.get(&cpu.llc).copied()),
                std::cmp::Reverse(cpu.node),
                std::cmp::Reverse(cpu.llc),
            )
        };
        let mut cores: Vec<(Vec<usize>, bool, bool)> = Vec::new();
        for members in &self.cores {
            self.count(members.len());
            if !region.has(&self.cpus[members[0]]) {
                continue;
            }
            let free: Vec<usize> = members
                .iter()
                .copied()
                .filter(|i| self.holders[*i] == Holder::Free)
                .collect();
            if !free.is_empty() {
                let whole = free.len() == members.len();
                cores.push((free, whole, self.heals(members, near)));
            }
        }
        cores.sort_by_cached_key(|(free, _, _)| rank(&self.cpus[free[0]]));
        let mut chosen = Vec::with_capacity(count);
        // Siblings of what it has; whole cores, largest first; cores that are split anyway; and
        // only then a core is broken up.
        let largest = cores.iter().map(|(free, _, _)| free.len()).max();
        take_from(&mut cores, &mut chosen, count, |_, _, heals| heals);
        for size in (1..=largest.unwrap_or(0)).rev() {
            self.count(cores.len());
            take_from(&mut cores, &mut chosen, count, |left, core, _| {
                core.1 && core.0.len() == size && size <= left
            });
        }
        take_from(&mut cores, &mut chosen, count, |_, core, _| !core.1);
        take_from(&mut cores, &mut chosen, count, |_, _, _| true);
        chosen
    }
}

type Core = (Vec<usize>, bool, bool);

/// Moves CPUs of the cores that `wanted(left, core, heals)` allows into `chosen`, up to `count`.
fn take_from(
    cores: &mut [Core],
    chosen: &mut Vec<usize>,
    count: usize,
    wanted: impl Fn(usize, &Core, bool) -> bool,
) {
    for core in cores {
        let left = count - chosen.len();
        if left > 0 && !core.0.is_empty() && wanted(left, core, core.2) {
            let some = left.min(core.0.len());
            // The highest of a core first, as everywhere.
            chosen.extend(core.0.drain(core.0.len() - some..));
        }
    }
}
