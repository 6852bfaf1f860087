//! Tests of the part of the chart that has a token of the API server: its rights, and who holds it.

use crate::parts::{chart, helm, rendered, root, run, values};
use crate::{documents, kind};
use serde_json::{Value, json};
use std::fs;

const NAME: &str = "isolation-events";

fn of<'a>(all: &'a [Value], of: &str) -> &'a Value {
    let found = kind(all, of);
    let mut found = found.into_iter().filter(|d| d["metadata"]["name"] == NAME);
    found.next().unwrap()
}

/// Promise 40.
#[test]
fn no_events_part_is_rendered_unless_requested() {
    for values in [&[][..], &["plain"], &["least"]] {
        let text = rendered(values);
        assert!(!text.contains("-events"), "{values:?}");
        assert!(kind(&documents(&text), "ClusterRole").is_empty());
    }
}

/// Promise 40.
#[test]
fn the_events_pod_may_only_read_pods_and_write_events() {
    let all = documents(&rendered(&["all"]));
    assert_eq!(
        of(&all, "ClusterRole")["rules"],
        json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        ])
    );
    assert_eq!(
        of(&all, "Role")["rules"],
        json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
            {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["list"]},
        ])
    );
    let account = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": "cofferdam"}]);
    for binding in ["ClusterRoleBinding", "RoleBinding"] {
        assert_eq!(of(&all, binding)["subjects"], account);
        assert_eq!(of(&all, binding)["roleRef"]["name"], NAME);
    }
    let page = fs::read_to_string(root().join("docs/src/kubernetes/node-changes.md")).unwrap();
    for right in [
        "`pods`: `get`",
        "`events`: `create`, `patch`",
        "`daemonsets`: `list`",
    ] {
        assert!(page.contains(right), "{right} is not in node-changes.md");
    }
}

/// Promise 40.
#[test]
fn only_the_container_without_node_answers_has_the_token() {
    let all = documents(&rendered(&["all"]));
    let pod = &of(&all, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(
        of(&all, "ServiceAccount")["automountServiceAccountToken"],
        false
    );
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    for forbidden in ["hostNetwork", "hostPID", "hostIPC"] {
        assert_eq!(pod[forbidden], Value::Null);
    }
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(
        volumes.iter().all(|v| v["hostPath"].is_null()),
        "{volumes:?}"
    );
    for container in pod["containers"].as_array().unwrap() {
        let context = &container["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
        let mounts = container["volumeMounts"].as_array().unwrap();
        let has_account = mounts.iter().any(|m| m["name"] == "account");
        assert_eq!(has_account, container["name"] == "kubectl");
    }
}

/// Promise 40.
#[test]
fn the_policy_admits_nobody_and_limits_the_events_pod() {
    let all = documents(&rendered(&["all"]));
    let policy = &of(&all, "NetworkPolicy")["spec"];
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["ingress"], Value::Null);
    let ports = policy["egress"][0]["ports"].as_array().unwrap();
    let ports: Vec<i64> = ports.iter().map(|p| p["port"].as_i64().unwrap()).collect();
    assert_eq!(ports, [9479, 443, 6443]);
    let labels = &of(&all, "Deployment")["spec"]["template"]["metadata"]["labels"];
    for (name, value) in policy["podSelector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&labels[name], value, "{name}");
    }
}

#[test]
fn the_program_accepts_the_command_line_of_the_chart() {
    let mut command = helm();
    command.args(["template", "cofferdam", "--namespace", "cofferdam"]);
    values(&mut command, &["all"]);
    // Without agreement, a time that the chart accepts and the program refuses.
    command.args(["--set", "events.every=2m"]).arg(chart());
    let all = documents(&run(&mut command));
    let pod = &of(&all, "Deployment")["spec"]["template"]["spec"];
    let words = pod["containers"][0]["command"].as_array().unwrap();
    let words: Vec<&str> = words.iter().map(|w| w.as_str().unwrap()).collect();
    assert_eq!(words[..2], ["cofferdam", "events"]);
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_cofferdam"))
        .args(&words[1..])
        .arg("--help")
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
}
