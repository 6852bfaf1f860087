//! helm and kubeconform, and their arguments.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

pub fn chart() -> PathBuf {
    root().join("packaging/helm/cofferdam")
}

/// Path of a program in the cache; the first call builds what is missing.
pub fn tool(name: &str) -> PathBuf {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    BIN.get_or_init(|| {
        let mut command = Command::new(root().join("scripts/kubernetes/build"));
        run(command.args(["helm", "kubeconform", "schemas"]))
            .trim()
            .into()
    })
    .join(name)
}

/// Path of Kubernetes' own description of its objects.
pub fn swagger() -> PathBuf {
    tool("../swagger.json")
}

/// Path of a program that `scripts/setup` puts below the build's folder, otherwise the name for
/// PATH.
pub fn from_setup(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let own = target
        .unwrap_or(root().join("target"))
        .join("tools")
        .join(name);
    if own.exists() { own } else { name.into() }
}

pub fn helm() -> Command {
    let mut command = Command::new(tool("helm"));
    // Without the user's settings and repositories.
    for variable in ["HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"] {
        command.env(variable, "/nonexistent");
    }
    command.env_remove("KUBECONFIG");
    command
}

/// Adds the files of values with these names in the chart's `ci`.
pub fn values(command: &mut Command, names: &[&str]) {
    for name in names {
        command
            .arg("--values")
            .arg(chart().join(format!("ci/{name}-values.yaml")));
    }
}

/// The only value without a default.
pub const IMAGE: &str = "image.repository=registry.test/cofferdam";

/// Rendering of the chart.
pub fn rendered(names: &[&str]) -> String {
    let mut command = helm();
    command.args(["template", "cofferdam", "--namespace", "cofferdam"]);
    values(&mut command, names);
    if names.is_empty() {
        command.args(["--set", IMAGE]);
    }
    // `kubectl apply` would run the chart's test at once.
    if names == ["plain"] {
        command.arg("--skip-tests");
    }
    run(command.arg(chart()))
}

/// Reason why helm refuses `--set SET`.
pub fn refusal(set: &str) -> String {
    let mut command = helm();
    let command = command
        .args(["template", "cofferdam", "--set", IMAGE, "--set", set])
        .arg(chart());
    let out = command.output().unwrap();
    assert!(!out.status.success(), "{set} was taken");
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Standard output of a command that must succeed.
pub fn run(command: &mut Command) -> String {
    let out = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success(),
        "{command:?}: {errors}{}",
        String::from_utf8_lossy(&out.stdout)
    );
    String::from_utf8(out.stdout).unwrap()
}
