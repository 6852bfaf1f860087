//! Rendering of `etc/kubernetes.yaml`, the chart for people without helm.

use crate::tree;
use anyhow::{Context, Result, bail};
use std::process::Command;

const HEAD: &str = "\
# Runs the Cofferdam agent on every node, for clusters without Helm. It is what the chart in
# packaging/helm/cofferdam renders with its ci/plain-values.yaml; `cargo xtask manifest` writes it.
#
# First push the image of `make image` to a registry, and put its name in place of REGISTRY. Then
#   kubectl apply -f kubernetes.yaml
#   kubectl --namespace cofferdam create secret generic cofferdam-gateway \\
#     --from-literal=token=\"$(openssl rand -hex 32)\"
# Rules go into the ConfigMap; restart the DaemonSet after a change.
---
";

/// Writes the manifest.
pub fn write() -> Result<()> {
    let parts = output(Command::new(tree::root().join("scripts/kubernetes/build")).arg("helm"))?;
    let chart = tree::root().join("packaging/helm/cofferdam");
    let mut helm = Command::new(format!("{}/helm", parts.trim()));
    // `kubectl apply` would run the chart's test at once.
    helm.args(["template", "cofferdam", "--namespace", "cofferdam"])
        .args(["--skip-tests", "--values"])
        .arg(chart.join("ci/plain-values.yaml"))
        .arg(&chart)
        .env_remove("KUBECONFIG");
    let text = output(&mut helm)?;
    let text = format!("{HEAD}{}", text.trim_start_matches("---\n"));
    let path = tree::root().join("etc/kubernetes.yaml");
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn output(command: &mut Command) -> Result<String> {
    let out = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !out.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    String::from_utf8(out.stdout).context("its output is not UTF-8")
}
