//! The runtimes, one file each.

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
use super::testbed::Testbed;
use crate::error::BenchError;
use crate::isolation::data::RuntimeKind;
use cofferdam_lab::UndoStack;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

pub(super) use kubernetes::LABEL;
pub(super) use process::placed;

/// How long a tenant may take to start.
const START: Duration = Duration::from_secs(30);

/// A started tenant: a load generator that waits for orders. Dropped, it is gone.
pub(super) struct Tenant {
    pub guest: Guest,
    /// A process in its cgroups and in its network namespace.
    pub pid: u32,
    /// Its own, where that is not its network namespace's (a virtual machine).
    pub address: Option<Ipv4Addr>,
    /// Its directory on a real file system, as it sees it.
    pub dir: String,
    /// Its cgroups, where a program of the host can be run as the tenant runs its own.
    pub cgroups: Option<Vec<PathBuf>>,
    /// Whether its clock is the host's, so that one-way delays can be told.
    pub host_clock: bool,
    // Last: fields are dropped in order, and the guest has to go first.
    pub _undo: UndoStack,
}

/// How tenants are started.
pub(super) trait Runtime {
    /// What it says its version is; an error says why it cannot be used here.
    fn version(&self) -> Result<String, BenchError>;

    /// Once, before the first tenant: images, root directories. Returns image → digest.
    fn prepare(&mut self, testbed: &Testbed) -> Result<Option<(String, String)>, BenchError>;

    /// Starts a tenant.
    fn start(&self, testbed: &Testbed, spec: &TenantSpec) -> Result<Tenant, BenchError>;
}

/// The runtime of this kind.
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

/// The tenant whose container's first process a runtime names in `pid`.
fn contained(guest: Guest, pid: &str, undo: UndoStack) -> Result<Tenant, BenchError> {
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

/// First line of what a command says of itself.
pub(super) fn first_line(command: &str) -> Result<String, BenchError> {
    let text = cofferdam_lab::run(command)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
