//! Who runs beside whom on a CPU, and what each claims of it.

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

/// Tasks of the host whose cgroup is not known (yet): they compete as tasks of the root do.
const UNKNOWN: CgroupId = CgroupId(0);

#[derive(Debug)]
struct Known {
    path: PathBuf,
    is_of_host: bool,
    /// When it was first found to run as what it is, after it had not run anywhere for [`BESIDE`].
    came: Duration,
}

/// CPU use of each cgroup, in CPUs, as of the last time that it was read: not every interval brings a reading.
#[derive(Debug, Default)]
struct Used {
    read_at: Option<Duration>,
    /// When the last but one reading was: what was read last is the use from then on.
    since: Option<Duration>,
    by_cgroup: HashMap<CgroupId, f64>,
    /// The same of all that were ever found to use any: what each used last, or a while ago.
    recent: HashMap<CgroupId, f64>,
}

impl Used {
    /// Takes an interval in that ends `now`. All are read at once: where one has used something, who has not
    /// was idle.
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

    /// Whether the last reading is of a time in which one that `came` then could run from beginning to end. Any other says
    /// how late it came, not how much it wants.
    fn tells_of_one_that(&self, came: Duration) -> bool {
        self.since.is_some_and(|since| came <= since)
    }
}

/// The part of the work in anybody's time that tasks of the host are charged on a CPU.
#[derive(Debug, Default)]
struct OfHost {
    /// Averaged over [`HOST_RAN_AVERAGED`].
    average: f64,
    /// In the last step, and in the one before it.
    steps: [f64; 2],
}

impl OfHost {
    fn next_step(&mut self, keep: f64) {
        self.average *= keep;
        self.steps = [0.0, self.steps[0]];
    }

    /// What is to be counted on: the average rises slowly, and a job that has just begun runs in every step. What wakes
    /// for a moment does not.
    fn uses(&self) -> f64 {
        self.average.max(self.steps[0].min(self.steps[1]))
    }
}

/// Who ran where.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    used: Used,
    placement: Placement,
    /// Who ran on which CPU, and when last.
    beside: HashMap<(u32, CgroupId), Duration>,
    known: HashMap<CgroupId, Known>,
    /// What tasks of the host run on each CPU.
    of_host: HashMap<(u32, CgroupId), OfHost>,
    wants_reading: bool,
    /// Since when CPU use is, or was last, read out of turn.
    soon_since: Option<Duration>,
}

impl Rivals {
    /// Takes an interval in that ends `now`. Nothing is learned of the CPU that we `looked_at`: our own thread ran
    /// there for some milliseconds, and would count as a rival for as long as they take to fade.
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
                // Tasks of the host that no softirq meets run where they ran before, as beside `ksoftirqd`.
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

    /// Whether it ran on `cpu` a moment ago.
    pub fn has(&self, cpu: u32, cgroup: CgroupId) -> bool {
        self.beside.contains_key(&(cpu, cgroup))
    }

    /// Whether tasks whose cgroup is not known did.
    pub fn has_unknown(&self, cpu: u32) -> bool {
        self.has(cpu, UNKNOWN)
    }

    /// Whether others than `cgroup` did, and want more of the CPU than a moment.
    pub fn has_other(&self, cpu: u32, cgroup: CgroupId) -> bool {
        let others = self.on(cpu).filter(|(id, _)| *id != cgroup);
        let wanted = others.map(|(id, known)| self.claim(cpu, id, known).unwrap_or(1.0));
        wanted.sum::<f64>() > WANTED_PART
    }

    /// Whether a container came of which it is not known yet how much it uses: CPU use should be read in the next step.
    pub fn wants_reading(&self) -> bool {
        self.wants_reading
    }

    /// All are read at once, which costs something: out of turn for [`READS_SOON`] in [`READS_SOON_AGAIN`].
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

    /// Part of `cpu` that one claims which uses little of its own share, and leaves the rest to the others: twice what
    /// it uses. `None` of whoever uses more, or is not known to use less.
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
        // Its first task enters its namespace after it has come into the cgroup.
        if known.is_of_host != is_of_host {
            *known = new();
        }
    }

    /// Containers are few, and one that runs at all counts. Of the host something always runs for a
    /// moment: only what does so on average, or in each step, leaves less to the others.
    fn of_host(&mut self, of: (u32, CgroupId), part: f64, keep: f64) -> f64 {
        if part == 0.0 {
            return self.of_host.get(&of).map_or(0.0, OfHost::uses);
        }
        let ran = self.of_host.entry(of).or_default();
        ran.average += part * (1.0 - keep);
        ran.steps[0] = part;
        ran.uses()
    }

    /// Divides `cpu` among those that ran there a moment ago, by the weights that cgroups would have without
    /// corrections. What a container that `is_held` back leaves is not its own choice: it claims its whole share.
    pub fn divide(
        &self,
        cpu: u32,
        is_held: impl Fn(CgroupId) -> bool,
        weight: impl FnMut(&Path) -> f64,
    ) -> Divided<'_> {
        let mut claims = BTreeMap::<&Path, Option<f64>>::new();
        for (id, known) in self.on(cpu) {
            let claim = self.claim(cpu, id, known).filter(|_| !is_held(id));
            // Tasks whose cgroup is not known (yet) are with those of the root.
            let all = claims.entry(&known.path).or_insert(Some(0.0));
            *all = all.zip(claim).map(|(all, claim)| all + claim);
        }
        Divided::among(claims, weight)
    }

    /// Those that ran on `cpu` a moment ago.
    fn on(&self, cpu: u32) -> impl Iterator<Item = (CgroupId, &Known)> {
        let there = self.beside.keys().filter(move |(at, _)| *at == cpu);
        there.filter_map(|(_, id)| Some((*id, self.known.get(id)?)))
    }
}

/// What one is charged of the work that runs in anybody's time says how much it ran there. NAPI
/// threads' work is charged to their own containers only. 0 where that is too little to tell.
fn part_of(time: &CpuTime, ns: u64, length_ns: f64) -> f64 {
    let anybodys = time.measured_ns().saturating_sub(time.napi_thread_ns);
    match ns as f64 > RAN_CPUS * length_ns {
        true => ns as f64 / anybodys.max(1) as f64,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests;
