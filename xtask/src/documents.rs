//! Documents that promise what does not exist are defects.

use crate::tree;
use anyhow::{Result, bail};
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
}
