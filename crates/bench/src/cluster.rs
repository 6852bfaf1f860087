//! Cluster node that the benchmark runs on, and its pods, made through the API server. Runs in the
//! node's namespaces, as root, with a `kubectl` that may make pods.

use crate::error::BenchError;
use cofferdam_host::CgroupLayout;
use cofferdam_lab::cgroup::{Membership, children, layout};
use cofferdam_lab::command::run_with_input;
use cofferdam_lab::{LabError, UndoStack, run};
use serde_json::{Value, json};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Namespace of the benchmark's pods.
pub(crate) const NAMESPACE: &str = "default";
/// Greatest depth of a container's cgroup
/// (`kubepods.slice/…-burstable.slice/…-podUID.slice/…scope`).
const DEEPEST: u32 = 6;
/// Time limit for the start of a pod, and for its end.
const PATIENCE: &str = "60s";

/// This node, as its cluster describes it.
pub(crate) struct Node {
    kubectl: String,
    name: String,
    /// Image that every node has and that does nothing: the sandbox's.
    image: String,
}

/// Pod to make: one container, which sleeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodSpec {
    pub name: String,
    pub labels: Value,
    pub annotations: Value,
    /// Value of the container's `resources`.
    pub resources: Value,
    /// Directory of this node, and its path in the container.
    pub directory: Option<(PathBuf, &'static str)>,
}

/// Running pod.
pub(crate) struct Pod {
    /// First process of its container.
    pub pid: u32,
    pub address: Ipv4Addr,
}

impl Node {
    /// Asks the API server about this node.
    pub fn this() -> Result<Node, BenchError> {
        Node::by("kubectl")
    }

    /// Asks the API server about this node, by the program `kubectl`.
    fn by(kubectl: &str) -> Result<Node, BenchError> {
        let name = run("uname -n")?.trim().to_owned();
        let ask = format!("{kubectl} get node {name} --output json");
        let text = run(&ask).map_err(|e| match e {
            LabError::Command { reason, .. } => {
                // `kubectl` repeats its message; the last part says what matters.
                let reason = reason.rsplit("; ").next().unwrap_or_default();
                BenchError::Unsupported(format!(
                    "the API server does not report the node '{name}' ({reason}): run the \
                     benchmark on a node of a cluster, with a kubectl that may make pods there \
                     (KUBECONFIG)"
                ))
            }
            other => other.into(),
        })?;
        let image = sandbox_image(&text).ok_or_else(|| {
            BenchError::Unsupported(format!(
                "node {name} lists no image of a sandbox (pause) in its status"
            ))
        })?;
        Ok(Node {
            kubectl: kubectl.to_owned(),
            name,
            image,
        })
    }

    /// Versions of the kubelet and of the container runtime.
    pub fn version(&self) -> Result<String, BenchError> {
        let text = self.kubectl(&format!("get node {} --output json", self.name))?;
        let node: Value = serde_json::from_str(&text).unwrap_or_default();
        let info = &node["status"]["nodeInfo"];
        let word = |key: &str| info[key].as_str().unwrap_or("?").to_owned();
        Ok(format!(
            "kubelet {}, {}",
            word("kubeletVersion"),
            word("containerRuntimeVersion")
        ))
    }

    /// Value of the kubelet's `cpuManagerPolicy`.
    pub fn cpu_manager_policy(&self) -> Result<String, BenchError> {
        let path = format!("/api/v1/nodes/{}/proxy/configz", self.name);
        let text = self.kubectl(&format!("get --raw {path}"))?;
        cpu_manager_policy(&text).ok_or_else(|| {
            BenchError::Unsupported(format!(
                "the kubelet of node {} does not tell its CPU manager's policy in {path}",
                self.name
            ))
        })
    }

    /// Starts a pod. `undo` deletes it, and waits for its end.
    pub fn start(&self, spec: &PodSpec, undo: &mut UndoStack) -> Result<Pod, BenchError> {
        let name = &spec.name;
        let delete = format!(
            "{} --namespace {NAMESPACE} delete pod {name} --ignore-not-found --wait --timeout \
             {PATIENCE}",
            self.kubectl
        );
        undo.push(format!("pod {name}"), move || run(&delete));
        let create = format!("{} create --filename -", self.kubectl);
        run_with_input(&create, &self.pod(spec).to_string())?;
        let ready = format!(
            "--namespace {NAMESPACE} wait --for condition=Ready pod/{name} --timeout {PATIENCE}"
        );
        let show = format!("--namespace {NAMESPACE} get pod {name} --output json");
        if let Err(e) = self.kubectl(&ready) {
            // The pod's status has the kubelet's reason; `kubectl wait` does not print it.
            let refused = self.kubectl(&show).ok().and_then(|text| refusal(&text));
            return Err(refused.map_or(e, |reason| failure(name, &reason)));
        }
        let text = self.kubectl(&show)?;
        let (address, id) =
            address_and_id(&text).ok_or_else(|| failure(name, "its status has no address"))?;
        let layout = layout()?;
        let directory = find(&layout.v2_mount, &id, DEEPEST)
            .ok_or_else(|| failure(name, "its container has no cgroup on this host"))?;
        let pids = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        let pid = pids.lines().next().and_then(|pid| pid.parse().ok());
        let pid = pid.ok_or_else(|| failure(name, "its container has no process"))?;
        Ok(Pod { pid, address })
    }

    fn kubectl(&self, arguments: &str) -> Result<String, BenchError> {
        Ok(run(&format!("{} {arguments}", self.kubectl))?)
    }

    /// Manifest of the pod. It names the node, so that the scheduler has no part in it.
    fn pod(&self, spec: &PodSpec) -> Value {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": spec.name, "namespace": NAMESPACE },
            "spec": {
                "nodeName": self.name,
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "tenant",
                    "image": self.image,
                    "imagePullPolicy": "IfNotPresent",
                    "resources": spec.resources,
                }],
            },
        });
        for (key, value) in [("labels", &spec.labels), ("annotations", &spec.annotations)] {
            if !value.is_null() {
                pod["metadata"][key] = value.clone();
            }
        }
        if let Some((directory, seen)) = &spec.directory {
            let path = json!({ "path": directory, "type": "Directory" });
            pod["spec"]["volumes"] = json!([{ "name": "data", "hostPath": path }]);
            pod["spec"]["containers"][0]["volumeMounts"] =
                json!([{ "name": "data", "mountPath": seen }]);
        }
        pod
    }
}

impl Pod {
    /// Cgroups of its container.
    pub fn membership<'a>(&self, layout: &'a CgroupLayout) -> Result<Membership<'a>, BenchError> {
        Ok(Membership::of(layout, self.pid)?)
    }
}

fn failure(pod: &str, reason: &str) -> BenchError {
    BenchError::Worker {
        worker: pod.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Finds the sandbox's image in the list of a node's images.
fn sandbox_image(node: &str) -> Option<String> {
    let node: Value = serde_json::from_str(node).ok()?;
    let images = node["status"]["images"].as_array()?;
    let names = images.iter().filter_map(|image| image["names"].as_array());
    let mut names = names.flatten().filter_map(Value::as_str);
    let is_one = |name: &&str| name.contains("/pause:") && !name.contains('@');
    names.find(is_one).map(str::to_owned)
}

/// Reads the policy from the kubelet's `configz`.
fn cpu_manager_policy(configz: &str) -> Option<String> {
    let document: Value = serde_json::from_str(configz).ok()?;
    let policy = document["kubeletconfig"]["cpuManagerPolicy"].as_str()?;
    Some(policy.to_owned())
}

/// The kubelet's reason for refusing a pod.
fn refusal(pod: &str) -> Option<String> {
    let pod: Value = serde_json::from_str(pod).ok()?;
    let status = &pod["status"];
    let words = |key: &str| status[key].as_str().map(str::to_owned);
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    let waits = waiting["message"].as_str().map(str::to_owned);
    words("message").or(words("reason")).or(waits)
}

/// Address of a running pod, and the id of its container.
fn address_and_id(pod: &str) -> Option<(Ipv4Addr, String)> {
    let pod: Value = serde_json::from_str(pod).ok()?;
    let status = &pod["status"];
    let address = status["podIP"].as_str()?.parse().ok()?;
    let id = status["containerStatuses"][0]["containerID"].as_str()?;
    let (_, id) = id.split_once("://")?;
    Some((address, id.to_owned()))
}

/// Finds the cgroup below `root` whose name contains the container's id.
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

#[cfg(test)]
mod tests;
