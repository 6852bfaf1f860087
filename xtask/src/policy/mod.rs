//! Policy for dependencies and for the crates that others may depend on.
//!
//! `deny.toml` holds the policy in the format of cargo-deny. The checks read
//! `cargo metadata` alone: cargo-deny has hundreds of dependencies of its own.

mod dependencies;
mod license;
mod manifests;

use crate::run::cargo;
use crate::tree;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::Path;

/// Platform whose dependencies are checked.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Checks licences, duplicates and sources of all dependencies, and the manifests of our crates.
pub fn check() -> Result<()> {
    let policy = tree::read(Path::new("deny.toml"))?;
    let policy = toml::from_str(&policy).context("deny.toml")?;
    let metadata = metadata()?;
    let mut faults = dependencies::faults(&policy, &metadata)?;
    faults.extend(manifests::faults(&metadata)?);
    if !faults.is_empty() {
        bail!(
            "dependencies and manifests break the policy:\n{}",
            faults.join("\n")
        );
    }
    Ok(())
}

fn metadata() -> Result<Value> {
    let words = [
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        PLATFORM,
    ];
    let output = cargo(&words)
        .output()
        .context("cannot run cargo metadata")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        errors.trim()
    );
    serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")
}

/// Packages of the metadata.
fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}
