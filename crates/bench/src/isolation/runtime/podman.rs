//! podman, with its own bridge network, its own flags, and an image made here.

use super::{Limit, Runtime, START, Tenant, TenantSpec, contained, first_line, oci};
use crate::command::run;
use crate::error::BenchError;
use crate::isolation::guest::Guest;
use crate::isolation::load;
use crate::isolation::stage::Stage;
use crate::topology::sweep::CGROUP_PREFIX;
use crate::undo::UndoStack;
use std::path::Path;

/// podman with one of its OCI runtimes.
pub(super) struct Podman {
    oci: &'static str,
    image: Option<Image>,
}

struct Image {
    name: String,
    _undo: UndoStack,
}

impl Podman {
    pub fn new(oci: &'static str) -> Podman {
        Podman { oci, image: None }
    }

    fn image(&self) -> Result<&str, BenchError> {
        let image = self.image.as_ref().map(|i| i.name.as_str());
        image.ok_or_else(|| BenchError::Unsupported("podman's image was not made".to_owned()))
    }
}

impl Runtime for Podman {
    fn version(&self) -> Result<String, BenchError> {
        let podman = first_line("podman --version")?;
        let oci = first_line(&format!("{} --version", self.oci))?;
        // crun cannot have a container's cgroups on both trees; it says so only when it starts.
        if self.oci == "crun" && crate::topology::Layout::detect()?.v1_cpu.is_some() {
            return Err(BenchError::Unsupported(
                "crun does not support cgroups in hybrid mode: boot with systemd.unified_cgroup_hierarchy=1, or take the runtime 'podman'".to_owned(),
            ));
        }
        Ok(format!("{podman}, {oci}"))
    }

    fn prepare(&mut self, stage: &Stage) -> Result<Option<(String, String)>, BenchError> {
        let archive = oci::archive(stage, &format!("podman-{}", self.oci))?;
        let name = format!("localhost/{CGROUP_PREFIX}{}-{}", stage.tag, self.oci);
        let mut undo = UndoStack::default();
        run(&format!("podman import {} {name}", archive.display()))?;
        let gone = name.clone();
        undo.push(format!("image {name}"), move || {
            run(&format!("podman rmi --force {gone}"))
                .map(drop)
                .map_err(|e| e.to_string())
        });
        let digest = run(&format!(
            "podman image inspect --format {{{{index .RootFS.Layers 0}}}} {name}"
        ))
        .or_else(|_| {
            run(&format!(
                "podman image inspect --format {{{{.Digest}}}} {name}"
            ))
        })?;
        self.image = Some(Image { name, _undo: undo });
        Ok(Some(("podman".to_owned(), digest.trim().to_owned())))
    }

    fn start(&self, stage: &Stage, spec: &TenantSpec) -> Result<Tenant, BenchError> {
        let mut undo = UndoStack::default();
        let data = stage.tenant_dir(&spec.name)?;
        let name = format!("{CGROUP_PREFIX}{}-{}", stage.tag, spec.name);
        let gone = name.clone();
        let prefix = stage.router_prefix();
        undo.push(format!("container {name}"), move || {
            run(&format!(
                "{prefix} podman rm --force --ignore --time 0 {gone}"
            ))
            .map(drop)
            .map_err(|e| e.to_string())
        });
        let mut command = stage.in_router("podman");
        command
            .args([
                "--runtime",
                self.oci,
                "run",
                "--rm",
                "--interactive",
                "--log-driver",
                "none",
            ])
            .args(["--name", &name])
            // podman's own defaults ask for more than a root without CAP_SYS_RESOURCE has.
            .args([
                "--ulimit",
                "nofile=20000:20000",
                "--ulimit",
                "nproc=10000:10000",
            ])
            .args(["--network", if spec.network { "bridge" } else { "none" }])
            .args(flags(spec.limit.as_ref()))
            .arg("--volume")
            .arg(volume(&data))
            .arg(self.image()?)
            .args([format!("/{}", load::NAME), "serve".to_owned()]);
        let guest = Guest::start(&spec.name, command, START)?;
        let pid = run(&format!(
            "podman inspect --format {{{{.State.Pid}}}} {name}"
        ))?;
        contained(guest, &pid, undo)
    }
}

/// A volume's flag.
pub(super) fn volume(data: &Path) -> String {
    format!("{}:{}", data.display(), oci::DATA)
}

/// The limit in the flags that podman and docker share.
pub(super) fn flags(limit: Option<&Limit>) -> Vec<String> {
    match limit {
        Some(Limit::Cpus(cpus)) => vec!["--cpus".to_owned(), cpus.to_string()],
        Some(Limit::Memory(bytes)) => vec![
            format!("--memory={bytes}b"),
            // As much again would be swap otherwise.
            format!("--memory-swap={bytes}b"),
        ],
        Some(Limit::Disk {
            device,
            reads,
            writes,
        }) => vec![
            format!("--device-read-iops={}:{reads}", device.node.display()),
            format!("--device-write-iops={}:{writes}", device.node.display()),
        ],
        Some(Limit::Network(_)) | None => Vec::new(),
    }
}
