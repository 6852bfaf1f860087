//! Documents that promise what does not exist are defects.

use crate::tree;
use anyhow::{Context, Result, bail};
use std::path::Path;

/// Every relative link of every document leads to a file.
pub fn links() -> Result<()> {
    let mut broken = Vec::new();
    for document in tree::files(&[".md"])? {
        let text = tree::read(&document)?;
        let folder = tree::root().join(document.parent().unwrap_or(Path::new("")));
        for target in targets(&text) {
            if !folder.join(target).exists() {
                broken.push(format!("{} -> {target}", document.display()));
            }
        }
    }
    if !broken.is_empty() {
        bail!("links that lead nowhere: {}", broken.join(", "));
    }
    Ok(())
}

/// Targets of `[text](target)`, without anchors; other sites and anchors alone are left out.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
        let elsewhere = target.contains("://") || target.starts_with("mailto:");
        (!target.is_empty() && !elsewhere).then_some(target)
    })
}

/// The documents that name a test for each promise.
const PROMISES: [&str; 2] = ["SPECIFICATION.md", "docs/src/security.md"];

/// Every test that [`PROMISES`] name, as `` `crate::name` `` in a table's last column, is a function
/// somewhere in the tree.
pub fn specification() -> Result<()> {
    let mut text = String::new();
    for file in PROMISES {
        text.push_str(&tree::read(Path::new(file))?);
    }
    let mut source = String::new();
    for file in tree::files(&[".rs"])? {
        source.push_str(&tree::read(&file)?);
    }
    let named: Vec<&str> = text.lines().flat_map(tests).collect();
    let missing: Vec<&str> = named
        .iter()
        .copied()
        .filter(|name| !is_defined(&source, name))
        .collect();
    if !missing.is_empty() {
        bail!(
            "{} name tests that do not exist: {}",
            PROMISES.join(" and "),
            missing.join(", ")
        );
    }
    named
        .first()
        .map(|_| ())
        .context("SPECIFICATION.md names no test")
}

fn tests(row: &str) -> impl Iterator<Item = &str> {
    let cell = row
        .strip_prefix('|')
        .and_then(|r| r.trim_end().strip_suffix('|'));
    let last = cell.and_then(|r| r.rsplit('|').next()).unwrap_or_default();
    last.split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| name.contains("::"))
}

fn is_defined(source: &str, name: &str) -> bool {
    let function = name.rsplit("::").next().unwrap_or(name);
    source.contains(&format!("fn {function}("))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found() {
        let text = "[a](b.md) [c](https://d) ![e](f.svg#g) [h](#i) [j](k/l.md \"title\")";
        assert_eq!(
            targets(text).collect::<Vec<_>>(),
            ["b.md", "f.svg", "k/l.md"]
        );
    }

    #[test]
    fn tests_are_read_from_the_last_column_only() {
        let row = "| `std::fs` is promised | `host::a`, `cli::b` |";
        assert_eq!(tests(row).collect::<Vec<_>>(), ["host::a", "cli::b"]);
        assert_eq!(tests("`cli::b` in a sentence").count(), 0);
    }

    #[test]
    fn a_test_is_defined_by_its_function() {
        assert!(is_defined("fn a_b() {", "cli::a_b"));
        assert!(!is_defined("fn a_bc() {", "cli::a_b"));
    }
}
