//! containerd and CRI-O: annotations in the OCI `config.json` of each container's bundle.

use super::identity::{Identity, plausible_name};
use crate::classify::NamedContainer;
use crate::fs::{HostFs, SMALL_BYTES};
use cofferdam_types::Runtime;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// State directories of containerd and of the distributions that bring their own.
const CONTAINERD: [&str; 4] = [
    "/run/containerd",
    "/run/k3s/containerd",
    "/run/k0s/containerd",
    "/var/snap/microk8s/common/run/containerd",
];

/// Folder below a state directory, with a folder for each namespace, and in it one for each task.
const TASKS: &str = "io.containerd.runtime.v2.task";

/// Names in the annotations of an OCI configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OciNames {
    /// The container's name.
    pub name: Option<String>,
    /// The pod as `namespace/name`.
    pub pod: Option<String>,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    annotations: Map<String, Value>,
}

/// Reads names from the bytes of an OCI `config.json`; empty if it does not parse.
pub fn annotations(bytes: &[u8]) -> OciNames {
    let Ok(spec) = serde_json::from_slice::<Spec>(bytes) else {
        return OciNames::default();
    };
    let get = |keys: &[&str]| {
        keys.iter()
            .find_map(|key| plausible_name(spec.annotations.get(*key)?.as_str()?))
    };
    let pod_name = get(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]);
    let namespace = get(&[
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.pod.namespace",
    ]);
    let kind = get(&[
        "io.kubernetes.cri.container-type",
        "io.kubernetes.cri-o.ContainerType",
    ]);
    let name = match kind.as_deref() {
        // The container that only keeps the pod's namespaces has no name of its own.
        Some("sandbox") => Some("pause".to_owned()),
        _ => get(&[
            "io.kubernetes.cri.container-name",
            "io.kubernetes.container.name",
            "nerdctl/name",
        ]),
    };
    let pod = pod_name.map(|pod| match namespace {
        Some(namespace) => format!("{namespace}/{pod}"),
        None => pod,
    });
    OciNames { name, pod }
}

/// Finds a container started by `ctr`, or by nerdctl without systemd. Its cgroup is
/// `/NAMESPACE/ID`, an ambiguous form. containerd's own directory of the task, created before the
/// cgroup, identifies it.
pub(crate) fn task(fs: &HostFs, cgroup_path: &Path) -> Option<NamedContainer> {
    let id = cgroup_path.file_name()?.to_str()?;
    let space = cgroup_path.parent()?;
    // Exactly two components: other cgroups cost no disk access.
    if space.parent() != Some(Path::new("/")) {
        return None;
    }
    let namespace = space.file_name()?;
    let is_task = CONTAINERD.iter().any(|state| {
        let tasks = Path::new(state).join(TASKS);
        fs.exists(tasks.join(namespace).join(id))
    });
    is_task.then(|| NamedContainer {
        runtime: Runtime::Containerd,
        id: Some(id.to_owned()),
        name: plausible_name(id),
        pod_uid: None,
    })
}

pub(crate) fn containerd(fs: &HostFs, id: &str) -> Identity {
    let mut bundles = containerd_bundles(fs, id).into_iter();
    let found = bundles.find_map(|bundle| bundle_names(fs, bundle));
    found.unwrap_or_default()
}

/// Lists possible folders of a container's bundle in containerd: one for each of its state
/// directories and namespaces (k8s.io, default, moby).
pub(crate) fn containerd_bundles(fs: &HostFs, id: &str) -> Vec<PathBuf> {
    let mut bundles = Vec::new();
    for state in CONTAINERD {
        let tasks = Path::new(state).join(TASKS);
        for namespace in fs.directories(&tasks).unwrap_or_default() {
            bundles.push(tasks.join(namespace).join(id));
        }
    }
    bundles
}

pub(crate) fn crio(fs: &HostFs, id: &str) -> Identity {
    let mut bundles = crio_bundles(id).into_iter();
    let found = bundles.find_map(|bundle| bundle_names(fs, bundle));
    found.unwrap_or_default()
}

/// Lists possible folders of a container's bundle in CRI-O.
pub(crate) fn crio_bundles(id: &str) -> Vec<PathBuf> {
    let drivers = ["overlay", "vfs", "btrfs"].iter();
    drivers
        .map(|driver| {
            let containers = format!("/run/containers/storage/{driver}-containers");
            Path::new(&containers).join(id).join("userdata")
        })
        .collect()
}

fn bundle_names(fs: &HostFs, bundle: PathBuf) -> Option<Identity> {
    let bytes = fs.read(bundle.join("config.json"), SMALL_BYTES).ok()?;
    let OciNames { name, pod } = annotations(&bytes);
    Some(Identity { name, pod })
}
