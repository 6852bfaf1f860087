//! Runtime docker, by its command line. Its network is the host's bridge, so packets to the peer
//! pass the host's own namespace. The benchmark therefore measures the network only with a daemon
//! inside the testbed.

use super::engine::{Engine, Image};
use super::{Runtime, Tenant, TenantSpec};
use crate::error::BenchError;
use crate::isolation::testbed::IsolationTestbed;
use cofferdam_lab::{LabError, run};
use std::process::Command;

/// Runtime docker and its daemon.
#[derive(Default)]
pub(super) struct Docker {
    image: Option<Image>,
}

impl Runtime for Docker {
    fn version(&self) -> Result<String, BenchError> {
        let version = run("docker version --format {{.Server.Version}}").map_err(|e| match e {
            LabError::Command { reason, .. } => BenchError::Unsupported(format!(
                "docker's daemon does not answer ({reason}): start it (systemctl start docker)"
            )),
            other => other.into(),
        })?;
        Ok(format!("docker {}", version.trim()))
    }

    fn prepare(
        &mut self,
        testbed: &IsolationTestbed,
    ) -> Result<Option<(String, String)>, BenchError> {
        let (image, digest) = Image::import("docker", testbed, testbed.container("image"))?;
        self.image = Some(image);
        Ok(Some(("docker".to_owned(), digest)))
    }

    fn start(&self, testbed: &IsolationTestbed, spec: &TenantSpec) -> Result<Tenant, BenchError> {
        if spec.network {
            return Err(BenchError::Unsupported(
                "docker's bridge is in the host's own network, which this benchmark leaves alone: \
                 measure its other resources"
                    .to_owned(),
            ));
        }
        let engine = Engine {
            program: "docker",
            command: Command::new("docker"),
            options: ["--network", "none"].map(str::to_owned).to_vec(),
            // With `--force` it is no failure that `--rm` has already removed the container.
            remove: "docker rm --force".to_owned(),
            image: self.image.as_ref(),
        };
        engine.start(testbed, spec)
    }
}
