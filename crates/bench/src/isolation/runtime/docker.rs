//! docker, by its command line. Its network is the host's bridge: the tenants' packets to the peer
//! pass the host's own namespace, so the network is measured only where docker's daemon runs
//! inside the stage.

use super::podman::{flags, volume};
use super::{Runtime, START, Tenant, TenantSpec, contained, oci};
use crate::command::run;
use crate::error::BenchError;
use crate::isolation::guest::Guest;
use crate::isolation::load;
use crate::isolation::stage::Stage;
use crate::topology::sweep::CGROUP_PREFIX;
use crate::undo::UndoStack;
use std::process::Command;

/// docker and its daemon.
#[derive(Default)]
pub(super) struct Docker {
    image: Option<String>,
    undo: UndoStack,
}

impl Runtime for Docker {
    fn version(&self) -> Result<String, BenchError> {
        let version = run("docker version --format {{.Server.Version}}").map_err(|e| match e {
            BenchError::Command { reason, .. } => BenchError::Unsupported(format!(
                "docker's daemon does not answer ({reason}): start it (systemctl start docker)"
            )),
            other => other,
        })?;
        Ok(format!("docker {}", version.trim()))
    }

    fn prepare(&mut self, stage: &Stage) -> Result<Option<(String, String)>, BenchError> {
        let archive = oci::archive(stage, "docker")?;
        let name = format!("{CGROUP_PREFIX}{}", stage.tag);
        let digest = run(&format!("docker import {} {name}", archive.display()))?;
        let gone = name.clone();
        self.undo.push(format!("image {name}"), move || {
            run(&format!("docker rmi --force {gone}"))
                .map(drop)
                .map_err(|e| e.to_string())
        });
        self.image = Some(name);
        Ok(Some(("docker".to_owned(), digest.trim().to_owned())))
    }

    fn start(&self, stage: &Stage, spec: &TenantSpec) -> Result<Tenant, BenchError> {
        if spec.network {
            return Err(BenchError::Unsupported(
                "docker's bridge is in the host's own network, which this benchmark leaves alone: measure its other resources".to_owned(),
            ));
        }
        let image = self
            .image
            .as_ref()
            .ok_or_else(|| BenchError::Unsupported("docker's image was not made".to_owned()))?;
        let mut undo = UndoStack::default();
        let data = stage.tenant_dir(&spec.name)?;
        let name = format!("{CGROUP_PREFIX}{}-{}", stage.tag, spec.name);
        let gone = name.clone();
        undo.push(format!("container {name}"), move || {
            // --rm may have been faster.
            let _gone = run(&format!("docker rm --force {gone}"));
            Ok(())
        });
        let mut command = Command::new("docker");
        command
            .args([
                "run",
                "--rm",
                "--interactive",
                "--log-driver",
                "none",
                "--network",
                "none",
            ])
            .args(["--name", &name])
            .args(flags(spec.limit.as_ref()))
            .arg("--volume")
            .arg(volume(&data))
            .arg(image)
            .args([format!("/{}", load::NAME), "serve".to_owned()]);
        let guest = Guest::start(&spec.name, command, START)?;
        let pid = run(&format!(
            "docker inspect --format {{{{.State.Pid}}}} {name}"
        ))?;
        contained(guest, &pid, undo)
    }
}
