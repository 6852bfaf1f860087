//! Whole CPUs: the free ones, and the order in which they are taken.

use crate::plan::Limits;
use crate::work::Work;
use cofferdam_types::{CgroupId, CpuId, LogicalCpu, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Holder of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Shared by standard containers and the host.
    Free,
    /// One strict container.
    Own(CgroupId),
    /// Strict containers in slices.
    Slices,
}

/// Usable CPUs of a host. CPUs and cores are identified by their index in these lists.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    cpus: Vec<LogicalCpu>,
    holders: Vec<Holder>,
    /// Members of each core, from the highest core down.
    cores: Vec<Vec<usize>>,
    free: usize,
    /// Sets in which at least one CPU stays free.
    shared_sets: Vec<SharedSet>,
    work: Work,
}

/// Set in which at least one CPU stays free.
#[derive(Clone, Debug)]
struct SharedSet {
    cpus: BTreeSet<usize>,
    free: usize,
}

/// Part of the host in which all of a request may be placed.
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
    pub fn new(topology: &Topology, limits: &Limits, work: Work) -> Pool {
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
        let mut pool = Pool {
            holders: vec![Holder::Free; cpus.len()],
            free: cpus.len(),
            cpus,
            cores,
            shared_sets: Vec::new(),
            work,
        };
        pool.shared_sets = pool.shared_sets(limits);
        pool
    }

    /// Sets in which one CPU stays free, without sets that another one implies.
    fn shared_sets(&self, limits: &Limits) -> Vec<SharedSet> {
        let mut sets: Vec<BTreeSet<usize>> = Vec::new();
        for cpus in &limits.shared {
            let set: BTreeSet<usize> = cpus.iter().filter_map(|cpu| self.index(*cpu)).collect();
            let is_limit = !set.is_empty() && set.len() < self.len();
            if is_limit && !sets.iter().any(|other| other.is_subset(&set)) {
                sets.retain(|other| !set.is_subset(other));
                sets.push(set);
            }
        }
        let shared = sets.into_iter().map(|cpus| SharedSet {
            free: cpus.len(),
            cpus,
        });
        shared.collect()
    }

    fn add_work(&self, steps: usize) {
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

    /// Gives `cpu` to `holder` if it is usable and free, and no set of standard containers would
    /// lose its last CPU.
    pub fn claim(&mut self, cpu: CpuId, holder: Holder) -> bool {
        match self.index(cpu) {
            Some(i) if self.can_take(i) => {
                self.hand_out(i, holder);
                true
            }
            _ => false,
        }
    }

    /// Gives `cpu` to `holder` if it is usable and free.
    pub fn claim_anyway(&mut self, cpu: CpuId, holder: Holder) -> bool {
        match self.index(cpu) {
            Some(i) if self.holders[i] == Holder::Free => {
                self.hand_out(i, holder);
                true
            }
            _ => false,
        }
    }

    /// Whether the CPU may be taken.
    fn can_take(&self, i: usize) -> bool {
        self.holders[i] == Holder::Free
            && self
                .shared_sets
                .iter()
                .all(|k| k.free > 1 || !k.cpus.contains(&i))
    }

    fn hand_out(&mut self, i: usize, holder: Holder) {
        self.holders[i] = holder;
        self.free -= 1;
        for shared in self.shared_sets.iter_mut().filter(|k| k.cpus.contains(&i)) {
            shared.free -= 1;
        }
    }

    pub fn release(&mut self, cpu: CpuId) {
        if let Some(i) = self.index(cpu)
            && self.holders[i] != Holder::Free
        {
            self.holders[i] = Holder::Free;
            self.free += 1;
            for shared in self.shared_sets.iter_mut().filter(|k| k.cpus.contains(&i)) {
                shared.free += 1;
            }
        }
    }

    /// Takes `count` free CPUs of `allowed` (`None`: of all), close to `near`. Returns `None`, and
    /// takes nothing, if there are too few.
    pub fn take(
        &mut self,
        count: usize,
        holder: Holder,
        near: &BTreeSet<CpuId>,
        allowed: Option<&BTreeSet<CpuId>>,
    ) -> Option<Vec<CpuId>> {
        let chosen = self.pick(count, near, allowed)?;
        let cpus: Vec<CpuId> = chosen.iter().map(|i| self.cpus[*i].cpu).collect();
        if cpus.iter().all(|cpu| self.claim(*cpu, holder)) {
            return Some(cpus);
        }
        // Together they would leave a set without a CPU: try one by one.
        self.release_all(&cpus, holder);
        let mut taken: Vec<CpuId> = Vec::with_capacity(count);
        while taken.len() < count {
            let near: BTreeSet<CpuId> = near.iter().chain(&taken).copied().collect();
            let next = self.pick(1, &near, allowed).and_then(|one| {
                let cpu = self.cpus[*one.first()?].cpu;
                self.claim(cpu, holder).then_some(cpu)
            });
            let Some(cpu) = next else {
                self.release_all(&taken, holder);
                return None;
            };
            taken.push(cpu);
        }
        Some(taken)
    }

    /// Releases the CPUs in `cpus` that `holder` has.
    fn release_all(&mut self, cpus: &[CpuId], holder: Holder) {
        for cpu in cpus {
            if self.index(*cpu).is_some_and(|i| self.holders[i] == holder) {
                self.release(*cpu);
            }
        }
    }

    /// CPUs to take next; `None` if there are fewer than `count`.
    fn pick(
        &self,
        count: usize,
        near: &BTreeSet<CpuId>,
        allowed: Option<&BTreeSet<CpuId>>,
    ) -> Option<Vec<usize>> {
        let near: Vec<LogicalCpu> = near
            .iter()
            .filter_map(|cpu| self.index(*cpu).map(|i| self.cpus[i]))
            .collect();
        let may = |i: usize| allowed.is_none_or(|cpus| cpus.contains(&self.cpus[i].cpu));
        let open: Vec<bool> = (0..self.len())
            .map(|i| self.can_take(i) && may(i))
            .collect();
        if open.iter().filter(|is_open| **is_open).count() < count {
            return None;
        }
        let region = self.region(count, &near, &open);
        Some(self.choose(count, region, &near, &open))
    }

    /// The `count` CPUs of `own` whose loss does the least harm: first CPUs on split cores, then
    /// CPUs in the cache in which the container has the fewest.
    pub fn give_up(&self, count: usize, own: &BTreeSet<CpuId>) -> Vec<CpuId> {
        let mine: Vec<usize> = own.iter().filter_map(|c| self.index(*c)).collect();
        let mut by_llc: BTreeMap<u32, usize> = BTreeMap::new();
        for &i in &mine {
            *by_llc.entry(self.cpus[i].llc).or_default() += 1;
        }
        let mut keyed = Vec::new();
        for members in &self.cores {
            self.add_work(members.len());
            let whole = members.iter().all(|i| own.contains(&self.cpus[*i].cpu));
            for &i in members.iter().filter(|i| own.contains(&self.cpus[**i].cpu)) {
                let cpu = &self.cpus[i];
                keyed.push((whole, by_llc.get(&cpu.llc), cpu.llc, cpu.core, cpu.cpu));
            }
        }
        keyed.sort();
        keyed.into_iter().take(count).map(|key| key.4).collect()
    }

    /// Region for `count` CPUs. Candidates have enough free CPUs and split as few cores as the
    /// whole host would. Preferred are, in this order: regions with a CPU of `near`, a cache over a
    /// node, the fewest free CPUs, and the highest CPUs. Without a candidate it is the whole host.
    fn region(&self, count: usize, near: &[LogicalCpu], open: &[bool]) -> Region {
        let least = self.leftover(count, Region::Host, near, open);
        let mut free: BTreeMap<Region, (usize, usize)> = BTreeMap::new();
        for (i, cpu) in self.cpus.iter().enumerate() {
            self.add_work(1);
            for region in [Region::Llc(cpu.llc), Region::Node(cpu.node)] {
                let entry = free.entry(region).or_insert((0, i));
                entry.0 += usize::from(open[i]);
            }
        }
        let mut best: Option<((bool, u8, usize, usize), Region)> = None;
        for (region, (room, first)) in free {
            if room < count || self.leftover(count, region, near, open) > least {
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

    /// CPUs of `count` that are left after the whole free cores in `region`, and the free siblings
    /// of the requester's CPUs.
    fn leftover(&self, count: usize, region: Region, near: &[LogicalCpu], open: &[bool]) -> usize {
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        let mut left = count;
        for members in &self.cores {
            self.add_work(1);
            if !region.has(&self.cpus[members[0]]) {
                continue;
            }
            let free = members.iter().filter(|i| open[**i]).count();
            if free == members.len() {
                *sizes.entry(free).or_default() += 1;
            } else if self.is_only_used_by_requester(members, near) {
                left = left.saturating_sub(free);
            }
        }
        for (size, cores) in sizes.into_iter().rev() {
            left -= size * cores.min(left / size);
        }
        left
    }

    /// Whether the requesting container uses CPUs of this core and nobody else does.
    fn is_only_used_by_requester(&self, members: &[usize], near: &[LogicalCpu]) -> bool {
        let mine = |i: usize| near.iter().any(|c| c.cpu == self.cpus[i].cpu);
        members.iter().any(|i| mine(*i))
            && members
                .iter()
                .all(|i| self.holders[*i] == Holder::Free || mine(*i))
    }

    fn choose(
        &self,
        count: usize,
        region: Region,
        near: &[LogicalCpu],
        open: &[bool],
    ) -> Vec<usize> {
        // Order in which caches are filled: the ones that the requester is in, then the emptiest.
        let mut caches: BTreeMap<u32, usize> = BTreeMap::new();
        for (i, cpu) in self.cpus.iter().enumerate() {
            self.add_work(1);
            *caches.entry(cpu.llc).or_default() += usize::from(open[i]);
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
        let mut cores: Vec<FreeCore> = Vec::new();
        for members in &self.cores {
            self.add_work(members.len());
            if !region.has(&self.cpus[members[0]]) {
                continue;
            }
            let free: Vec<usize> = members.iter().copied().filter(|i| open[*i]).collect();
            if !free.is_empty() {
                cores.push(FreeCore {
                    is_whole: free.len() == members.len(),
                    is_only_used_by_requester: self.is_only_used_by_requester(members, near),
                    free,
                });
            }
        }
        cores.sort_by_cached_key(|core| rank(&self.cpus[core.free[0]]));
        let mut chosen = Vec::with_capacity(count);
        // First siblings of the requester's CPUs, then whole cores, largest first, then split
        // cores. Only after that another core is split.
        let largest = cores.iter().map(|core| core.free.len()).max();
        take_from(&mut cores, &mut chosen, count, |_, core| {
            core.is_only_used_by_requester
        });
        for size in (1..=largest.unwrap_or(0)).rev() {
            self.add_work(cores.len());
            take_from(&mut cores, &mut chosen, count, |left, core| {
                core.is_whole && core.free.len() == size && size <= left
            });
        }
        take_from(&mut cores, &mut chosen, count, |_, core| !core.is_whole);
        take_from(&mut cores, &mut chosen, count, |_, _| true);
        chosen
    }
}

/// Core with free CPUs that a request may take.
struct FreeCore {
    free: Vec<usize>,
    /// Whether all CPUs of the core were free at the start.
    is_whole: bool,
    is_only_used_by_requester: bool,
}

/// Moves free CPUs into `chosen` until it has `count`, from the cores for which `wanted(left,
/// core)` returns true.
fn take_from(
    cores: &mut [FreeCore],
    chosen: &mut Vec<usize>,
    count: usize,
    wanted: impl Fn(usize, &FreeCore) -> bool,
) {
    for core in cores {
        let left = count - chosen.len();
        if left > 0 && !core.free.is_empty() && wanted(left, core) {
            let some = left.min(core.free.len());
            // The highest CPU of a core comes first, as everywhere.
            chosen.extend(core.free.drain(core.free.len() - some..));
        }
    }
}
