//! Licences, duplicates and sources of dependencies.

use super::{license, packages};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value as Setting};

/// Registry that dependencies may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Dependencies that break the policy, and settings of the policy that apply to no dependency.
pub fn faults(policy: &Table, metadata: &Value) -> Result<Vec<String>> {
    let is_denied = |section: &str, key: &str| {
        let setting = policy.get(section).and_then(|s| s.get(key));
        setting.and_then(Setting::as_str) == Some("deny")
    };
    ensure!(
        is_denied("bans", "multiple-versions")
            && is_denied("sources", "unknown-registry")
            && is_denied("sources", "unknown-git"),
        "deny.toml has no \"deny\" for duplicates or for other sources"
    );
    let mut faults = licenses(policy, metadata)?;
    faults.extend(duplicates(policy, metadata)?);
    faults.extend(sources(metadata));
    Ok(faults)
}

fn licenses(policy: &Table, metadata: &Value) -> Result<Vec<String>> {
    let allowed: BTreeSet<&str> = list(policy, "licenses", "allow")
        .filter_map(Setting::as_str)
        .collect();
    let mut exceptions = BTreeMap::new();
    for exception in list(policy, "licenses", "exceptions") {
        let name = exception.get("crate").and_then(Setting::as_str);
        let names = exception.get("allow").and_then(Setting::as_array);
        let names: BTreeSet<&str> = names
            .into_iter()
            .flatten()
            .filter_map(Setting::as_str)
            .collect();
        ensure!(name.is_some(), "an exception of deny.toml names no crate");
        exceptions.insert(name.unwrap_or_default(), names);
    }
    let mut faults = Vec::new();
    for package in packages(metadata) {
        let name = text(package, "name");
        let extra = exceptions.remove(name).unwrap_or_default();
        let expression = text(package, "license");
        let is_allowed = |license: &str| allowed.contains(license) || extra.contains(license);
        match license::is_satisfied(expression, &is_allowed) {
            Ok(true) => {}
            Ok(false) => faults.push(format!("{name}: the licence {expression} is not allowed")),
            Err(e) => faults.push(format!("{name}: {e}")),
        }
    }
    let unused = exceptions.into_keys();
    faults.extend(unused.map(|name| format!("deny.toml excepts {name}, which is no dependency")));
    Ok(faults)
}

fn duplicates(policy: &Table, metadata: &Value) -> Result<Vec<String>> {
    let mut skipped = BTreeSet::new();
    for skip in list(policy, "bans", "skip") {
        let get = |key: &str| skip.get(key).and_then(Setting::as_str).unwrap_or_default();
        ensure!(
            !get("reason").is_empty(),
            "deny.toml skips {} without a reason",
            get("crate")
        );
        skipped.insert(get("crate").to_owned());
    }
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages(metadata) {
        if !skipped.remove(&format!(
            "{}@{}",
            text(package, "name"),
            text(package, "version")
        )) {
            let of_name = versions.entry(text(package, "name")).or_default();
            of_name.push(text(package, "version"));
        }
    }
    let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
    let mut faults: Vec<String> = several
        .map(|(name, versions)| format!("{name} is built in versions {}", versions.join(" and ")))
        .collect();
    faults.extend(
        skipped
            .into_iter()
            .map(|skip| format!("deny.toml skips {skip}, which is no dependency")),
    );
    Ok(faults)
}

fn sources(metadata: &Value) -> Vec<String> {
    let foreign = packages(metadata).filter_map(|package| {
        let source = package["source"].as_str()?;
        (source != REGISTRY).then(|| format!("{} comes from {source}", text(package, "name")))
    });
    foreign.collect()
}

fn list<'a>(policy: &'a Table, section: &str, key: &str) -> impl Iterator<Item = &'a Setting> {
    let list = policy.get(section).and_then(|section| section.get(key));
    list.and_then(Setting::as_array).into_iter().flatten()
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const POLICY: &str = "
        [licenses]
        allow = [\"MIT\"]
        exceptions = [{ crate = \"odd\", allow = [\"CC0-1.0\"] }]
        [bans]
        multiple-versions = \"deny\"
        skip = [{ crate = \"twice@1.0.0\", reason = \"an old user\" }]
        [sources]
        unknown-registry = \"deny\"
        unknown-git = \"deny\"
    ";

    fn package(name: &str, version: &str, license: &str) -> Value {
        json!({ "name": name, "version": version, "license": license, "source": REGISTRY })
    }

    /// Packages that the policy accepts, and `more`.
    fn faults_with(more: &[Value]) -> Vec<String> {
        let mut all = vec![
            package("odd", "1.0.0", "CC0-1.0"),
            package("twice", "1.0.0", "MIT"),
            package("twice", "2.0.0", "MIT"),
            json!({ "name": "ours", "version": "0.1.0", "license": "MIT", "source": null }),
        ];
        all.extend_from_slice(more);
        let policy = toml::from_str(POLICY).unwrap();
        faults(&policy, &json!({ "packages": all })).unwrap()
    }

    /// Promise 80.
    #[test]
    fn a_dependency_that_breaks_the_policy_is_named() {
        assert_eq!(faults_with(&[]), [""; 0]);
        let git = json!({ "name": "g", "version": "1.0.0", "license": "MIT", "source": "git+x" });
        for (package, words) in [
            (
                package("strange", "1.0.0", "GPL-3.0-only"),
                "GPL-3.0-only is not allowed",
            ),
            (
                package("strange", "1.0.0", "CC0-1.0"),
                "CC0-1.0 is not allowed",
            ),
            (package("strange", "1.0.0", ""), "ends too early"),
            (package("twice", "3.0.0", "MIT"), "versions 2.0.0 and 3.0.0"),
            (git, "g comes from git+x"),
        ] {
            let found = faults_with(&[package]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(words), "{found:?}");
        }
    }

    /// Promise 80.
    #[test]
    fn a_setting_for_no_dependency_is_named() {
        let policy = toml::from_str(POLICY).unwrap();
        let found = faults(&policy, &json!({ "packages": [] })).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        let lax = POLICY.replace("\"deny\"", "\"warn\"");
        let lax = toml::from_str(&lax).unwrap();
        assert!(faults(&lax, &json!({ "packages": [] })).is_err());
        let bare = POLICY.replace("an old user", "");
        let bare = toml::from_str(&bare).unwrap();
        assert!(faults(&bare, &json!({ "packages": [] })).is_err());
    }
}
