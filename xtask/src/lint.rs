//! Checks of formatting and warnings.

use crate::run::{cargo, check};
use crate::{documents, figures, fuzz, nightly, policy, promises, prose, tree};
use anyhow::Result;
use std::process::Command;

/// The version that formats our C: others format differently with the same settings.
const CLANG_FORMAT: &str = "clang-format-14";

/// Checks everything that needs no run of the product, the cheapest first.
pub fn lint() -> Result<()> {
    check(cargo(&["fmt", "--all", "--check"]))?;
    clang_format(&["--dry-run", "--Werror"])?;
    tree::lengths()?;
    documents::links()?;
    documents::mentions()?;
    promises::check()?;
    figures::figures(&["--check".to_owned()])?;
    policy::check()?;
    nightly::check()?;
    prose::prose(&[])?;
    check(cargo(&[
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    check(fuzz::compiles())?;
    let mut doc = cargo(&[
        "doc",
        "--locked",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]);
    // The documentation is for readers of the source too: links to private items are fine.
    doc.env(
        "RUSTDOCFLAGS",
        "-D warnings -A rustdoc::private-intra-doc-links",
    );
    check(doc)
}

/// Formats all sources.
pub fn format() -> Result<()> {
    check(cargo(&["fmt", "--all"]))?;
    clang_format(&["-i"])
}

fn clang_format(arguments: &[&str]) -> Result<()> {
    let files = tree::files(&[".bpf.c", ".h"])?;
    if files.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(CLANG_FORMAT);
    command
        .arg("--style=file")
        .args(arguments)
        .args(files)
        .current_dir(tree::root());
    check(command)
}
