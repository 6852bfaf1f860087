//! Container under the control of reservations.

use super::places::Places;
use super::{ReservationContainer, cpuset};
use crate::cpus::Cpus;
use crate::journal::{Form, Journal};
use cofferdam_host::{CgroupLayout, CpuUsage, HostFs, with_remedy};
use cofferdam_reserve::lending::Lending;
use cofferdam_reserve::weight::{Share, value};
use cofferdam_types::{Container, CpuAmount, Degradation};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Container, strict or standard.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    name: String,
    pub places: Places,
    /// Last known directories of its settings. The journal's changes are closed by these paths,
    /// even if the cgroup is half removed.
    last: Places,
    /// Whether its cgroup in the cpuset hierarchy is gone.
    is_gone: bool,
    pub rewrites: u64,
    pub degraded: Vec<Degradation>,
}

/// Strict container: one with a reservation.
#[derive(Clone, Debug)]
pub(super) struct Strict {
    pub member: Member,
    pub amount: CpuAmount,
    /// Whether its CPUs may be lent.
    pub lends: bool,
    pub lending: Lending<Instant>,
    pub lent: Cpus,
    pub lendings: u64,
    /// CPUs that the kernel refused it.
    pub refused: Option<RefusedCpus>,
    /// Whether processes of a container around it run on its CPUs.
    pub is_shared: bool,
}

/// CPUs that the kernel refused an owner.
#[derive(Clone, Debug)]
pub(super) struct RefusedCpus {
    /// Refused CPUs; `None`: any.
    pub cpus: Option<Cpus>,
    /// CPUs of the cgroups above it at that time.
    pub above: Cpus,
    /// Time of the step before.
    pub at: Option<Instant>,
    /// Reported text; `None` if its cgroup was gone.
    pub text: Option<String>,
}

impl Member {
    pub fn locate(&mut self, fs: &HostFs, layout: &CgroupLayout, container: &Container) {
        self.name.clone_from(&container.name);
        let mut found = Places::of(fs, layout, container);
        let last = &mut self.last;
        for (found, last) in [
            (&mut found.cpuset, &mut last.cpuset),
            (&mut found.cpu, &mut last.cpu),
        ] {
            match found {
                Some(directory) => *last = Some(directory.clone()),
                // A cgroup that is gone stays known until its container is gone.
                None => *found = last.clone().filter(|d| !fs.exists(&d.path)),
            }
        }
        self.places = found;
    }

    /// Checks whether its cgroup still exists.
    pub fn refresh(&mut self, fs: &HostFs) {
        let directory = self.places.cpuset.as_ref();
        self.is_gone = directory.is_some_and(|d| !fs.exists(&d.path));
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Directory of its cgroup in the cpuset hierarchy; `None` without one, or if it is gone.
    pub fn cpuset_directory(&self) -> Option<&Path> {
        let directory = self.places.cpuset.as_ref()?;
        (!self.is_gone).then_some(&directory.path)
    }

    /// Records that it was created with reserved CPUs, so that reverting gives it the CPUs of the
    /// cgroup above.
    pub fn adopt(&self, fs: &HostFs, journal: &mut Journal, container: &ReservationContainer) {
        let (Some(directory), Some(cpus)) = (&self.places.cpuset, &container.cpus) else {
            return;
        };
        // A failure is retried with the next arrangement.
        let _ = cpuset::adopt(fs, journal, directory, cpus);
    }

    /// Parent of its cgroup in the cpu hierarchy.
    pub fn cpu_parent(&self) -> Option<PathBuf> {
        Some(self.places.cpu.as_ref()?.parent()?.to_owned())
    }

    /// Clears its degradations before the next try.
    pub fn clear_degradations(&mut self) {
        self.degraded.clear();
        if self.places.cpuset.is_none() {
            let text = format!(
                "container '{}' has no cpuset of its own, so it cannot be confined to its CPUs: \
                 enable the cpuset controller for its cgroup (cgroup.subtree_control of the \
                 cgroups above it must have +cpuset)",
                self.name
            );
            self.degrade("cpuset_unavailable", text);
        }
    }

    pub fn degrade(&mut self, name: &str, text: String) {
        if self.degraded.iter().all(|d| d.name != name) {
            self.degraded.push(Degradation {
                name: name.to_owned(),
                text,
            });
        }
    }

    pub fn revert_weight(&self, fs: &HostFs, journal: &mut Journal) {
        let Some(directory) = &self.last.cpu else {
            return;
        };
        let (file, _) = value(0, directory.v1);
        let folder = fs.path(&directory.path);
        cpuset::revert(journal, &folder.join(file));
        cpuset::close_removed(journal, &folder, file);
    }

    /// Quota in thousandths of a CPU; `None` without one.
    pub fn quota_milli_cpus(&self, fs: &HostFs) -> Option<u64> {
        let directory = self.places.cpu.as_ref()?;
        let read = |file: &str| fs.read_text(directory.path.join(file)).ok();
        let text = match directory.v1 {
            true => format!(
                "{} {}",
                read("cpu.cfs_quota_us")?,
                read("cpu.cfs_period_us")?
            ),
            false => read("cpu.max")?,
        };
        // "max 100000" and "-1 100000" do not parse: there is no quota.
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let (quota_us, period_us) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        quota_us.checked_mul(1000)?.checked_div(period_us)
    }

    /// CPU time that it has used so far.
    fn used_ns(&self, fs: &HostFs) -> Option<u64> {
        let usage = CpuUsage::open(fs, &self.places.v2).ok()?;
        usage.read_ns().ok()
    }
}

impl Strict {
    pub fn new(member: Member, amount: CpuAmount) -> Strict {
        Strict {
            member,
            amount,
            lends: true,
            lending: Lending::default(),
            lent: Cpus::new(),
            lendings: 0,
            refused: None,
            is_shared: false,
        }
    }

    /// Decides about lending; returns whether that changed. For the two parts of a CPU see
    /// [`Lending::update`].
    pub fn update_lending(
        &mut self,
        fs: &HostFs,
        now: Instant,
        (milli_cpus, stolen_milli): (u32, u32),
        lending: bool,
    ) -> bool {
        let blocked = self
            .member
            .degraded
            .iter()
            .any(|d| d.name == "lending_off" || d.name == "cpuset_refused");
        if !lending || blocked {
            let was = self.lending.is_lent();
            self.lending.stop();
            return was;
        }
        match self.member.used_ns(fs) {
            Some(used_ns) => self.lending.update(now, used_ns, milli_cpus, stolen_milli),
            None => false,
        }
    }

    /// Sets its weight.
    pub fn set_weight(
        &mut self,
        fs: &HostFs,
        journal: &mut Journal,
        share: Share,
        has_slice: bool,
    ) {
        let refused = match &self.member.places.cpu {
            None => Some("its cgroup has no cpu controller; enable it there".to_owned()),
            Some(directory) => {
                let (file, value) = value(share, directory.v1);
                let path = fs.path(directory.path.join(file));
                let set = journal.set_file(&path, Form::Text, &value);
                let refused = set.err().filter(|error| !error.vanished());
                refused.map(|error| with_remedy(&error.to_string()))
            }
        };
        let Some(why) = refused else { return };
        let name = &self.member.name;
        let text = format!(
            "the CPUs of container '{name}' are not lent, since its weight cannot protect it: {why}"
        );
        if has_slice {
            let text = format!(
                "the slice of container '{name}' is not guaranteed: {why}, or give it whole CPUs"
            );
            self.member.degrade("slice_unenforced", text);
        }
        self.member.degrade("lending_off", text);
        self.lending.stop();
    }
}
