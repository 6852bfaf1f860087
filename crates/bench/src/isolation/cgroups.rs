//! Cgroups into which a runtime put a tenant.

use crate::error::BenchError;
use cofferdam_lab::cgroup::{Membership, layout};
use std::path::PathBuf;

/// Cgroup directories of a tenant; `None` if the host has no such hierarchy.
#[derive(Clone, Debug, Default)]
pub(super) struct TenantCgroups {
    /// Cgroup of the unified tree.
    pub v2: Option<PathBuf>,
    /// Cgroup of v1's cpuacct; cpu and cpuacct are often one mount.
    pub cpuacct: Option<PathBuf>,
    /// Cgroup of v1's memory.
    pub memory: Option<PathBuf>,
    /// Cgroup of v1's blkio.
    pub blkio: Option<PathBuf>,
}

impl TenantCgroups {
    /// Finds the cgroups of the process `pid`.
    pub fn of(pid: u32) -> Result<TenantCgroups, BenchError> {
        let layout = layout()?;
        let membership = Membership::of(&layout, pid)?;
        Ok(TenantCgroups {
            v2: Some(membership.v2()),
            cpuacct: membership.v1("cpuacct").or_else(|| membership.v1("cpu")),
            memory: membership.v1("memory"),
            blkio: membership.v1("blkio"),
        })
    }
}
