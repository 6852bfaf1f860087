//! OCI bundle of the benchmark, run by runc or by gVisor's runsc.

use super::{Runtime, START, Tenant, TenantSpec, container_tenant, first_line, oci};
use crate::error::BenchError;
use crate::isolation::guest::Guest;
use crate::isolation::testbed::IsolationTestbed;
use cofferdam_lab::UndoStack;
use cofferdam_lab::run;
use std::process::Command;

/// Runtime runc or runsc.
pub(super) struct Bundle {
    program: &'static str,
    /// Options before the subcommand.
    options: &'static [&'static str],
    /// Option that turns off the runtime's own network stack.
    without_network: Option<&'static str>,
}

impl Bundle {
    pub fn runc() -> Bundle {
        Bundle {
            program: "runc",
            options: &[],
            without_network: None,
        }
    }

    /// Platform ptrace needs neither KVM nor a new kernel; it is the slowest.
    pub fn runsc() -> Bundle {
        Bundle {
            program: "runsc",
            options: &["--platform=ptrace"],
            // The default is a network stack in the sandbox. On new kernels, versions before 2023
            // take every namespace for the host's and refuse it, so only tenants with a network
            // keep the default.
            without_network: Some("--network=none"),
        }
    }
}

impl Runtime for Bundle {
    fn version(&self) -> Result<String, BenchError> {
        first_line(&format!("{} --version", self.program))
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
        let state = testbed.tenant_dir("state")?;
        let network = self.without_network.filter(|_| !spec.network);
        let base = format!(
            "{} {} {} --root {}",
            self.program,
            self.options.join(" "),
            network.unwrap_or_default(),
            state.display()
        );
        let (container, delete) = (id.clone(), base.clone());
        undo.push(format!("container {id}"), move || {
            run(&format!("{delete} delete --force {container}"))
        });
        let mut words = base.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or(self.program));
        command
            .args(words)
            .args(["run", "--bundle"])
            .arg(&bundle.dir)
            .arg(&id);
        let guest = Guest::start(&spec.name, command, START)?;
        let state = run(&format!("{base} state {id}"))?;
        let state: serde_json::Value = serde_json::from_str(&state).unwrap_or_default();
        container_tenant(guest, &state["pid"].to_string(), undo)
    }
}
