//! Runtime of the benchmark itself: namespaces and cgroups around the load generator.

use super::{Runtime, START, Tenant, TenantSpec};
use crate::error::BenchError;
use crate::isolation::groups;
use crate::isolation::guest::Guest;
use crate::isolation::testbed::{IsolationTestbed, TenantNet};
use cofferdam_lab::place::Spot;
use cofferdam_lab::{LabError, UndoStack};
use std::path::PathBuf;
use std::process::Command;

/// Built-in runtime.
pub(super) struct Process;

impl Runtime for Process {
    fn version(&self) -> Result<String, BenchError> {
        Ok(format!("cofferdam {}", env!("CARGO_PKG_VERSION")))
    }

    fn prepare(
        &mut self,
        _testbed: &IsolationTestbed,
    ) -> Result<Option<(String, String)>, BenchError> {
        Ok(None)
    }

    fn start(&self, testbed: &IsolationTestbed, spec: &TenantSpec) -> Result<Tenant, BenchError> {
        let mut undo = UndoStack::default();
        let cgroups = groups::make_limited(&testbed.tag, spec, &mut undo)?;
        let net = testbed.tenant(&spec.name, spec.index, &mut undo)?;
        let dir = testbed.tenant_dir(&spec.name)?;
        let mut command = command_in("unshare", &cgroups, Some(&net))?;
        command
            .args(["--ipc", "--uts", "--mount"])
            .arg(&testbed.load)
            .arg("serve");
        let guest = Guest::start(&spec.name, command, START)?;
        Ok(Tenant {
            // unshare executed the generator: it is still the same process.
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

/// Command that starts `program` in the cgroups and, if given, in a tenant's network namespace.
pub(in crate::isolation) fn command_in(
    program: &str,
    cgroups: &[PathBuf],
    net: Option<&TenantNet>,
) -> Result<Command, LabError> {
    let mut command = Command::new(program);
    Spot::open(net.map(|net| net.path.as_path()), cgroups)?.pre_exec(&mut command);
    Ok(command)
}
