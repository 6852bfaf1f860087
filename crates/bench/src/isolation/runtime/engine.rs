//! Parts that podman and docker share: their command lines are the same.

use super::{Limit, START, Tenant, TenantSpec, container_tenant, oci};
use crate::error::BenchError;
use crate::isolation::guest::Guest;
use crate::isolation::load;
use crate::isolation::testbed::IsolationTestbed;
use cofferdam_lab::podman::import;
use cofferdam_lab::{UndoStack, run};
use std::process::Command;

/// Image that this benchmark made. Dropping it removes the image.
pub(super) struct Image {
    name: String,
    _undo: UndoStack,
}

impl Image {
    /// Imports the generator's root directory as image `name`. Returns the image and its id.
    pub fn import(
        engine: &'static str,
        testbed: &IsolationTestbed,
        name: String,
    ) -> Result<(Image, String), BenchError> {
        let archive = oci::archive(testbed, &format!("{engine}-image"))?;
        let mut undo = UndoStack::default();
        let id = import(engine, &archive, &name, &mut undo)?;
        Ok((Image { name, _undo: undo }, id))
    }

    /// Name of the image.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Command line of an engine for one tenant.
pub(super) struct Engine<'a> {
    /// Name of the engine.
    pub program: &'static str,
    /// The engine with its options, before `run`.
    pub command: Command,
    /// Further options of `run`, for the network and for this host's limits.
    pub options: Vec<String>,
    /// Command that removes the container, for [`run`].
    pub remove: String,
    /// Image of the tenants.
    pub image: Option<&'a Image>,
}

impl Engine<'_> {
    /// Runs the generator in a container with the limit of `spec`.
    pub fn start(
        mut self,
        testbed: &IsolationTestbed,
        spec: &TenantSpec,
    ) -> Result<Tenant, BenchError> {
        let image = self.image.ok_or_else(|| {
            BenchError::Unsupported(format!("{}'s image was not made", self.program))
        })?;
        let mut undo = UndoStack::default();
        let data = testbed.tenant_dir(&spec.name)?;
        let name = testbed.container(&spec.name);
        let remove = format!("{} {name}", self.remove);
        undo.push(format!("container {name}"), move || run(&remove));
        self.command
            .args(["run", "--rm", "--interactive", "--log-driver", "none"])
            .args(["--name", &name])
            .args(&self.options)
            .args(flags(spec.limit.as_ref()))
            .arg("--volume")
            .arg(format!("{}:{}", data.display(), oci::DATA))
            .arg(image.name())
            .args([format!("/{}", load::NAME), "serve".to_owned()]);
        let guest = Guest::start(&spec.name, self.command, START)?;
        let pid = run(&format!(
            "{} inspect --format {{{{.State.Pid}}}} {name}",
            self.program
        ))?;
        container_tenant(guest, &pid, undo)
    }
}

/// The engines' flags for the limit.
fn flags(limit: Option<&Limit>) -> Vec<String> {
    match limit {
        Some(Limit::Cpus(cpus)) => vec!["--cpus".to_owned(), cpus.to_string()],
        Some(Limit::Memory(bytes)) => vec![
            format!("--memory={bytes}b"),
            // Without it the container could swap the same number of bytes.
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
