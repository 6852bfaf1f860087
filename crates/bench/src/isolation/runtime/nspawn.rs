//! Runtime systemd-nspawn. It is not registered at systemd-machined, so it also runs on hosts that
//! systemd did not boot. Its limits are those of the cgroup in which it is started: `--property`
//! needs a scope of a running systemd.

use super::process::command_in;
use super::{Runtime, START, Tenant, TenantSpec, first_line, oci};
use crate::error::BenchError;
use crate::isolation::guest::Guest;
use crate::isolation::testbed::IsolationTestbed;
use crate::isolation::{groups, load};
use cofferdam_lab::UndoStack;

/// Runtime systemd-nspawn.
pub(super) struct Nspawn;

impl Runtime for Nspawn {
    fn version(&self) -> Result<String, BenchError> {
        first_line("systemd-nspawn --version")
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
        groups::take_named(&testbed.tag, spec, &mut undo)?;
        let net = testbed.tenant(&spec.name, spec.index, &mut undo)?;
        let data = testbed.tenant_dir(&spec.name)?;
        let root = oci::root(
            testbed,
            &testbed.tenant_dir(&format!("{}-root", spec.name))?,
        )?;
        let mut command = command_in("systemd-nspawn", &cgroups, None)?;
        command
            .args(["--quiet", "--register=no", "--keep-unit", "--console=pipe"])
            .args([
                "--as-pid2",
                "--link-journal=no",
                "--resolv-conf=off",
                "--timezone=off",
            ])
            .arg(format!("--machine=cf-{}", spec.name))
            .arg(format!("--network-namespace-path={}", net.path.display()))
            .arg(format!("--bind={}:{}", data.display(), oci::DATA))
            .arg("--directory")
            .arg(&root)
            .args([format!("/{}", load::NAME), "serve".to_owned()]);
        let guest = Guest::start(&spec.name, command, START)?;
        Ok(Tenant {
            // nspawn is in the tenant's cgroups, but not in its network namespace.
            pid: crate::isolation::descendant(guest.pid()),
            address: None,
            guest,
            dir: oci::DATA.to_owned(),
            cgroups: None,
            host_clock: true,
            _undo: undo,
        })
    }
}
