//! Competitors on each CPU, and the part of it that each claims.

use super::division::CpuDivision;
use super::placement::Placement;
use crate::tuning::network::{
    COMPETES, EXTRA_READINGS, EXTRA_READINGS_AGAIN, FADES, HOST_RAN_AVERAGED, LITTLE_PART,
    RAN_CPUS, RAN_PART, WANTED_PART,
};
use cofferdam_types::{CgroupId, CpuTime, Interval};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Host tasks of unknown cgroups. They compete as tasks of the root cgroup do.
const UNKNOWN: CgroupId = CgroupId(0);

/// Cgroup that runs on some CPU.
#[derive(Debug)]
struct Competitor {
    path: PathBuf,
    is_of_host: bool,
    /// First time that it ran in this role, after it had run nowhere for [`COMPETES`].
    first_ran: Duration,
}

/// CPU use of each cgroup, in CPUs, at the last reading: not every interval brings one.
#[derive(Debug, Default)]
struct RecentUse {
    read_at: Option<Duration>,
    /// Time of the reading before the last. The last reading covers the time from then on.
    since: Option<Duration>,
    by_cgroup: HashMap<CgroupId, f64>,
    /// Highest recent use of each cgroup; it fades.
    recent: HashMap<CgroupId, f64>,
}

impl RecentUse {
    /// Adds an interval that ends `now`. All cgroups are read at once: if one has used time, those
    /// without were idle.
    fn add_interval(&mut self, now: Duration, interval: &Interval) {
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
        let keep = (-since.as_secs_f64() / FADES.as_secs_f64()).exp();
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

    /// Whether the last reading covers a complete interval after `first_ran`. Any other reading
    /// shows how late the cgroup came, not how much it wants.
    fn covers_all_since(&self, first_ran: Duration) -> bool {
        self.since.is_some_and(|since| first_ran <= since)
    }
}

/// Part of the interruptible work on a CPU that a host cgroup is charged for.
#[derive(Debug, Default)]
struct HostCharge {
    /// Average over [`HOST_RAN_AVERAGED`].
    average: f64,
    /// Parts in the last step and the step before it.
    steps: [f64; 2],
}

impl HostCharge {
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
pub(super) struct Competitors {
    used: RecentUse,
    placement: Placement,
    /// CPU and cgroup of each competitor, with the last time that it ran there.
    ran_at: HashMap<(u32, CgroupId), Duration>,
    competitors: HashMap<CgroupId, Competitor>,
    /// Charges of host cgroups by CPU.
    host_charges: HashMap<(u32, CgroupId), HostCharge>,
    needs_usage: bool,
    /// Beginning of the current or last extra readings of CPU use.
    extra_since: Option<Duration>,
}

impl Competitors {
    /// Adds an interval that ends `now`. Ignores `measured_cpu`, on which a thread of ours
    /// measured: it ran there for milliseconds, and would count as a competitor until they fade.
    pub fn add_interval(&mut self, now: Duration, interval: &Interval, measured_cpu: Option<u32>) {
        let length_ns = interval.length.as_nanos() as f64;
        let keep = (-interval.length.as_secs_f64() / HOST_RAN_AVERAGED.as_secs_f64()).exp();
        self.host_charges.retain(|(cpu, _), ran| {
            if measured_cpu != Some(*cpu) {
                ran.next_step(keep);
            }
            ran.average > RAN_PART / 100.0
        });
        self.used.add_interval(now, interval);
        self.placement.add_interval(interval, measured_cpu);
        for row in &interval.containers {
            let used_cpus = self.used.cpus(row.container.cgroup);
            let (container, is_of_host) = (&row.container, row.container.is_of_host());
            let cpus = interval.cpus.iter().enumerate();
            for (at, (cpu, time)) in cpus.filter(|(_, (cpu, _))| measured_cpu != Some(cpu.0)) {
                let ns = row.charged_by_cpu_ns.get(at).copied().unwrap_or(0);
                // Host tasks that no softirq interrupts ran where they ran before, as next to
                // `ksoftirqd`.
                let used = match is_of_host || ns as f64 > RAN_CPUS * length_ns {
                    true => self.placement.used_on(at, row, used_cpus, interval),
                    false => 0.0,
                };
                let part = part_of(time, ns, length_ns).max(used);
                let part = match is_of_host {
                    true => self.add_host_charge((cpu.0, container.cgroup), part, keep),
                    false => part,
                };
                if part > RAN_PART {
                    let path = &container.cgroup_path;
                    self.record_run(now, (cpu.0, container.cgroup), path, is_of_host);
                }
            }
        }
        let cpus = interval.cpus.iter();
        for (cpu, time) in cpus.filter(|(cpu, _)| measured_cpu != Some(cpu.0)) {
            let part = part_of(time, time.charged_host_ns, length_ns);
            if self.add_host_charge((cpu.0, UNKNOWN), part, keep) > RAN_PART {
                self.record_run(now, (cpu.0, UNKNOWN), Path::new("/"), true);
            }
        }
        self.ran_at
            .retain(|_, last| now.saturating_sub(*last) < COMPETES);
        let ran_at = &self.ran_at;
        self.competitors
            .retain(|id, _| ran_at.keys().any(|(_, other)| other == id));
        self.needs_usage = self.is_reading_due(now);
    }

    /// Whether `cgroup` ran on `cpu` a moment ago.
    pub fn has(&self, cpu: u32, cgroup: CgroupId) -> bool {
        self.ran_at.contains_key(&(cpu, cgroup))
    }

    /// Whether tasks of unknown cgroups ran on `cpu` a moment ago.
    pub fn has_unknown(&self, cpu: u32) -> bool {
        self.has(cpu, UNKNOWN)
    }

    /// Whether cgroups other than `cgroup` ran there and want more of the CPU than a moment.
    pub fn has_other(&self, cpu: u32, cgroup: CgroupId) -> bool {
        let others = self.on(cpu).filter(|(id, _)| *id != cgroup);
        let wanted = others.map(|(id, competitor)| self.claim(cpu, id, competitor).unwrap_or(1.0));
        wanted.sum::<f64>() > WANTED_PART
    }

    /// Whether the next step should read CPU use: a container appeared whose use is unknown.
    pub fn needs_usage(&self) -> bool {
        self.needs_usage
    }

    /// Whether an extra reading is due. Each reads all cgroups, so they last for [`EXTRA_READINGS`]
    /// and begin at most every [`EXTRA_READINGS_AGAIN`].
    fn is_reading_due(&mut self, now: Duration) -> bool {
        let mut competitor = self
            .competitors
            .values()
            .filter(|competitor| !competitor.is_of_host);
        if competitor.all(|competitor| self.used.covers_all_since(competitor.first_ran)) {
            return false;
        }
        let is_recent = |at: &Duration| now.saturating_sub(*at) < EXTRA_READINGS_AGAIN;
        let since = self.extra_since.filter(is_recent).unwrap_or(now);
        self.extra_since = Some(since);
        now.saturating_sub(since) < EXTRA_READINGS
    }

    /// Part of `cpu` that a competitor with little use claims: twice its use. `None` if it uses
    /// more, or its use is unknown.
    fn claim(&self, cpu: u32, id: CgroupId, competitor: &Competitor) -> Option<f64> {
        let uses = match competitor.is_of_host {
            true => self
                .host_charges
                .get(&(cpu, id))
                .map_or(0.0, HostCharge::uses),
            false if !self.used.covers_all_since(competitor.first_ran) => return None,
            false => self.used.recent.get(&id).copied()?,
        };
        (uses < LITTLE_PART).then_some(2.0 * uses)
    }

    fn record_run(&mut self, now: Duration, who: (u32, CgroupId), path: &Path, is_of_host: bool) {
        self.ran_at.insert(who, now);
        let new = || Competitor {
            path: path.to_owned(),
            is_of_host,
            first_ran: now,
        };
        let competitor = self.competitors.entry(who.1).or_insert_with(new);
        // The first task of a container joins the cgroup before it enters its namespace: until then
        // it counts as a host task.
        if competitor.is_of_host != is_of_host {
            *competitor = new();
        }
    }

    /// Adds a host cgroup's `part`. Returns the part that counts. Containers are few, and each one
    /// that runs counts. Host tasks always run for a moment: only tasks that run on average, or
    /// in each step, count.
    fn add_host_charge(&mut self, of: (u32, CgroupId), part: f64, keep: f64) -> f64 {
        if part == 0.0 {
            return self.host_charges.get(&of).map_or(0.0, HostCharge::uses);
        }
        let ran = self.host_charges.entry(of).or_default();
        ran.average += part * (1.0 - keep);
        ran.steps[0] = part;
        ran.uses()
    }

    /// Divides `cpu` among its recent competitors by the weights that cgroups have without
    /// corrections. A container that `is_throttled` claims its whole share: it does not choose what
    /// it leaves.
    pub fn divide(
        &self,
        cpu: u32,
        is_throttled: impl Fn(CgroupId) -> bool,
        weight: impl FnMut(&Path) -> f64,
    ) -> CpuDivision<'_> {
        let mut claims = BTreeMap::<&Path, Option<f64>>::new();
        for (id, competitor) in self.on(cpu) {
            let claim = self
                .claim(cpu, id, competitor)
                .filter(|_| !is_throttled(id));
            // Tasks of unknown cgroups compete together with those of the root.
            let all = claims.entry(&competitor.path).or_insert(Some(0.0));
            *all = all.zip(claim).map(|(all, claim)| all + claim);
        }
        CpuDivision::among(claims, weight)
    }

    /// Recent competitors on `cpu`.
    fn on(&self, cpu: u32) -> impl Iterator<Item = (CgroupId, &Competitor)> {
        let runners = self.ran_at.keys().filter(move |(at, _)| *at == cpu);
        runners.filter_map(|(_, id)| Some((*id, self.competitors.get(id)?)))
    }
}

/// Part of the interruptible work that is charged to one cgroup, which shows how much it ran there.
/// The work of NAPI threads is charged only to their own containers. 0 where the charge is too
/// small.
fn part_of(time: &CpuTime, ns: u64, length_ns: f64) -> f64 {
    let interruptible_ns = time.measured_ns().saturating_sub(time.napi_thread_ns);
    match ns as f64 > RAN_CPUS * length_ns {
        true => ns as f64 / interruptible_ns.max(1) as f64,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests;
