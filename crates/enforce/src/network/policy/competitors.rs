//! Competitors on each CPU, and the part of it that each claims.

use super::divided::Divided;
use super::placement::Placement;
use crate::tuning::network::{
    BESIDE, HOST_RAN_AVERAGED, LITTLE_PART, RAN_CPUS, RAN_PART, READS_SOON, READS_SOON_AGAIN,
    RESTS, WANTED_PART,
};
use cofferdam_types::{CgroupId, CpuTime, Interval};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Host tasks of unknown cgroups. They compete as tasks of the root cgroup do.
const UNKNOWN: CgroupId = CgroupId(0);

/// Cgroup that runs on some CPU.
#[derive(Debug)]
struct Known {
    path: PathBuf,
    is_of_host: bool,
    /// First time that it ran in this role, after it had run nowhere for [`BESIDE`].
    came: Duration,
}

/// CPU use of each cgroup, in CPUs, at the last reading: not every interval brings one.
#[derive(Debug, Default)]
struct Used {
    read_at: Option<Duration>,
    /// Time of the reading before the last. The last reading covers the time from then on.
    since: Option<Duration>,
    by_cgroup: HashMap<CgroupId, f64>,
    /// Highest recent use of each cgroup; it fades.
    recent: HashMap<CgroupId, f64>,
}

impl Used {
    /// Adds an interval that ends `now`. All cgroups are read at once: if one has used time, those
    /// without were idle.
    fn note(&mut self, now: Duration, interval: &Interval) {
        let rows = &interval.containers;
        if rows.iter().all(|row| row.ledger.cpu_usage_ns == 0) {
            return;
        }
        self.since = self.read_at.replace(now);
        let since = (self.since).map_or(interval.length, |at| now.saturating_sub(at));
        let length_ns = since.max(interval.length).as_nanos() as f64;
        self.by_cgroup.clear();
        let used = rows.iter().map(|row| {
            let cpus = row.ledger.cpu_usage_ns as f64 / length_ns;
            (row.container.cgroup, cpus)
        });
        self.by_cgroup.extend(used.filter(|(_, cpus)| *cpus > 0.0));
        let keep = (-since.as_secs_f64() / RESTS.as_secs_f64()).exp();
        let recent = rows.iter().filter_map(|row| {
            let id = row.container.cgroup;
            let faded = self.recent.get(&id).map(|cpus| cpus * keep);
            let used = self.by_cgroup.get(&id).copied();
            Some((id, faded.into_iter().chain(used).reduce(f64::max)?))
        });
        self.recent = recent.collect();
    }

    fn cpus(&self, cgroup: CgroupId) -> f64 {
        self.by_cgroup.get(&cgroup).copied().unwrap_or(0.0)
    }

    /// Whether the last reading covers a complete interval after `came`. Any other reading shows
    /// how late the cgroup came, not how much it wants.
    fn tells_of_one_that(&self, came: Duration) -> bool {
        self.since.is_some_and(|since| came <= since)
    }
}

/// Part of the interruptible work on a CPU that a host cgroup is charged for.
#[derive(Debug, Default)]
struct OfHost {
    /// Average over [`HOST_RAN_AVERAGED`].
    average: f64,
    /// Parts in the last step and the step before it.
    steps: [f64; 2],
}

impl OfHost {
    fn next_step(&mut self, keep: f64) {
        self.average *= keep;
        self.steps = [0.0, self.steps[0]];
    }

    /// Part that counts. The average rises slowly, and a job that has just begun runs in every
    /// step; a task that wakes for a moment does not.
    fn uses(&self) -> f64 {
        self.average.max(self.steps[0].min(self.steps[1]))
    }
}

/// Competitors on each CPU.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    used: Used,
    placement: Placement,
    /// CPU and cgroup of each competitor, with the last time that it ran there.
    beside: HashMap<(u32, CgroupId), Duration>,
    known: HashMap<CgroupId, Known>,
    /// Charges of host cgroups by CPU.
    of_host: HashMap<(u32, CgroupId), OfHost>,
    wants_reading: bool,
    /// Beginning of the current or last extra readings of CPU use.
    soon_since: Option<Duration>,
}

impl Rivals {
    /// Adds an interval that ends `now`. The CPU that our thread `looked_at` is ignored: the thread
    /// ran there for milliseconds, and would count as a competitor until they fade.
    pub fn note(&mut self, now: Duration, interval: &Interval, looked_at: Option<u32>) {
        let length_ns = interval.length.as_nanos() as f64;
        let keep = (-interval.length.as_secs_f64() / HOST_RAN_AVERAGED.as_secs_f64()).exp();
        self.of_host.retain(|(cpu, _), ran| {
            if looked_at != Some(*cpu) {
                ran.next_step(keep);
            }
            ran.average > RAN_PART / 100.0
        });
        self.used.note(now, interval);
        self.placement.note(interval, looked_at);
        for row in &interval.containers {
            let used_cpus = self.used.cpus(row.container.cgroup);
            let (container, is_of_host) = (&row.container, row.container.is_of_host());
            let told = interval.cpus.iter().enumerate();
            for (at, (cpu, time)) in told.filter(|(_, (cpu, _))| looked_at != Some(cpu.0)) {
                let ns = row.charged_by_cpu_ns.get(at).copied().unwrap_or(0);
                // Host tasks that no softirq interrupts ran where they ran before, as next to
                // `ksoftirqd`.
                let used = match is_of_host || ns as f64 > RAN_CPUS * length_ns {
                    true => self.placement.used_on(at, row, used_cpus, interval),
                    false => 0.0,
                };
                let part = part_of(time, ns, length_ns).max(used);
                let part = match is_of_host {
                    true => self.of_host((cpu.0, container.cgroup), part, keep),
                    false => part,
                };
                if part > RAN_PART {
                    let path = &container.cgroup_path;
                    self.ran(now, (cpu.0, container.cgroup), path, is_of_host);
                }
            }
        }
        let told = interval.cpus.iter();
        for (cpu, time) in told.filter(|(cpu, _)| looked_at != Some(cpu.0)) {
            let part = part_of(time, time.charged_host_ns, length_ns);
            if self.of_host((cpu.0, UNKNOWN), part, keep) > RAN_PART {
                self.ran(now, (cpu.0, UNKNOWN), Path::new("/"), true);
            }
        }
        self.beside
            .retain(|_, last| now.saturating_sub(*last) < BESIDE);
        let beside = &self.beside;
        self.known
            .retain(|id, _| beside.keys().any(|(_, other)| other == id));
        self.wants_reading = self.is_reading_due(now);
    }

    /// Whether `cgroup` ran on `cpu` a moment ago.
    pub fn has(&self, cpu: u32, cgroup: CgroupId) -> bool {
        self.beside.contains_key(&(cpu, cgroup))
    }

    /// Whether tasks of unknown cgroups ran on `cpu` a moment ago.
    pub fn has_unknown(&self, cpu: u32) -> bool {
        self.has(cpu, UNKNOWN)
    }

    /// Whether cgroups other than `cgroup` ran there and want more of the CPU than a moment.
    pub fn has_other(&self, cpu: u32, cgroup: CgroupId) -> bool {
        let others = self.on(cpu).filter(|(id, _)| *id != cgroup);
        let wanted = others.map(|(id, known)| self.claim(cpu, id, known).unwrap_or(1.0));
        wanted.sum::<f64>() > WANTED_PART
    }

    /// Whether the next step should read CPU use: a container appeared whose use is unknown.
    pub fn wants_reading(&self) -> bool {
        self.wants_reading
    }

    /// Whether an extra reading is due. Each reads all cgroups, so they last for [`READS_SOON`] and
    /// begin at most every [`READS_SOON_AGAIN`].
    fn is_reading_due(&mut self, now: Duration) -> bool {
        let mut known = self.known.values().filter(|known| !known.is_of_host);
        if known.all(|known| self.used.tells_of_one_that(known.came)) {
            return false;
        }
        let is_recent = |at: &Duration| now.saturating_sub(*at) < READS_SOON_AGAIN;
        let since = self.soon_since.filter(is_recent).unwrap_or(now);
        self.soon_since = Some(since);
        now.saturating_sub(since) < READS_SOON
    }

    /// Part of `cpu` that a competitor with little use claims: twice its use. `None` if it uses
    /// more, or its use is unknown.
    fn claim(&self, cpu: u32, id: CgroupId, known: &Known) -> Option<f64> {
        let uses = match known.is_of_host {
            true => self.of_host.get(&(cpu, id)).map_or(0.0, OfHost::uses),
            false if !self.used.tells_of_one_that(known.came) => return None,
            false => self.used.recent.get(&id).copied()?,
        };
        (uses < LITTLE_PART).then_some(2.0 * uses)
    }

    fn ran(&mut self, now: Duration, who: (u32, CgroupId), path: &Path, is_of_host: bool) {
        self.beside.insert(who, now);
        let new = || Known {
            path: path.to_owned(),
            is_of_host,
            came: now,
        };
        let known = self.known.entry(who.1).or_insert_with(new);
        // The first task of a container joins the cgroup before it enters its namespace: until then
        // it counts as a host task.
        if known.is_of_host != is_of_host {
            *known = new();
        }
    }

    /// Adds a host cgroup's `part`. Returns the part that counts. Containers are few, and each one
    /// that runs counts. Host tasks always run for a moment: only tasks that run on average, or
    /// in each step, count.
    fn of_host(&mut self, of: (u32, CgroupId), part: f64, keep: f64) -> f64 {
        if part == 0.0 {
            return self.of_host.get(&of).map_or(0.0, OfHost::uses);
        }
        let ran = self.of_host.entry(of).or_default();
        ran.average += part * (1.0 - keep);
        ran.steps[0] = part;
        ran.uses()
    }

    /// Divides `cpu` among its recent competitors by the weights that cgroups have without
    /// corrections. A container that `is_held` claims its whole share: it does not choose what it
    /// leaves.
    pub fn divide(
        &self,
        cpu: u32,
        is_held: impl Fn(CgroupId) -> bool,
        weight: impl FnMut(&Path) -> f64,
    ) -> Divided<'_> {
        let mut claims = BTreeMap::<&Path, Option<f64>>::new();
        for (id, known) in self.on(cpu) {
            let claim = self.claim(cpu, id, known).filter(|_| !is_held(id));
            // Tasks of unknown cgroups compete together with those of the root.
            let all = claims.entry(&known.path).or_insert(Some(0.0));
            *all = all.zip(claim).map(|(all, claim)| all + claim);
        }
        Divided::among(claims, weight)
    }

    /// Recent competitors on `cpu`.
    fn on(&self, cpu: u32) -> impl Iterator<Item = (CgroupId, &Known)> {
        let there = self.beside.keys().filter(move |(at, _)| *at == cpu);
        there.filter_map(|(_, id)| Some((*id, self.known.get(id)?)))
    }
}

/// Part of the interruptible work that is charged to one cgroup, which shows how much it ran there.
/// The work of NAPI threads is charged only to their own containers. 0 where the charge is too
/// small.
fn part_of(time: &CpuTime, ns: u64, length_ns: f64) -> f64 {
    let anybodys = time.measured_ns().saturating_sub(time.napi_thread_ns);
    match ns as f64 > RAN_CPUS * length_ns {
        true => ns as f64 / anybodys.max(1) as f64,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests;
