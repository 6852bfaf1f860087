//! Namespaces and cgroups of our own around the bare load generator.

use super::{Runtime, START, Tenant, TenantSpec};
use crate::error::BenchError;
use crate::isolation::groups;
use crate::isolation::guest::Guest;
use crate::isolation::stage::{Stage, TenantNet};
use cofferdam_lab::UndoStack;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// Built in.
pub(super) struct Process;

impl Runtime for Process {
    fn version(&self) -> Result<String, BenchError> {
        Ok(format!("cofferdam {}", env!("CARGO_PKG_VERSION")))
    }

    fn prepare(&mut self, _stage: &Stage) -> Result<Option<(String, String)>, BenchError> {
        Ok(None)
    }

    fn start(&self, stage: &Stage, spec: &TenantSpec) -> Result<Tenant, BenchError> {
        let mut undo = UndoStack::default();
        let cgroups = groups::make_limited(&stage.tag, spec, &mut undo)?;
        let net = stage.tenant(&spec.name, spec.index, &mut undo)?;
        let dir = stage.tenant_dir(&spec.name)?;
        let mut command = placed(&cgroups, Some(&net));
        command
            .args(["unshare", "--ipc", "--uts", "--mount"])
            .arg(&stage.load)
            .arg("serve");
        let guest = Guest::start(&spec.name, command, START)?;
        Ok(Tenant {
            // Every step on the way replaced the one before: it is still the same process.
            pid: guest.pid(),
            address: Some(net.address),
            guest,
            dir: dir.display().to_string(),
            cgroups: Some(cgroups),
            host_clock: true,
            _undo: undo,
        })
    }
}

/// A command that joins cgroups and a network namespace, then becomes what its further arguments
/// say.
pub(in crate::isolation) fn placed(cgroups: &[PathBuf], net: Option<&TenantNet>) -> Command {
    const SCRIPT: &str = "while [ \"$1\" != -- ]; do echo 0 > \"$1\"/cgroup.procs; shift; done; \
                          shift; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-ec", SCRIPT, "cofferdam-tenant"]);
    command.args(cgroups).arg("--");
    if let Some(net) = net {
        let mut option = OsStr::new("--net=").to_owned();
        option.push(&net.path);
        command.arg("nsenter").arg(option);
    }
    command
}
