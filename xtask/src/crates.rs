//! Packaging of the crates that others may depend on: each is packaged, and built from its package.

use crate::run::{cargo, check};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Packages all, in an order in which each finds the packages that it needs.
pub fn crates() -> Result<()> {
    let output = cargo(&["metadata", "--locked", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata failed");
    let metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let names = published(&metadata);
    ensure!(!names.is_empty(), "no crate has `publish = true`");
    let mut package = cargo(&["package", "--locked"]);
    package.args(names.iter().flat_map(|name| ["--package", name]));
    check(package)
}

/// Crates that may be published: `publish` does not restrict them to a list of registries.
fn published(metadata: &Value) -> Vec<&str> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter(|package| package["publish"].is_null())
        .filter_map(|package| package["name"].as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unpublished_crates_are_left_out() {
        let metadata = json!({ "packages": [
            { "name": "ours", "publish": [] },
            { "name": "everybodys", "publish": null },
        ] });
        assert_eq!(published(&metadata), ["everybodys"]);
        assert_eq!(published(&json!({})), [""; 0]);
    }
}
