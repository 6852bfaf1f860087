//! Tracked files of the repository.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most lines of a source file: a longer one has more than one concern.
const LONGEST_LINES: usize = 800;

/// Root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Tracked files, and new ones that are not ignored, whose names end in one of `endings`.
pub fn files(endings: &[&str]) -> Result<Vec<PathBuf>> {
    let list = [
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--deduplicate",
    ];
    let out = Command::new("git")
        .arg("-C")
        .arg(root())
        .args(list)
        .output();
    let out = out.context("cannot run git; is it installed?")?;
    if !out.status.success() {
        bail!(
            "git ls-files failed: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    let text = String::from_utf8(out.stdout).context("a file name is not UTF-8")?;
    let wanted = text
        .lines()
        .filter(|name| endings.iter().any(|e| name.ends_with(e)));
    // A file that was removed but not yet committed is still listed.
    Ok(wanted
        .map(PathBuf::from)
        .filter(|name| root().join(name).exists())
        .collect())
}

/// Reads a file of the repository.
pub fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(root().join(file))
        .with_context(|| format!("cannot read {}", file.display()))
}

/// Fails when a source file is too long.
pub fn lengths() -> Result<()> {
    let mut long = Vec::new();
    for file in files(&[".rs", ".c", ".h", ".sh", ".js", ".css"])? {
        let lines = read(&file)?.lines().count();
        if lines > LONGEST_LINES {
            long.push(format!("{} ({lines})", file.display()));
        }
    }
    if !long.is_empty() {
        bail!(
            "longer than {LONGEST_LINES} lines, split them: {}",
            long.join(", ")
        );
    }
    Ok(())
}
