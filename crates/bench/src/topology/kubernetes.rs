//! Pods of a node for a topology, made through the API server: everything of them is the cluster's,
//! including the network. Only the other end of the traffic is the benchmark's, behind a device of
//! this node. Runs on the node, as root, with a `kubectl` that may make pods.

use super::{Tenant, UPLINK, UPLINK_PEER, finish_peer_device};
use crate::cluster::{Node, PodSpec};
use crate::data::{EVEN_SHARE_PCT, Limit};
use crate::error::BenchError;
use cofferdam_host::CgroupLayout;
use cofferdam_lab::cgroup::CPU;
use cofferdam_lab::names::NETNS_PREFIX;
use cofferdam_lab::{Netns, UndoStack, veth};
use serde_json::{Value, json};
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Request of a pod with an even share, thousandths of a CPU: several fit on a small node.
const EVEN_MILLICPUS: f64 = 100.0;

/// Pods of a topology.
pub(super) struct Pods {
    node: Node,
    tag: String,
}

/// Running pod.
pub(super) struct StartedPod {
    pub netns: Netns,
    pub cgroups: Vec<PathBuf>,
    /// Path of its container's cgroup below the v2 mount.
    pub cgroup_path: String,
    pub address: Ipv4Addr,
}

impl Pods {
    /// Inspects this node, and connects it to `peer`.
    pub fn prepare(tag: &str, peer: &Netns, spec: &super::Spec) -> Result<Pods, BenchError> {
        forwards()?;
        let node = Node::this()?;
        let device = format!("cfb{}", std::process::id());
        veth::pair((peer, "p0"), (&Netns::HOST, &device), 1)?;
        peer.address("p0", UPLINK_PEER)?;
        Netns::HOST.address(&device, UPLINK)?;
        finish_peer_device(peer, "p0", spec)?;
        peer.route(&format!("default via {UPLINK}"))?;
        Netns::HOST.steer(&device, &[spec.victim_cpu])?;
        Ok(Pods {
            node,
            tag: tag.to_owned(),
        })
    }

    /// Starts a pod of one container, which sleeps.
    pub fn start(
        &self,
        tenant: &Tenant,
        limit: Limit,
        layout: &CgroupLayout,
        undo: &mut UndoStack,
    ) -> Result<StartedPod, BenchError> {
        let name = format!("{NETNS_PREFIX}{}-{}", self.tag, tenant.name);
        let spec = PodSpec {
            name: name.clone(),
            resources: resources(tenant.share_pct, limit),
            ..PodSpec::default()
        };
        let pod = self.node.start(&spec, undo)?;
        let netns = Netns::attach(&name, pod.pid, undo)?;
        // Offload as for other containers: see `Router::attach`.
        netns.offload("eth0", "gro on")?;
        let membership = pod.membership(layout)?;
        Ok(StartedPod {
            netns,
            cgroup_path: membership.path().display().to_string(),
            cgroups: membership.dirs(&CPU),
            address: pod.address,
        })
    }
}

/// Checks that this host forwards packets, as every node of a cluster does.
pub(crate) fn forwards() -> Result<(), BenchError> {
    let forwards = fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap_or_default();
    if forwards.trim() == "1" {
        return Ok(());
    }
    Err(BenchError::Unsupported(
        "this host does not forward packets: run the benchmark on a node of a cluster, in the \
         node's network namespace"
            .to_owned(),
    ))
}

/// Share of the CPU as a pod's `resources`.
fn resources(share_pct: f64, limit: Limit) -> Value {
    let relative = share_pct / f64::from(EVEN_SHARE_PCT);
    match limit {
        Limit::Weights => json!({
            "requests": { "cpu": format!("{:.0}m", EVEN_MILLICPUS * relative) },
        }),
        Limit::Quota => json!({
            "requests": { "cpu": format!("{EVEN_MILLICPUS:.0}m") },
            "limits": { "cpu": format!("{:.0}m", share_pct * 10.0) },
        }),
    }
}

/// Checks that pods have this path.
pub(super) fn refuse_path(path: crate::data::Path) -> Result<(), BenchError> {
    match path {
        crate::data::Path::Routed => Ok(()),
        _ => Err(BenchError::Unsupported(
            "pods are reached as their cluster's network plugin routes to them: choose the path \
             'routed'"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_request_or_a_limit() {
        assert_eq!(resources(25.0, Limit::Weights)["requests"]["cpu"], "50m");
        assert_eq!(resources(25.0, Limit::Quota)["limits"]["cpu"], "250m");
    }
}
