//! Pods of a node for a topology, made through the API server: everything of them is the cluster's, the
//! network as well. Only the traffic's other end is ours, behind a device of this node. Runs on the
//! node, as root, with a `kubectl` that may make pods.

use super::{Tenant, UPLINK, UPLINK_PEER, finish_peer_device};
use crate::data::{EVEN_SHARE_PCT, Limit};
use crate::error::BenchError;
use cofferdam_host::CgroupLayout;
use cofferdam_lab::cgroup::{CPU, Membership, children};
use cofferdam_lab::command::run_with_input;
use cofferdam_lab::names::NETNS_PREFIX;
use cofferdam_lab::{Netns, UndoStack, run, veth};
use serde_json::{Value, json};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Where the pods are.
const NAMESPACE: &str = "default";
/// What a pod with an even share requests, thousandths of a CPU: several fit on a small node.
const EVEN_MILLICPUS: f64 = 100.0;
/// Cgroups of containers are at most so deep (`kubepods.slice/…-burstable.slice/…-podUID.slice/…scope`).
const DEEPEST: u32 = 6;

/// Makes pods.
pub(super) struct Pods {
    node: String,
    /// One that every node has, and that does nothing.
    image: String,
    tag: String,
}

/// A pod that runs.
pub(super) struct Started {
    pub netns: Netns,
    pub cgroups: Vec<PathBuf>,
    /// Of its container, below the v2 mount.
    pub cgroup_path: String,
    pub address: Ipv4Addr,
}

impl Pods {
    /// Looks at this node, and joins it to `peer`.
    pub fn prepare(tag: &str, peer: &Netns, spec: &super::Spec) -> Result<Pods, BenchError> {
        let forwards = fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap_or_default();
        if forwards.trim() != "1" {
            return Err(BenchError::Unsupported(
                "this host does not forward packets: run the benchmark on a node of a cluster, in \
                 the node's network namespace"
                    .to_owned(),
            ));
        }
        let node = run("uname -n")?.trim().to_owned();
        let text = run(&format!("kubectl get node {node} --output json"))?;
        let image = sandbox_image(&text).ok_or_else(|| {
            BenchError::Unsupported(format!(
                "node {node} lists no image of a sandbox (pause) in its status"
            ))
        })?;
        let device = format!("cfb{}", std::process::id());
        veth::pair((peer, "p0"), (&Netns::HOST, &device), 1)?;
        peer.address("p0", UPLINK_PEER)?;
        Netns::HOST.address(&device, UPLINK)?;
        finish_peer_device(peer, "p0", spec)?;
        peer.route(&format!("default via {UPLINK}"))?;
        Netns::HOST.steer(&device, &[spec.victim_cpu])?;
        Ok(Pods {
            node,
            image,
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
    ) -> Result<Started, BenchError> {
        let name = format!("{NETNS_PREFIX}{}-{}", self.tag, tenant.name);
        let gone = format!(
            "kubectl --namespace {NAMESPACE} delete pod {name} --ignore-not-found --wait --timeout 60s"
        );
        undo.push(format!("pod {name}"), move || run(&gone));
        let pod = self.pod(&name, tenant.share_pct, limit).to_string();
        run_with_input("kubectl create --filename -", &pod)?;
        run(&format!(
            "kubectl --namespace {NAMESPACE} wait --for condition=Ready pod/{name} --timeout 60s"
        ))?;
        let text = run(&format!(
            "kubectl --namespace {NAMESPACE} get pod {name} --output json"
        ))?;
        let unclear = |what: &str| BenchError::Worker {
            worker: name.clone(),
            reason: what.to_owned(),
        };
        let (address, id) =
            address_and_id(&text).ok_or_else(|| unclear("its status has no address"))?;
        let directory = find(&layout.v2_mount, &id, DEEPEST)
            .ok_or_else(|| unclear("its container has no cgroup on this host"))?;
        let pids = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        let pid = pids.lines().next().and_then(|pid| pid.parse().ok());
        let pid = pid.ok_or_else(|| unclear("its container has no process"))?;
        let netns = Netns::attach(&name, pid, undo)?;
        // As for other containers: see `Router::attach`.
        netns.offload("eth0", "gro on")?;
        let membership = Membership::of(layout, pid)?;
        Ok(Started {
            netns,
            cgroup_path: membership.path().display().to_string(),
            cgroups: membership.dirs(&CPU),
            address,
        })
    }

    fn pod(&self, name: &str, share_pct: f64, limit: Limit) -> Value {
        let relative = share_pct / f64::from(EVEN_SHARE_PCT);
        let request = format!("{:.0}m", EVEN_MILLICPUS * relative);
        let resources = match limit {
            Limit::Weights => json!({ "requests": { "cpu": request } }),
            Limit::Quota => json!({
                "requests": { "cpu": format!("{EVEN_MILLICPUS:.0}m") },
                "limits": { "cpu": format!("{:.0}m", share_pct * 10.0) },
            }),
        };
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": {
                "nodeName": self.node,
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "tenant",
                    "image": self.image,
                    "imagePullPolicy": "IfNotPresent",
                    "resources": resources,
                }],
            },
        })
    }
}

/// The sandbox's image among those that a node lists.
fn sandbox_image(node: &str) -> Option<String> {
    let node: Value = serde_json::from_str(node).ok()?;
    let images = node["status"]["images"].as_array()?;
    let names = images.iter().filter_map(|image| image["names"].as_array());
    let mut names = names.flatten().filter_map(Value::as_str);
    let is_one = |name: &&str| name.contains("/pause:") && !name.contains('@');
    names.find(is_one).map(str::to_owned)
}

/// A running pod's address, and the id of its container.
fn address_and_id(pod: &str) -> Option<(Ipv4Addr, String)> {
    let pod: Value = serde_json::from_str(pod).ok()?;
    let status = &pod["status"];
    let address = status["podIP"].as_str()?.parse().ok()?;
    let id = status["containerStatuses"][0]["containerID"].as_str()?;
    let (_, id) = id.split_once("://")?;
    Some((address, id.to_owned()))
}

/// The cgroup below `root` whose name has the container's id in it.
fn find(root: &Path, id: &str, depth: u32) -> Option<PathBuf> {
    let below: Vec<PathBuf> = children(root).ok()?;
    let named = |path: &&PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.contains(id))
    };
    if let Some(found) = below.iter().find(named) {
        return Some(found.clone());
    }
    let deeper = depth.checked_sub(1)?;
    below.iter().find_map(|path| find(path, id, deeper))
}

/// Which paths pods have.
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
    fn what_the_api_server_tells() {
        let node = r#"{"status":{"images":[{"names":["a/box:1"]},
            {"names":["r/pause@sha256:0","r/pause:3.10"]}]}}"#;
        assert_eq!(sandbox_image(node).as_deref(), Some("r/pause:3.10"));
        assert_eq!(sandbox_image("{}"), None);
        let pod = r#"{"status":{"podIP":"10.244.0.9",
            "containerStatuses":[{"containerID":"containerd://abc"}]}}"#;
        let address = Ipv4Addr::new(10, 244, 0, 9);
        assert_eq!(address_and_id(pod), Some((address, "abc".to_owned())));
        assert_eq!(address_and_id(r#"{"status":{}}"#), None);
        assert_eq!(address_and_id("no document"), None);
    }

    #[test]
    fn a_share_is_a_request_or_a_limit() {
        let pods = Pods {
            node: "n".to_owned(),
            image: "i".to_owned(),
            tag: "t".to_owned(),
        };
        let resources =
            |limit| pods.pod("p", 25.0, limit)["spec"]["containers"][0]["resources"].clone();
        assert_eq!(resources(Limit::Weights)["requests"]["cpu"], "50m");
        assert_eq!(resources(Limit::Quota)["limits"]["cpu"], "250m");
    }
}
