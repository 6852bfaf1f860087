use super::*;
use std::os::unix::fs::PermissionsExt;

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
    let configz = r#"{"kubeletconfig":{"cpuManagerPolicy":"static"}}"#;
    assert_eq!(cpu_manager_policy(configz).as_deref(), Some("static"));
    assert_eq!(cpu_manager_policy("{}"), None);
}

/// Promise 47.
#[test]
fn a_refused_pod_says_why() {
    let pod = r#"{"status":{"phase":"Failed","reason":"OutOfcpu",
        "message":"Node didn't have enough resource: cpu"}}"#;
    assert!(refusal(pod).unwrap().contains("enough resource"));
    let waits =
        r#"{"status":{"containerStatuses":[{"state":{"waiting":{"message":"no image"}}}]}}"#;
    assert_eq!(refusal(waits).as_deref(), Some("no image"));
    assert_eq!(refusal("{}"), None);
}

/// Promise 47.
#[test]
fn without_kubectl_or_a_cluster_the_remedy_is_named() {
    let missing = Node::by("cofferdam-no-kubectl").err().unwrap();
    assert_eq!(missing.exit_code(), 3);
    assert!(
        missing.to_string().contains("cofferdam-no-kubectl"),
        "{missing}"
    );
    let dir = tempfile::tempdir().unwrap();
    // A program that prints kubectl's words.
    let says = |script: &str| {
        let path = dir.path().join("kubectl");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Node::by(&path.display().to_string()).err().unwrap()
    };
    let away = says("echo 'The connection to the server was refused' >&2; exit 1");
    assert_eq!(away.exit_code(), 3);
    assert!(away.to_string().contains("was refused") && away.to_string().contains("KUBECONFIG"));
    let bare = says("echo '{}'");
    assert_eq!(bare.exit_code(), 3);
    assert!(bare.to_string().contains("pause"), "{bare}");
    assert_eq!(says("echo 'no document'").exit_code(), 3);
}

#[test]
fn a_pod_is_this_nodes_and_has_what_was_asked() {
    let node = Node {
        kubectl: String::new(),
        name: "n".to_owned(),
        image: "i".to_owned(),
    };
    let mut spec = PodSpec {
        name: "p".to_owned(),
        resources: json!({ "requests": { "cpu": "1" } }),
        ..PodSpec::default()
    };
    let plain = node.pod(&spec);
    assert_eq!(plain["spec"]["nodeName"], "n");
    assert_eq!(plain["metadata"].get("annotations"), None);
    assert_eq!(plain["spec"].get("volumes"), None);
    spec.annotations = json!({ "cofferdam.dev/cpu": "strict" });
    spec.directory = Some(("/d".into(), "/data"));
    let more = node.pod(&spec);
    assert_eq!(
        more["metadata"]["annotations"]["cofferdam.dev/cpu"],
        "strict"
    );
    assert_eq!(more["spec"]["volumes"][0]["hostPath"]["path"], "/d");
    let mounts = &more["spec"]["containers"][0]["volumeMounts"];
    assert_eq!(mounts[0]["mountPath"], "/data");
}
