//! Runtimes, one file each.

mod containerd;
mod docker;
mod engine;
mod kubernetes;
mod nspawn;
mod oci;
mod podman;
mod process;
mod qemu;
mod runc;

use super::guest::Guest;
use super::tenant::{Limit, TenantSpec};
use super::testbed::IsolationTestbed;
use crate::error::BenchError;
use crate::isolation::data::RuntimeKind;
use cofferdam_lab::UndoStack;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

pub(super) use kubernetes::LABEL;
pub(super) use process::command_in;

/// Time limit for the start of a tenant.
const START: Duration = Duration::from_secs(30);

/// Started tenant: a load generator that waits for commands. Dropping it removes the tenant.
pub(super) struct Tenant {
    pub guest: Guest,
    /// Process in the tenant's cgroups and network namespace.
    pub pid: u32,
    /// The tenant's address, if it differs from its network namespace's (a virtual machine).
    pub address: Option<Ipv4Addr>,
    /// Directory on a real file system, by its path in the tenant.
    pub dir: String,
    /// The tenant's cgroups, if a program of the host can run in them like the tenant's own.
    pub cgroups: Option<Vec<PathBuf>>,
    /// Whether the tenant has the host's clock, so that one-way delays can be measured.
    pub host_clock: bool,
    // Last: fields are dropped in order, and the guest must go first.
    pub _undo: UndoStack,
}

/// Way of starting tenants.
pub(super) trait Runtime {
    /// Version of the runtime.
    ///
    /// # Errors
    /// The reason why it cannot be used on this host.
    fn version(&self) -> Result<String, BenchError>;

    /// Prepares images and root directories, once before the first tenant. Returns an image and its
    /// digest.
    fn prepare(
        &mut self,
        testbed: &IsolationTestbed,
    ) -> Result<Option<(String, String)>, BenchError>;

    /// Starts a tenant.
    fn start(&self, testbed: &IsolationTestbed, spec: &TenantSpec) -> Result<Tenant, BenchError>;
}

/// Runtime of this kind.
pub(super) fn of(kind: RuntimeKind) -> Box<dyn Runtime> {
    match kind {
        RuntimeKind::Process => Box::new(process::Process),
        RuntimeKind::Podman => Box::new(podman::Podman::new("runc")),
        RuntimeKind::PodmanCrun => Box::new(podman::Podman::new("crun")),
        RuntimeKind::Docker => Box::new(docker::Docker::default()),
        RuntimeKind::Containerd => Box::new(containerd::Containerd),
        RuntimeKind::Runc => Box::new(runc::Bundle::runc()),
        RuntimeKind::Gvisor => Box::new(runc::Bundle::runsc()),
        RuntimeKind::Nspawn => Box::new(nspawn::Nspawn),
        RuntimeKind::Qemu => Box::new(qemu::Qemu::default()),
        RuntimeKind::Kubernetes => Box::new(kubernetes::Kubernetes::default()),
    }
}

/// Tenant in a container whose first process has the number `pid`, as a runtime prints it.
fn container_tenant(guest: Guest, pid: &str, undo: UndoStack) -> Result<Tenant, BenchError> {
    let pid = pid.trim().parse().map_err(|_| BenchError::Worker {
        worker: guest.name().to_owned(),
        reason: format!("its runtime names no process, but '{}'", pid.trim()),
    })?;
    Ok(Tenant {
        guest,
        pid,
        address: None,
        dir: oci::DATA.to_owned(),
        cgroups: None,
        host_clock: true,
        _undo: undo,
    })
}

/// First line of a command's output.
pub(super) fn first_line(command: &str) -> Result<String, BenchError> {
    let text = cofferdam_lab::run(command)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
