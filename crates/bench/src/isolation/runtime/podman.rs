//! Runtime podman, with its own bridge network, its own flags, and an image made here.

use super::engine::{Engine, Image};
use super::{Runtime, Tenant, TenantSpec, first_line};
use crate::error::BenchError;
use crate::isolation::testbed::IsolationTestbed;
use cofferdam_lab::run;

/// Runtime podman with one of its OCI runtimes.
pub(super) struct Podman {
    oci: &'static str,
    image: Option<Image>,
}

impl Podman {
    pub fn new(oci: &'static str) -> Podman {
        Podman { oci, image: None }
    }
}

impl Runtime for Podman {
    fn version(&self) -> Result<String, BenchError> {
        let podman = first_line("podman --version")?;
        let oci = first_line(&format!("{} --version", self.oci))?;
        // crun does not support both cgroup trees for one container, but reports it only at the
        // start.
        if self.oci == "crun"
            && cofferdam_lab::cgroup::layout()?
                .v1_mounts
                .contains_key("cpu")
        {
            return Err(BenchError::Unsupported(
                "crun does not support cgroups in hybrid mode: boot with \
                 systemd.unified_cgroup_hierarchy=1, or use the runtime 'podman'"
                    .to_owned(),
            ));
        }
        Ok(format!("{podman}, {oci}"))
    }

    fn prepare(
        &mut self,
        testbed: &IsolationTestbed,
    ) -> Result<Option<(String, String)>, BenchError> {
        let name = format!("localhost/{}", testbed.container(self.oci));
        let (image, _) = Image::import("podman", testbed, name)?;
        // Digest of the layer: that of the image would contain the time of the import.
        let layers = run(&format!(
            "podman image inspect --format {{{{.RootFS.Layers}}}} {}",
            image.name()
        ))?;
        let digest = layers.trim().trim_matches(['[', ']']).to_owned();
        self.image = Some(image);
        Ok(Some(("podman".to_owned(), digest)))
    }

    fn start(&self, testbed: &IsolationTestbed, spec: &TenantSpec) -> Result<Tenant, BenchError> {
        let mut command = testbed.in_router("podman");
        command.args(["--runtime", self.oci]);
        // conmon writes a file 'oom' to its working directory if a v1 cgroup runs out of memory.
        command.current_dir(&testbed.data);
        let network = if spec.network { "bridge" } else { "none" };
        let options = [
            "--network",
            network,
            // podman's defaults need CAP_SYS_RESOURCE.
            "--ulimit",
            "nofile=20000:20000",
            "--ulimit",
            "nproc=10000:10000",
        ];
        let engine = Engine {
            program: "podman",
            command,
            options: options.map(str::to_owned).to_vec(),
            remove: format!(
                "{} podman rm --force --ignore --time 0",
                testbed.router_prefix()
            ),
            image: self.image.as_ref(),
        };
        engine.start(testbed, spec)
    }
}
