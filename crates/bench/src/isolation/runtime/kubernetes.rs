//! Pods of this host, a cluster's node, made through the API server. Kubelet, runtime and network
//! plugin are the cluster's.
//!
//! The generator is a process of the benchmark in the pod's namespaces and cgroups. Its reports do
//! not go through the API server (`kubectl exec`): that would be work of the node in the measured
//! time.

use super::{Limit, Runtime, START, Tenant, TenantSpec, oci};
use crate::cluster::{Node, PodSpec};
use crate::error::BenchError;
use crate::isolation::guest::Guest;
use crate::isolation::load;
use crate::isolation::testbed::IsolationTestbed;
use crate::topology::forwards;
use cofferdam_lab::UndoStack;
use cofferdam_lab::cgroup::layout;
use cofferdam_lab::place::Spot;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// v1 controllers in which a kubelet or a runtime has cgroups.
const CONTROLLERS: [&str; 6] = ["cpu", "cpuacct", "cpuset", "memory", "blkio", "pids"];
/// Label of the tenants' pods, for the agent's rules.
pub(in crate::isolation) const LABEL: &str = "cofferdam-bench";

/// Runtime of a cluster's node.
#[derive(Default)]
pub(super) struct Kubernetes {
    node: Option<Node>,
}

impl Runtime for Kubernetes {
    fn version(&self) -> Result<String, BenchError> {
        forwards()?;
        Node::this()?.version()
    }

    fn prepare(
        &mut self,
        testbed: &IsolationTestbed,
    ) -> Result<Option<(String, String)>, BenchError> {
        self.node = Some(Node::this()?);
        testbed.join_node()?;
        Ok(None)
    }

    fn start(&self, testbed: &IsolationTestbed, spec: &TenantSpec) -> Result<Tenant, BenchError> {
        let node = self.node.as_ref().ok_or_else(|| {
            BenchError::Unsupported("the cluster's node was not looked at".to_owned())
        })?;
        let mut undo = UndoStack::default();
        let data = testbed.tenant_dir(&spec.name)?;
        let program = data.join(load::NAME);
        fs::copy(&testbed.load, &program).map_err(BenchError::host("write", &program))?;
        let name = testbed.container(&spec.name);
        let pod = PodSpec {
            labels: json!({ LABEL: name }),
            name,
            resources: resources(spec.limit.as_ref())?,
            directory: Some((data, oci::DATA)),
            ..PodSpec::default()
        };
        let pod = node.start(&pod, &mut undo)?;
        let layout = layout()?;
        let cgroups = pod.membership(&layout)?.dirs(&CONTROLLERS);
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &pod.pid.to_string()])
            .args(["--mount", "--net", "--ipc", "--uts", "--pid", "--"])
            .arg(format!("{}/{}", oci::DATA, load::NAME))
            .arg("serve");
        Spot::open(None, &cgroups)?.pre_exec(&mut command);
        let guest = Guest::start(&spec.name, command, START)?;
        Ok(Tenant {
            guest,
            pid: pod.pid,
            address: Some(pod.address),
            dir: oci::DATA.to_owned(),
            cgroups: None,
            host_clock: true,
            _undo: undo,
        })
    }
}

/// The limit as `resources` of a pod. Requests that it does not name equal the limits.
fn resources(limit: Option<&Limit>) -> Result<Value, BenchError> {
    Ok(match limit {
        Some(Limit::Cpus(cpus)) => json!({ "limits": { "cpu": format!("{:.0}m", cpus * 1000.0) } }),
        Some(Limit::Memory(bytes)) => json!({ "limits": { "memory": bytes.to_string() } }),
        Some(Limit::Disk { .. }) => {
            return Err(BenchError::Unsupported(
                "a pod has no limit of block operations: measure its other resources".to_owned(),
            ));
        }
        Some(Limit::Network(_)) | None => json!({}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::device::BlockDevice;

    /// Promise 47.
    #[test]
    fn limits_are_a_pods_or_refused() {
        let cpus = resources(Some(&Limit::Cpus(0.5))).unwrap();
        assert_eq!(cpus, json!({ "limits": { "cpu": "500m" } }));
        let memory = resources(Some(&Limit::Memory(64 << 20))).unwrap();
        assert_eq!(memory["limits"]["memory"], "67108864");
        assert_eq!(resources(None).unwrap(), json!({}));
        let device = BlockDevice {
            major: 254,
            minor: 0,
            node: "/dev/vda".into(),
        };
        let disk = Limit::Disk {
            device,
            reads: 1,
            writes: 1,
        };
        let reason = resources(Some(&disk)).unwrap_err();
        assert_eq!(reason.exit_code(), 3);
        assert!(reason.to_string().contains("block operations"), "{reason}");
    }
}
