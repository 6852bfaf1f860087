//! Refusals of the kernel for tests on synthetic trees: values that cgroupfs and `/proc/irq` do not
//! accept. Source: `update_cpumask` and `validate_change` of kernel/cgroup/cpuset.c;
//! kernel/irq/proc.c; `tg_set_cfs_bandwidth` and `tg_cfs_schedulable_down` of kernel/sched/core.c.

use crate::cpus::{Cpus, read_list};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// State of the kernel besides the tree. All cgroups contain processes.
#[derive(Clone, Debug, Default)]
pub struct FakeKernel {
    pub v1: bool,
    pub possible: Cpus,
    pub online: Cpus,
    /// Mount point of the cpuset controller, if the kernel writes the files with the effective
    /// CPUs.
    pub effective: Option<PathBuf>,
    /// CPUs that a cgroup does not get, for a reason that no file shows: v1 refuses them (EINVAL),
    /// v2 gives the others.
    pub taken: BTreeMap<PathBuf, Cpus>,
    /// Cgroup that is removed just before it is written.
    pub vanishes: Option<PathBuf>,
    /// Error that every write returns.
    pub refuses: Option<i32>,
    /// Writes so far.
    pub written: Vec<(PathBuf, String)>,
}

thread_local! {
    static KERNEL: RefCell<Option<FakeKernel>> = const { RefCell::new(None) };
}

impl FakeKernel {
    /// Checks this thread's writes from now on.
    pub fn install(self) {
        self.write_effective();
        KERNEL.with_borrow_mut(|kernel| *kernel = Some(self));
    }

    /// Changes the kernel that checks this thread's writes.
    pub fn change(change: impl FnOnce(&mut FakeKernel)) {
        KERNEL.with_borrow_mut(|kernel| {
            let kernel = kernel.as_mut().expect("a kernel is installed");
            change(kernel);
            kernel.write_effective();
        });
    }

    /// Writes the effective CPUs of each cgroup.
    fn write_effective(&self) {
        if let Some(mount) = &self.effective {
            self.write_effective_below(mount, &self.online);
        }
    }

    fn write_effective_below(&self, folder: &Path, cpus: &Cpus) {
        let name = if self.v1 {
            "cpuset.effective_cpus"
        } else {
            "cpuset.cpus.effective"
        };
        fs::write(folder.join(name), crate::cpus::spell(cpus)).unwrap();
        for child in folders(folder) {
            let text = fs::read_to_string(child.join("cpuset.cpus")).unwrap_or_default();
            self.write_effective_below(
                &child,
                &self.effective_cpus(&child, read_list(&text), cpus),
            );
        }
    }

    /// CPUs of a cgroup with `list` whose parent has `above`.
    pub fn effective_cpus(&self, folder: &Path, list: Option<Cpus>, above: &Cpus) -> Cpus {
        let taken = self.taken.get(folder).filter(|_| !self.v1);
        let free: Cpus = above
            .iter()
            .filter(|cpu| !taken.is_some_and(|taken| taken.contains(cpu)))
            .copied()
            .collect();
        let list = list.unwrap_or_else(|| free.clone());
        let both: Cpus = list.intersection(&free).copied().collect();
        [both, free]
            .into_iter()
            .find(|c| !c.is_empty())
            .unwrap_or_else(|| above.clone())
    }

    /// Error that a write of `value` to the file at `path` returns.
    pub fn verdict(&self, path: &Path, value: &str) -> Result<(), i32> {
        if path.parent() == self.vanishes.as_deref() {
            fs::remove_dir_all(path.parent().unwrap()).unwrap();
        }
        ok_or(path.parent().unwrap().exists(), libc::ENOENT)?;
        ok_or(self.refuses.is_none(), self.refuses.unwrap_or_default())?;
        match path.file_name().and_then(|name| name.to_str()) {
            Some("cpuset.cpus") => self.cpuset(path.parent().unwrap(), value),
            Some("smp_affinity_list") => {
                let cpus = read_list(value).unwrap_or_default();
                ok_or(!cpus.is_disjoint(&self.online), libc::EINVAL)
            }
            Some("cpu.cfs_quota_us") => self.quota(path.parent().unwrap(), value),
            Some("cpu.cfs_burst_us") => {
                let quota = number(&path.with_file_name("cpu.cfs_quota_us"));
                let fits =
                    quota.is_none_or(|quota| value.parse().is_ok_and(|burst: f64| burst <= quota));
                ok_or(fits, libc::EINVAL)
            }
            _ => Ok(()),
        }
    }

    /// Checks a v1 quota: at least 1 ms and the burst, within the quota of the cgroup above, and no
    /// less than the quotas below.
    fn quota(&self, folder: &Path, value: &str) -> Result<(), i32> {
        let cpus = |folder: &Path, quota_us: f64| {
            quota_us / number(&folder.join("cpu.cfs_period_us")).unwrap_or(100_000.0)
        };
        let at = |folder: &Path| {
            number(&folder.join("cpu.cfs_quota_us")).map(|quota_us| cpus(folder, quota_us))
        };
        let Some(quota_us) = value.parse().ok().filter(|us: &f64| *us >= 0.0) else {
            return Ok(());
        };
        let burst = number(&folder.join("cpu.cfs_burst_us")).unwrap_or(0.0);
        ok_or(quota_us >= burst.max(1_000.0), libc::EINVAL)?;
        let own = cpus(folder, quota_us);
        let above = folder.ancestors().skip(1).find_map(at);
        ok_or(above.is_none_or(|above| own <= above), libc::EINVAL)?;
        let below = folders(folder);
        let fits = below
            .iter()
            .filter_map(|below| at(below))
            .all(|below| below <= own);
        ok_or(fits, libc::EINVAL)
    }

    fn cpuset(&self, folder: &Path, value: &str) -> Result<(), i32> {
        let list = |folder: &Path| {
            let text = fs::read_to_string(folder.join("cpuset.cpus"));
            text.ok().and_then(|text| read_list(&text))
        };
        let cpus = read_list(value).ok_or(libc::ENOSPC)?;
        let there = if self.v1 {
            &self.online
        } else {
            &self.possible
        };
        ok_or(cpus.is_subset(there), libc::EINVAL)?;
        if self.v1 {
            let taken = self.taken.get(folder);
            ok_or(taken.is_none_or(|t| t.is_disjoint(&cpus)), libc::EINVAL)?;
            for child in folders(folder) {
                ok_or(list(&child).is_none_or(|c| c.is_subset(&cpus)), libc::EBUSY)?;
            }
            let above = list(folder.parent().unwrap());
            return ok_or(above.is_none_or(|a| cpus.is_subset(&a)), libc::EACCES);
        }
        for sibling in folders(folder.parent().unwrap()) {
            let kind = fs::read_to_string(sibling.join("cpuset.cpus.partition"));
            let exclusive = sibling != folder && kind.is_ok_and(|kind| kind.trim() == "root");
            let exclusive_cpus = list(&sibling).filter(|_| exclusive).unwrap_or_default();
            ok_or(exclusive_cpus.is_disjoint(&cpus), libc::EINVAL)?;
        }
        Ok(())
    }
}

/// Finite number in a file.
fn number(file: &Path) -> Option<f64> {
    let text = fs::read_to_string(file).ok()?;
    text.trim().parse().ok().filter(|number| *number >= 0.0)
}

fn ok_or(ok: bool, errno: i32) -> Result<(), i32> {
    if ok { Ok(()) } else { Err(errno) }
}

fn folders(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|e| e.path()).filter(|p| p.is_dir()).collect()
}

/// Updates the effective CPUs after a write.
pub(super) fn follow() {
    KERNEL.with_borrow(|kernel| {
        if let Some(kernel) = kernel {
            kernel.write_effective();
        }
    });
}

/// Checks a write with this thread's kernel.
pub(super) fn judge(path: &Path, value: &str) -> io::Result<()> {
    KERNEL.with_borrow_mut(|kernel| {
        let Some(kernel) = kernel else { return Ok(()) };
        let verdict = kernel.verdict(path, value);
        if verdict.is_ok() {
            kernel.written.push((path.to_owned(), value.to_owned()));
        }
        verdict.map_err(io::Error::from_raw_os_error)
    })
}
