//! Cgroups of the containers and their shares of the CPU, on pure v2 and on hybrid hosts.

use super::Tenant;
use crate::data::{EVEN_SHARE_PCT, Limit};
use cofferdam_host::CgroupLayout;
use cofferdam_lab::cgroup::{CPU, Cgroup, enable, mounts};
use cofferdam_lab::names::CGROUP_PREFIX;
use cofferdam_lab::{LabError, UndoStack};
use std::path::Path;

/// Parent cgroup of the benchmark in every hierarchy of the CPU.
pub(crate) struct Groups(Cgroup);

impl Groups {
    /// Makes the parents, named by `tag`.
    pub fn make(
        layout: &CgroupLayout,
        tag: &str,
        undo: &mut UndoStack,
    ) -> Result<Groups, LabError> {
        enable(layout, &["cpu"], &layout.v2_mount, Some(undo))?;
        let path = Path::new("/").join(format!("{CGROUP_PREFIX}{tag}"));
        let parent = Cgroup::make(&mounts(layout, &CPU), &path, undo)?;
        enable(layout, &["cpu"], parent.dir(), None)?;
        Ok(Groups(parent))
    }

    /// Makes a container's cgroup in every hierarchy, with its share of the CPU.
    pub fn container(
        &self,
        tenant: &Tenant,
        limit: Limit,
        undo: &mut UndoStack,
    ) -> Result<Cgroup, LabError> {
        let group = self.0.child(&tenant.name, undo)?;
        group.set(&share(tenant.share_pct, limit))?;
        Ok(group)
    }
}

/// Values that give a container `share_pct` of one CPU, on v1 and v2.
fn share(share_pct: f64, limit: Limit) -> Vec<(&'static str, String)> {
    const PERIOD_US: f64 = 100_000.0;
    let relative = match limit {
        Limit::Weights => share_pct / f64::from(EVEN_SHARE_PCT),
        Limit::Quota => 1.0,
    };
    let mut files = vec![
        ("cpu.shares", format!("{:.0}", 1024.0 * relative)),
        ("cpu.weight", format!("{:.0}", (100.0 * relative).max(1.0))),
    ];
    if limit == Limit::Quota {
        let quota = format!("{:.0}", PERIOD_US * share_pct / 100.0);
        files.push(("cpu.max", format!("{quota} {PERIOD_US:.0}")));
        files.push(("cpu.cfs_quota_us", quota));
    }
    files
}

/// Options of `podman run` that give a container `share_pct` of one CPU.
pub(super) fn podman_share(share_pct: f64, limit: Limit) -> String {
    let mut options = String::new();
    for (file, value) in share(share_pct, limit) {
        match file {
            "cpu.shares" => options += &format!(" --cpu-shares {value}"),
            "cpu.cfs_quota_us" => options += &format!(" --cpu-period 100000 --cpu-quota {value}"),
            _ => {}
        }
    }
    options
}
