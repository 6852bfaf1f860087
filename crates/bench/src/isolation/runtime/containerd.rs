//! Runtime containerd, by `ctr run --config`: the same bundle as runc's, through containerd's shim.

use super::{Runtime, START, Tenant, TenantSpec, container_tenant, first_line, oci};
use crate::error::BenchError;
use crate::isolation::guest::Guest;
use crate::isolation::testbed::IsolationTestbed;
use cofferdam_lab::UndoStack;
use cofferdam_lab::{LabError, run};
use std::process::Command;

/// Runtime containerd and its client.
pub(super) struct Containerd;

impl Runtime for Containerd {
    fn version(&self) -> Result<String, BenchError> {
        let version = first_line("ctr --version")?;
        // The client works without the daemon too.
        run("ctr --connect-timeout 2s version").map_err(|e| match e {
            LabError::Command { reason, .. } => BenchError::Unsupported(format!(
                "containerd does not answer ({reason}): start it (systemctl start containerd)"
            )),
            other => other.into(),
        })?;
        Ok(version)
    }

    fn prepare(
        &mut self,
        _testbed: &IsolationTestbed,
    ) -> Result<Option<(String, String)>, BenchError> {
        Ok(None)
    }

    fn start(&self, testbed: &IsolationTestbed, spec: &TenantSpec) -> Result<Tenant, BenchError> {
        let mut undo = UndoStack::default();
        let bundle = oci::bundle(testbed, spec, &mut undo)?;
        let id = bundle.id;
        let container = id.clone();
        undo.push(format!("container {id}"), move || {
            // Errors are ignored: `--rm` may have removed the container before.
            for command in ["tasks kill --signal SIGKILL", "containers delete"] {
                let _gone = run(&format!("ctr --namespace cofferdam {command} {container}"));
            }
            Ok::<_, LabError>(())
        });
        let mut command = Command::new("ctr");
        command
            .args(["--namespace", "cofferdam", "run", "--rm", "--config"])
            .arg(&bundle.config)
            .arg(&id);
        let guest = Guest::start(&spec.name, command, START)?;
        let tasks = run("ctr --namespace cofferdam tasks list")?;
        // Columns: NAME PID STATE
        let mut task = tasks.lines().filter(|line| line.starts_with(&id));
        let pid = task.next().and_then(|line| line.split_whitespace().nth(1));
        container_tenant(guest, pid.unwrap_or_default(), undo)
    }
}
