//! Manifests of our own crates.

use super::packages;
use crate::tree;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;

/// Places that state the oldest compiler in prose or in shell, with the text before its version.
const STATEMENTS: [(&str, &str); 3] = [
    ("scripts/setup", "rust_minimum="),
    ("README.md", "Rust "),
    ("docs/src/guide/install.md", "Rust "),
];

/// Fields of a manifest that a registry shows.
const FIELDS: [&str; 4] = ["description", "license", "repository", "readme"];

/// Lists of a manifest that a registry searches.
const LISTS: [&str; 2] = ["keywords", "categories"];

/// Most entries that crates.io takes in a list.
const MOST_ENTRIES: usize = 5;

/// Manifests that lack what a registry shows, and statements of the oldest compiler that differ.
pub fn faults(metadata: &Value) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let oldest = oldest_compiler(&tree::read(Path::new("Cargo.toml"))?)?;
    for package in packages(metadata) {
        faults.extend(match package["source"].is_null() {
            true => faults_of_ours(package, &oldest),
            false => faults_of_compiler(package, &oldest),
        });
    }
    for (file, before) in STATEMENTS {
        faults.extend(fault_of_statement(
            file,
            &tree::read(Path::new(file))?,
            before,
            &oldest,
        ));
    }
    Ok(faults)
}

/// `rust-version` of the workspace.
fn oldest_compiler(manifest: &str) -> Result<String> {
    let manifest: toml::Table = toml::from_str(manifest).context("Cargo.toml")?;
    let workspace = manifest.get("workspace").and_then(|w| w.get("package"));
    let version = workspace.and_then(|p| p.get("rust-version")?.as_str());
    version
        .map(str::to_owned)
        .context("Cargo.toml has no workspace.package.rust-version")
}

/// A crate of the workspace has the workspace's compiler; one that may be published has all fields.
fn faults_of_ours(package: &Value, oldest: &str) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let mut faults = Vec::new();
    if package["rust_version"].as_str() != Some(oldest) {
        faults.push(format!(
            "{name}: rust-version is not the workspace's {oldest}"
        ));
    }
    if package["publish"].is_array() {
        return faults;
    }
    let is_empty = |key: &&&str| package[**key].as_str().unwrap_or_default().is_empty();
    let missing = FIELDS.iter().filter(is_empty);
    faults.extend(missing.map(|key| format!("{name}: its manifest has no {key}")));
    for key in LISTS {
        let entries = package[key].as_array().map_or(0, Vec::len);
        if !(1..=MOST_ENTRIES).contains(&entries) {
            faults.push(format!(
                "{name}: its manifest has {entries} {key}, not 1 to {MOST_ENTRIES}"
            ));
        }
    }
    faults
}

/// No dependency needs a newer compiler than the workspace.
fn faults_of_compiler(package: &Value, oldest: &str) -> Vec<String> {
    let Some(needed) = package["rust_version"].as_str() else {
        return Vec::new();
    };
    let name = package["name"].as_str().unwrap_or_default();
    let is_newer = numbers(needed) > numbers(oldest);
    let fault = format!("{name} needs Rust {needed}, and Cargo.toml promises {oldest}");
    is_newer.then_some(fault).into_iter().collect()
}

/// `1.88` and `1.88.0` are the same.
fn numbers(version: &str) -> [u32; 3] {
    let mut numbers = [0; 3];
    for (number, part) in numbers.iter_mut().zip(version.split('.')) {
        *number = part.parse().unwrap_or(0);
    }
    numbers
}

fn fault_of_statement(file: &str, text: &str, before: &str, oldest: &str) -> Option<String> {
    let versions = text.match_indices(before).filter_map(|(at, _)| {
        let rest = text.get(at + before.len()..)?;
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let version = rest.get(..end.unwrap_or(rest.len()))?.trim_end_matches('.');
        (!version.is_empty()).then_some(version)
    });
    let stated: Vec<&str> = versions.collect();
    let is_right = !stated.is_empty() && stated.iter().all(|version| *version == oldest);
    let found = stated.join(" and ");
    (!is_right).then(|| format!("{file} states Rust \"{found}\", and Cargo.toml {oldest}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ours() -> Value {
        json!({
            "name": "ours",
            "source": null,
            "publish": null,
            "rust_version": "1.88",
            "description": "a crate",
            "license": "Apache-2.0",
            "repository": "https://example.com",
            "readme": "README.md",
            "keywords": ["network"],
            "categories": ["network-programming"],
        })
    }

    /// Promise 80.
    #[test]
    fn a_crate_to_publish_has_all_that_a_registry_shows() {
        assert_eq!(faults_of_ours(&ours(), "1.88"), [""; 0]);
        for key in FIELDS.iter().chain(&LISTS) {
            let mut package = ours();
            package[*key] = Value::Null;
            let found = faults_of_ours(&package, "1.88");
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(key), "{found:?}");
            package["publish"] = json!([]);
            assert_eq!(faults_of_ours(&package, "1.88"), [""; 0]);
        }
    }

    /// Promise 80.
    #[test]
    fn the_oldest_compiler_is_one_everywhere() {
        let manifest = "[workspace.package]\nrust-version = \"1.88\"\n";
        assert_eq!(oldest_compiler(manifest).unwrap(), "1.88");
        assert_eq!(faults_of_ours(&ours(), "1.90").len(), 1);
        let dependency = |version: &str| json!({ "name": "d", "rust_version": version });
        assert_eq!(faults_of_compiler(&dependency("1.88.0"), "1.88"), [""; 0]);
        assert_eq!(faults_of_compiler(&dependency("1.9"), "1.88"), [""; 0]);
        assert_eq!(faults_of_compiler(&dependency("1.88.1"), "1.88").len(), 1);
        let fault = |text: &str| fault_of_statement("README.md", text, "Rust ", "1.88");
        assert_eq!(fault("Rust 1.88 or newer. Rust is needed."), None);
        assert!(fault("Rust 1.87.").is_some());
        assert!(fault("Rust is needed.").is_some());
    }
}
