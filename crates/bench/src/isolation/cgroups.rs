//! The cgroups that a runtime put a tenant in.

use crate::error::BenchError;
use cofferdam_lab::cgroup::{Membership, layout};
use std::path::PathBuf;

/// The cgroups of a tenant, as directories; `None`: the host has no such hierarchy.
#[derive(Clone, Debug, Default)]
pub(super) struct TenantCgroups {
    /// In the unified tree.
    pub v2: Option<PathBuf>,
    /// Of v1's cpuacct; cpu and cpuacct are often one mount.
    pub cpuacct: Option<PathBuf>,
    /// Of v1's memory.
    pub memory: Option<PathBuf>,
    /// Of v1's blkio.
    pub blkio: Option<PathBuf>,
}

impl TenantCgroups {
    /// Of the process `pid`.
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
