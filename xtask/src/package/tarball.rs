//! The archive for hosts without a package manager that we support: one static program and its
//! files, to be unpacked below /usr/local.

use super::build::{BuildProducts, Release};
use super::layout::{Layout, entries, fleet};
use super::stage;
use crate::run::check;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the archive in `folder`, and returns its path.
pub fn make(built: &BuildProducts, release: &Release, folder: &Path) -> Result<PathBuf> {
    let name = format!("cofferdam-{}-x86_64-linux", release.version);
    let stage = folder.join("tarball");
    stage::fresh(&stage)?;
    let prefix = Path::new("/usr/local");
    let layout = Layout::archive(prefix);
    let mut all = entries(&layout, built, release)?;
    all.push(fleet(&layout, built));
    stage::write(&all, &stage)?;
    let top = stage.join(&name);
    fs::rename(stage.join("usr/local"), &top)
        .with_context(|| format!("cannot make {}", top.display()))?;
    let archive = folder.join(format!("{name}.tar.gz"));
    pack(
        &stage,
        &[&name],
        release.epoch_s,
        &archive.with_extension(""),
    )?;
    stage::compress(&archive.with_extension(""))?;
    Ok(archive)
}

/// Packs `names` of `folder` into the archive `to`: sorted, owned by root, and with one time.
pub fn pack(folder: &Path, names: &[&str], epoch_s: u64, to: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    command
        .args([
            "--format=gnu",
            "--sort=name",
            "--owner=root:0",
            "--group=root:0",
        ])
        .arg(format!("--mtime=@{epoch_s}"))
        .arg("--directory")
        .arg(folder)
        .arg("--create")
        .arg("--file")
        .arg(to)
        .args(names);
    check(command)
}
