//! Tests of the Helm chart: the real helm renders it with several files of values, and kubeconform
//! checks the result with the schemas of the Kubernetes release of the cluster's test. Both
//! programs are built once into a cache outside the source tree.
#![allow(clippy::unwrap_used)]

mod events;
mod parts;
mod schemas;
mod scrape;

use parts::{helm, refusal, rendered, root, run, tool};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Files of values in the chart's `ci`, and none at all.
const VALUES: [&[&str]; 4] = [&[], &["plain"], &["all"], &["least"]];

/// All documents of a rendering.
fn documents(text: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    all.into_iter().filter(|d| !d.is_null()).collect()
}

fn kind<'a>(documents: &'a [Value], kind: &str) -> Vec<&'a Value> {
    documents.iter().filter(|d| d["kind"] == kind).collect()
}

/// Promise 40.
#[test]
fn helm_finds_nothing_wrong_with_any_values() {
    for values in VALUES {
        let mut command = helm();
        command.args(["lint", "--strict", "--quiet"]);
        parts::values(&mut command, values);
        if values.is_empty() {
            command.args(["--set", parts::IMAGE]);
        }
        run(command.arg(parts::chart()));
    }
}

/// Promise 40.
#[test]
fn every_rendering_is_valid_for_kubernetes() {
    let folder = tempfile::tempdir().unwrap();
    schemas::write(folder.path());
    let location = format!(
        "{}/{{{{.ResourceKind}}}}-{{{{.ResourceAPIVersion}}}}.json",
        folder.path().display()
    );
    let check = |text: &str| {
        let file = folder.path().join("rendered.yaml");
        fs::write(&file, text).unwrap();
        // These two kinds belong to the Prometheus operator.
        Command::new(tool("kubeconform"))
            .args(["-strict", "-summary", "-skip", "PodMonitor,PrometheusRule"])
            .args(["-schema-location", &location])
            .arg(&file)
            .output()
            .unwrap()
    };
    for values in VALUES {
        let text = rendered(values);
        let out = check(&text);
        let printed = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{values:?}: {printed}");
        assert!(printed.contains("Invalid: 0, Errors: 0"), "{printed}");
    }
    // The check fails as it should: on an unknown key, and on a wrong type.
    let text = rendered(&[]);
    for (from, to) in [
        ("hostPID: true", "hostPid: true"),
        ("hostPID: true", "hostPID: 3"),
    ] {
        let out = check(&text.replace(from, to));
        assert!(!out.status.success(), "{to} was not noticed");
    }
}

/// Promise 40.
#[test]
fn the_plain_manifest_is_a_rendering_of_the_chart() {
    let manifest = fs::read_to_string(root().join("etc/kubernetes.yaml")).unwrap();
    let body = manifest.split_once("\n---\n").unwrap().1;
    assert!(
        body == rendered(&["plain"]).trim_start_matches("---\n"),
        "etc/kubernetes.yaml is out of date: run 'cargo xtask manifest'"
    );
}

/// Promise 40.
#[test]
fn the_agent_accepts_every_configuration_that_the_chart_makes() {
    for values in VALUES {
        let documents = documents(&rendered(values));
        let all = kind(&documents, "ConfigMap");
        let text = all
            .iter()
            .find_map(|c| c["data"]["cofferdam.toml"].as_str());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cofferdam.toml");
        fs::write(&file, text.unwrap()).unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_cofferdam"))
            .args(["agent", "--check-config", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&out.stdout);
        assert!(
            out.status.success(),
            "{values:?}: {printed}\n{}",
            text.unwrap()
        );
        let rules = if values == ["all"] { 5 } else { 0 };
        assert!(
            printed.contains(&format!("valid, {rules} rules")),
            "{printed}"
        );
    }
}

/// Promise 40.
#[test]
fn alerts_and_dashboard_are_the_files_of_etc() {
    let documents = documents(&rendered(&["all"]));
    let dashboards = kind(&documents, "ConfigMap");
    let dashboard = dashboards
        .iter()
        .find_map(|c| c["data"]["cofferdam.json"].as_str());
    let file = fs::read_to_string(root().join("etc/grafana-dashboard.json")).unwrap();
    assert_eq!(dashboard.unwrap().trim_end(), file.trim_end());
    let rules = kind(&documents, "PrometheusRule")[0];
    let file = fs::read_to_string(root().join("etc/prometheus-rules.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&file).unwrap();
    assert_eq!(rules["spec"], file);
    // The page of a published book replaces the file of the package.
    let mut command = helm();
    command.args(["template", "cofferdam", "--namespace", "cofferdam"]);
    parts::values(&mut command, &["all"]);
    let page = "https://docs.test/guide/alerts.html";
    command
        .arg("--set")
        .arg(format!("monitoring.prometheusRule.runbooks={page}"));
    let text = run(command.arg(parts::chart()));
    let links: Vec<&str> = text
        .lines()
        .filter(|l| l.contains("runbook_url: "))
        .collect();
    assert!(
        links.len() > 5
            && links
                .iter()
                .all(|l| l.contains(&format!("{page}#cofferdam"))),
        "{links:?}"
    );
}

/// Promise 40.
#[test]
fn wrong_values_are_refused_by_name() {
    for (set, words) in [
        ("image.repository=", "image.repository is required"),
        ("image.repository=null", "image.repository is required"),
        ("image.repository=3", "repository"),
        ("image.tag=110", "tag"),
        ("monitoring.prometheusRule.runbooks=alerts.md", "runbooks"),
        ("agent.resources.limits.memory=much", "memory"),
        ("agent.resources.limit.memory=1Gi", "limit"),
        ("agent.resources=1Gi", "resources"),
        ("agent.tolerations[0].operator=exists", "operator"),
        ("agent.tolerations.operator=Exists", "tolerations"),
        ("agent.affinity.nodeAfinity.x=1", "nodeAfinity"),
        ("agent.updateStrategy.type=Recreate", "updateStrategy"),
        ("agent.podAnnotations.rev=12345", "rev"),
        ("agent.history.limit=1", "limit"),
        ("agent.priorityClassName=true", "priorityClassName"),
        ("imagePullSecrets={registry}", "imagePullSecrets"),
        ("rbac.viewers[0].kind=group,rbac.viewers[0].name=x", "kind"),
        ("networkPolicy.from={10.0.0.0/8}", "from"),
        ("gatway.enabled=true", "gatway"),
        ("gateway.port=80", "port"),
        ("agent.rules[0].match=x,agent.rules[0].cpu=strict", "cpus"),
        ("agent.rules[0].match=x,agent.rules[0].cpus=1", "cpus"),
        ("agent.rules[0].cpu=standard", "match"),
        ("agent.settings.socket.path=/x", "socket"),
        ("annotations.namespaces={Big}", "namespaces"),
        ("annotations.admission.actions={Refuse}", "actions"),
        ("image.digest=sha256:1", "digest"),
        (
            "monitoring.podMonitor.enabled=true,gateway.enabled=false",
            "needs gateway.enabled",
        ),
        (
            "events.enabled=true,gateway.enabled=false",
            "needs gateway.enabled",
        ),
        ("events.every=0s", "every"),
        ("events.every=15", "every"),
        ("events.apiServerPorts={0}", "apiServerPorts"),
    ] {
        let reason = refusal(set);
        assert!(reason.contains(words), "{set}: {reason}");
    }
}

/// Promise 40.
#[test]
fn the_agents_rights_are_named_one_by_one_and_documented() {
    let page = fs::read_to_string(root().join("docs/src/kubernetes/node-changes.md")).unwrap();
    let mut seen = BTreeSet::new();
    for values in VALUES {
        let documents = documents(&rendered(values));
        let set = kind(&documents, "DaemonSet")[0];
        let pod = &set["spec"]["template"]["spec"];
        let none = Vec::new();
        let of = |what: &str| pod[what].as_array().unwrap_or(&none);
        for container in of("containers").iter().chain(of("initContainers")) {
            let context = &container["securityContext"];
            assert_ne!(context["privileged"], true);
            assert_eq!(context["allowPrivilegeEscalation"], false, "{container}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{container}");
            assert_eq!(context["capabilities"]["drop"], serde_json::json!(["ALL"]));
            let added = context["capabilities"]["add"].as_array().unwrap_or(&none);
            // The container that other hosts reach has no rights.
            if container["name"] == "gateway" {
                assert!(
                    added.is_empty() && context["runAsNonRoot"] == true,
                    "{container}"
                );
            }
            seen.extend(added.iter().map(|c| c.as_str().unwrap().to_owned()));
        }
        let paths = of("volumes")
            .iter()
            .filter_map(|v| v["hostPath"]["path"].as_str());
        seen.extend(paths.map(str::to_owned));
        assert_eq!(pod["automountServiceAccountToken"], false);
    }
    assert!(seen.len() > 12, "{seen:?}");
    for right in seen {
        assert!(
            page.contains(&format!("`{right}`")),
            "{right} is not in node-changes.md"
        );
    }
}

/// Promise 40.
#[test]
fn the_chart_has_the_version_of_the_program() {
    let text = fs::read_to_string(Path::new(&parts::chart()).join("Chart.yaml")).unwrap();
    let chart: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}

/// Promise 40.
#[test]
fn the_archive_has_every_file_that_its_links_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = helm();
    run(command
        .arg("package")
        .arg(parts::chart())
        .arg("--destination")
        .arg(folder.path()));
    let archive = folder
        .path()
        .join(format!("cofferdam-{}.tgz", env!("CARGO_PKG_VERSION")));
    let list = run(Command::new("tar").arg("-tvzf").arg(&archive));
    assert!(
        list.contains("cofferdam/files/grafana-dashboard.json"),
        "{list}"
    );
    assert!(!list.contains(" -> ") && !list.contains("/ci/"), "{list}");
    // The archive renders as the folder does.
    let mut command = helm();
    command.args(["template", "cofferdam", "--namespace", "cofferdam"]);
    parts::values(&mut command, &["all"]);
    let text = run(command.arg(&archive));
    assert!(text.contains("kind: PrometheusRule"));
}
