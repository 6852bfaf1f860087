//! Checks of documents: a reference to something that does not exist is a defect.

use crate::tree;
use anyhow::{Result, bail};
use std::path::Path;

/// Checks that every relative link of every document leads to a file.
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

/// Checks that every page of the book that another file names exists.
pub fn mentions() -> Result<()> {
    let mut wrong = Vec::new();
    for file in tree::files(&MENTIONING)? {
        let text = tree::read(&file)?;
        for page in pages(&text).filter(|page| !tree::root().join(page).exists()) {
            wrong.push(format!("{} names {page}", file.display()));
        }
    }
    if !wrong.is_empty() {
        bail!("documents that do not exist: {}", wrong.join(", "));
    }
    Ok(())
}

/// Endings of files that name pages: sources, configurations and scripts.
const MENTIONING: [&str; 12] = [
    ".rs", ".c", ".h", ".yaml", ".yml", ".toml", ".json", ".service", ".tpl", ".txt", "setup",
    "Makefile",
];

/// Pages that `text` names by their path in the source tree.
fn pages(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("docs/src/").filter_map(|(at, _)| {
        let rest = &text[at..];
        let fits = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches('.');
        name.ends_with(".md").then_some(name)
    })
}

/// Targets of `[text](target)`, without anchors; other sites and anchors alone are left out.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
        let elsewhere = target.contains("://") || target.starts_with("mailto:");
        (!target.is_empty() && !elsewhere).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_a_file_names_are_found() {
        // Put together, because this file is checked too.
        let text = "# DOCS/a.md says; file:///x/DOCS/b/c.md#d, DOCS/images and DOCS/e.md.";
        let text = text.replace("DOCS", concat!("docs", "/src"));
        let found: Vec<&str> = pages(&text)
            .filter_map(|p| p.split("src/").nth(1))
            .collect();
        assert_eq!(found, ["a.md", "b/c.md", "e.md"]);
    }

    /// Promise 80.
    #[test]
    fn links_to_files_are_found() {
        let text = "[a](b.md) [c](https://d) ![e](f.svg#g) [h](#i) [j](k/l.md \"title\")";
        assert_eq!(
            targets(text).collect::<Vec<_>>(),
            ["b.md", "f.svg", "k/l.md"]
        );
    }
}
