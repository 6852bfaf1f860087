//! containerd, by `ctr run --config`: the same bundle as runc's, through containerd's shim.

use super::{Runtime, START, Tenant, TenantSpec, contained, first_line, oci};
use crate::command::run;
use crate::error::BenchError;
use crate::isolation::guest::Guest;
use crate::isolation::stage::Stage;
use crate::topology::sweep::CGROUP_PREFIX;
use crate::undo::UndoStack;
use std::fs;
use std::process::Command;

/// containerd and its client.
pub(super) struct Containerd;

impl Runtime for Containerd {
    fn version(&self) -> Result<String, BenchError> {
        let version = first_line("ctr --version")?;
        // The client alone is not enough.
        run("ctr --connect-timeout 2s version").map_err(|e| match e {
            BenchError::Command { reason, .. } => BenchError::Unsupported(format!(
                "containerd does not answer ({reason}): start it (systemctl start containerd)"
            )),
            other => other,
        })?;
        Ok(version)
    }

    fn prepare(&mut self, _stage: &Stage) -> Result<Option<(String, String)>, BenchError> {
        Ok(None)
    }

    fn start(&self, stage: &Stage, spec: &TenantSpec) -> Result<Tenant, BenchError> {
        let mut undo = UndoStack::default();
        let net = stage.tenant(&spec.name, spec.index, &mut undo)?;
        let data = stage.tenant_dir(&spec.name)?;
        let bundle = stage.tenant_dir(&format!("{}-bundle", spec.name))?;
        let root = oci::root(stage, &bundle)?;
        let id = format!("{CGROUP_PREFIX}{}-{}", stage.tag, spec.name);
        let mut config = oci::config(spec, &data, &net.path, &format!("/{id}"));
        // The shim has a bundle of its own.
        config["root"]["path"] = root.display().to_string().into();
        let path = bundle.join("config.json");
        fs::write(&path, config.to_string()).map_err(|source| BenchError::Host {
            action: "write",
            path: path.clone(),
            source,
        })?;
        let gone = id.clone();
        undo.push(format!("container {id}"), move || {
            // --rm may have been faster.
            for command in ["tasks kill --signal SIGKILL", "containers delete"] {
                let _gone = run(&format!("ctr --namespace cofferdam {command} {gone}"));
            }
            Ok(())
        });
        let mut command = Command::new("ctr");
        command
            .args(["--namespace", "cofferdam", "run", "--rm", "--config"])
            .arg(&path)
            .arg(&id);
        let guest = Guest::start(&spec.name, command, START)?;
        let tasks = run("ctr --namespace cofferdam tasks list")?;
        // NAME PID STATE
        let mut task = tasks.lines().filter(|line| line.starts_with(&id));
        let pid = task.next().and_then(|line| line.split_whitespace().nth(1));
        contained(guest, pid.unwrap_or_default(), undo)
    }
}
