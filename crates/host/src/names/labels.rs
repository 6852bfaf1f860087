//! Labels that a runtime keeps on disk, and the annotations in a container's OCI configuration.

use super::identity::owner_home;
use super::{cri, docker, podman};
use crate::fs::{HostFs, SMALL_BYTES};
use cofferdam_types::{Container, Runtime};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Annotation in which CRI-O keeps the labels of a pod's container, as JSON.
const CRIO_LABELS: &str = "io.kubernetes.cri-o.Labels";

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    annotations: Map<String, Value>,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(rename = "Config")]
    config: DockerLabels,
}

#[derive(Deserialize)]
struct DockerLabels {
    #[serde(rename = "Labels", default)]
    labels: Option<Map<String, Value>>,
}

/// Reads labels and annotations of `container` that are stored in files: docker's labels, CRI-O's
/// labels, and the OCI annotations of podman, containerd and CRI-O. podman and containerd keep
/// labels in databases that are not read. Empty if there are none, or none can be read.
pub fn labels(fs: &HostFs, container: &Container) -> BTreeMap<String, String> {
    let Some(id) = container.id.as_deref() else {
        return BTreeMap::new();
    };
    let home = owner_home(fs, &container.cgroup_path);
    let read = |path: PathBuf| fs.read(path, SMALL_BYTES).ok();
    match container.runtime {
        Runtime::Docker => {
            let file = docker::directory(fs, id, home.as_deref()).join("config.v2.json");
            read(file).map(|b| docker_labels(&b)).unwrap_or_default()
        }
        Runtime::Podman => podman::bundles(fs, id, home.as_deref())
            .into_iter()
            .find_map(read)
            .map(|bytes| annotations(&bytes))
            .unwrap_or_default(),
        Runtime::Containerd => cri::containerd_bundles(fs, id)
            .into_iter()
            .find_map(|bundle| read(bundle.join("config.json")))
            .map(|bytes| annotations(&bytes))
            .unwrap_or_default(),
        Runtime::Crio => cri::crio_bundles(id)
            .into_iter()
            .find_map(|bundle| read(bundle.join("config.json")))
            .map(|bytes| annotations(&bytes))
            .unwrap_or_default(),
        Runtime::Nspawn | Runtime::Plain | Runtime::Host => BTreeMap::new(),
    }
}

/// Reads labels from the bytes of docker's `config.v2.json`.
pub fn docker_labels(bytes: &[u8]) -> BTreeMap<String, String> {
    let config: Option<DockerConfig> = serde_json::from_slice(bytes).ok();
    strings(config.and_then(|c| c.config.labels).unwrap_or_default())
}

/// Reads annotations from the bytes of an OCI `config.json`, with CRI-O's labels.
pub fn annotations(bytes: &[u8]) -> BTreeMap<String, String> {
    let spec: Option<Spec> = serde_json::from_slice(bytes).ok();
    let mut found = strings(spec.map(|s| s.annotations).unwrap_or_default());
    let inner: Option<Map<String, Value>> = found
        .get(CRIO_LABELS)
        .and_then(|text| serde_json::from_str(text).ok());
    found.extend(strings(inner.unwrap_or_default()));
    found
}

fn strings(map: Map<String, Value>) -> BTreeMap<String, String> {
    map.into_iter()
        .filter_map(|(key, value)| match value {
            Value::String(text) => Some((key, text)),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_types::CgroupId;

    fn container(runtime: Runtime, id: &str) -> Container {
        Container {
            id: Some(id.into()),
            runtime,
            ..Container::plain(CgroupId(1), "/x", "x")
        }
    }

    fn read(runtime: Runtime, path: &str, text: &str) -> BTreeMap<String, String> {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        labels(&HostFs::below(root.path()), &container(runtime, "abc"))
    }

    #[test]
    fn each_runtime_keeps_them_elsewhere() {
        let oci = r#"{"annotations": {"tier": "web", "n": 5}}"#;
        let docker = r#"{"Name": "/x", "Config": {"Labels": {"tier": "web"}}}"#;
        let crio = r#"{"annotations": {"io.kubernetes.cri-o.Labels": "{\"tier\":\"web\"}"}}"#;
        let task = "run/containerd/io.containerd.runtime.v2.task/k8s.io/abc/config.json";
        for (runtime, path, text) in [
            (
                Runtime::Docker,
                "var/lib/docker/containers/abc/config.v2.json",
                docker,
            ),
            (
                Runtime::Podman,
                "var/lib/containers/storage/overlay-containers/abc/userdata/config.json",
                oci,
            ),
            (Runtime::Containerd, task, oci),
            (
                Runtime::Crio,
                "run/containers/storage/overlay-containers/abc/userdata/config.json",
                crio,
            ),
        ] {
            let found = read(runtime, path, text);
            assert_eq!(
                found.get("tier").map(String::as_str),
                Some("web"),
                "{runtime}"
            );
            assert!(!found.contains_key("n"));
        }
    }

    #[test]
    fn what_cannot_be_read_has_no_labels() {
        for text in [
            "",
            "{",
            "[]",
            r#"{"annotations": 5}"#,
            r#"{"Config": {"Labels": null}}"#,
        ] {
            assert!(annotations(text.as_bytes()).is_empty());
            assert!(docker_labels(text.as_bytes()).is_empty());
        }
        let plain = Container {
            id: None,
            ..container(Runtime::Plain, "")
        };
        assert!(labels(&HostFs::below("/nowhere"), &plain).is_empty());
    }
}
