//! Bill of materials: CycloneDX 1.5 in JSON, from Cargo.lock and cargo's own resolution.

use super::build::{Linkage, Release, TARGET};
use crate::run::cargo;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Debian packages whose archives a static program contains.
const LINKED_IN: [&str; 3] = ["libc6-dev", "libelf-dev", "zlib1g-dev"];

/// Packages whose libraries are installed next to the program, unless that is static.
const LIBRARIES: [&str; 1] = ["cofferdam-preload"];

/// Writes the bill of materials of the program that is built from `root`.
pub fn write(root: &Path, release: &Release, linkage: Linkage, to: &Path) -> Result<()> {
    let metadata = metadata(root)?;
    let lock =
        std::fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let (linked, libraries) = match linkage {
        Linkage::Dynamic => (Vec::new(), &LIBRARIES[..]),
        Linkage::Static => (linked_in()?, &[][..]),
    };
    let document = document(&metadata, &checksums(&lock), &linked, libraries, release)?;
    let text = serde_json::to_string_pretty(&document)? + "\n";
    std::fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
}

fn metadata(root: &Path) -> Result<Value> {
    let words = ["metadata", "--locked", "--format-version", "1"];
    let out = cargo(&words)
        .args(["--filter-platform", TARGET])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    if !out.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    serde_json::from_slice(&out.stdout).context("cargo metadata is not JSON")
}

/// SHA-256 of each crate's archive, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let mut lines = package.lines();
            let line = lines.find_map(|l| l.strip_prefix(key)?.strip_prefix(" = "));
            line.map(|v| v.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (value("name"), value("version"), value("checksum"))
        {
            found.insert((name, version), checksum);
        }
    }
    found
}

/// Versions of [`LINKED_IN`] on this machine.
fn linked_in() -> Result<Vec<(String, String)>> {
    let out = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${Version}\\n"])
        .args(LINKED_IN)
        .output()
        .context("cannot run dpkg-query: a static program is built on Debian or Ubuntu")?;
    let text = String::from_utf8(out.stdout).context("dpkg-query's answer is not UTF-8")?;
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let found: Vec<_> = pairs
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect();
    if found.len() != LINKED_IN.len() {
        bail!("not all of {} are installed", LINKED_IN.join(", "));
    }
    Ok(found)
}

/// Packages that `root` needs: `true` for parts of the program, `false` for packages that only
/// build it.
fn needed(metadata: &Value, root: &str) -> BTreeMap<String, bool> {
    let empty = Vec::new();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap_or(&empty);
    let by_id: BTreeMap<&str, &Value> = nodes
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let mut found = BTreeMap::new();
    let mut open = vec![(root.to_owned(), true)];
    while let Some((id, part)) = open.pop() {
        match found.get(&id) {
            // The dependencies of a part have been followed already.
            Some(true) => continue,
            Some(false) if !part => continue,
            _ => found.insert(id.clone(), part),
        };
        let deps = by_id.get(id.as_str()).and_then(|n| n["deps"].as_array());
        for dep in deps.unwrap_or(&empty) {
            let kinds = dep["dep_kinds"].as_array().unwrap_or(&empty);
            let is = |kind: &str| kinds.iter().any(|k| k["kind"].as_str() == Some(kind));
            let normal = kinds.iter().any(|k| k["kind"].is_null());
            let Some(id) = dep["pkg"].as_str() else {
                continue;
            };
            if normal || is("build") {
                open.push((id.to_owned(), part && normal));
            }
        }
    }
    found
}

fn document(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
    linked: &[(String, String)],
    libraries: &[&str],
    release: &Release,
) -> Result<Value> {
    let packages = metadata["packages"].as_array().context("no packages")?;
    let id_of = |name: &str| {
        let package = packages.iter().find(|p| p["name"] == name);
        package.and_then(|p| p["id"].as_str()).map(str::to_owned)
    };
    let root = id_of("cofferdam").context("no package cofferdam")?;
    let mut parts = needed(metadata, &root);
    for name in libraries {
        let library = id_of(name).with_context(|| format!("no package {name}"))?;
        for (id, part) in needed(metadata, &library) {
            *parts.entry(id).or_insert(part) |= part;
        }
    }
    let mut components = Vec::new();
    let mut reference = BTreeMap::new();
    for package in packages {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let Some(part) = parts.get(&text("id")) else {
            continue;
        };
        let (name, version) = (text("name"), text("version"));
        let purl = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
        reference.insert(text("id"), purl.clone());
        if text("id") == root {
            continue;
        }
        let mut component = json!({
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "scope": if *part { "required" } else { "excluded" },
            "purl": purl,
        });
        if let Some(license) = package["license"].as_str() {
            // The old form of a choice on crates.io.
            let expression = license.replace('/', " OR ");
            component["licenses"] = json!([{ "expression": expression }]);
        }
        if let Some(checksum) = checksums.get(&(name, version)) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        components.push(component);
    }
    for (name, version) in linked {
        let purl = format!("pkg:deb/debian/{name}@{version}?arch=amd64");
        components.push(json!({
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "scope": "required",
            "purl": purl,
        }));
    }
    let order = |c: &Value| c["bom-ref"].as_str().unwrap_or_default().to_owned();
    components.sort_by_key(order);
    let own = &reference[&root];
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time(release.epoch_s),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "cofferdam",
                "version": release.version,
                "licenses": [{ "expression": "Apache-2.0" }],
                "purl": own,
            },
        },
        "components": components,
        "dependencies": dependencies(metadata, &reference),
    }))
}

/// Dependencies of each package, among those in `reference`.
fn dependencies(metadata: &Value, reference: &BTreeMap<String, String>) -> Vec<Value> {
    let empty = Vec::new();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap_or(&empty);
    let mut all = BTreeMap::new();
    for node in nodes {
        let Some(own) = node["id"].as_str().and_then(|id| reference.get(id)) else {
            continue;
        };
        let deps = node["dependencies"].as_array().unwrap_or(&empty);
        let on: BTreeSet<&String> = deps
            .iter()
            .filter_map(|id| reference.get(id.as_str()?))
            .collect();
        all.insert(own, on);
    }
    all.into_iter()
        .map(|(own, on)| json!({ "ref": own, "dependsOn": on }))
        .collect()
}

fn time(epoch_s: u64) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(epoch_s);
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    fn release() -> Release {
        Release {
            version: "0.1.0".to_owned(),
            epoch_s: 1_700_000_000,
            commit: None,
        }
    }

    /// Promise 79.
    #[test]
    fn every_crate_is_listed_once_with_its_checksum() {
        let lock = tree::read(Path::new("Cargo.lock")).unwrap();
        let metadata = metadata(tree::root()).unwrap();
        let linked = [("libelf-dev".to_owned(), "0.188-2.1".to_owned())];
        let sums = checksums(&lock);
        let document = document(&metadata, &sums, &linked, &LIBRARIES, &release()).unwrap();
        let components = document["components"].as_array().unwrap();
        let refs: BTreeSet<&str> = components
            .iter()
            .map(|c| c["bom-ref"].as_str().unwrap())
            .collect();
        assert_eq!(refs.len(), components.len(), "each once");
        let find = |name: &str| components.iter().find(|c| c["name"] == name);
        let libbpf = find("libbpf-rs").expect("it is part of the program");
        assert_eq!(libbpf["scope"], "required");
        assert_eq!(libbpf["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert_eq!(find("libbpf-cargo").unwrap()["scope"], "excluded");
        assert!(find("proptest").is_none(), "only tests use it");
        assert!(find("cofferdam-packetdrill-shim").is_none());
        assert_eq!(find("cofferdam-preload").unwrap()["scope"], "required");
        assert!(find("cofferdam-bsd").is_some(), "a part of that library");
        assert_eq!(find("libelf-dev").unwrap()["version"], "0.188-2.1");
        let foreign = components
            .iter()
            .filter(|c| !c["name"].as_str().unwrap().starts_with("cofferdam-"));
        for component in foreign.filter(|c| c["purl"].as_str().unwrap().contains("cargo")) {
            assert!(component["hashes"].is_array(), "{component}");
            let license = component["licenses"][0]["expression"].as_str();
            assert!(license.is_some_and(|l| !l.contains('/')), "{component}");
        }
        let own = document["metadata"]["component"]["bom-ref"].as_str();
        assert_eq!(own, Some("pkg:cargo/cofferdam@0.1.0"));
        for one in document["dependencies"].as_array().unwrap() {
            for on in one["dependsOn"].as_array().unwrap() {
                let on = on.as_str().unwrap();
                assert!(refs.contains(on) || Some(on) == own, "{on} is not listed");
            }
        }
        assert_eq!(document["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    }
}
