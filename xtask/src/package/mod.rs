//! Packages for users: `make install`, the Debian package, the static archive, the image.

mod build;
mod deb;
mod image;
pub mod install;
mod layout;
mod reproducible;
mod sbom;
mod stage;
mod tarball;
#[cfg(test)]
mod tests;

use crate::run::check;
use crate::tree;
use anyhow::{Result, bail};
use build::{Linkage, Release, build, target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest size of the program, MB.
const LARGEST_BINARY_MB: u64 = 25;
/// Largest size of the image, MB.
const LARGEST_IMAGE_MB: u64 = 40;

/// Folder of the packages: `target/package`.
fn folder() -> Result<PathBuf> {
    let folder = target()?.join("package");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Runs `make deb`.
pub fn deb() -> Result<()> {
    let (folder, release) = (folder()?, Release::of(tree::root())?);
    let built = build(tree::root(), &target()?, Linkage::Dynamic, &release)?;
    limit(&built.binary, LARGEST_BINARY_MB)?;
    let depends = deb::depends(&built.programs(), &folder)?;
    let package = deb::make(&built, &release, &depends, &folder)?;
    let depends = deb::depends(&[&built.fleet], &folder)?;
    let fleet = deb::make_fleet(&built, &release, &depends, &folder)?;
    println!("{}\n{}", package.display(), fleet.display());
    // Without --show-overrides: overridden remarks would count as failures then.
    let mut lintian = Command::new("lintian");
    lintian
        .args(["--fail-on", "error,warning", "--tag-display-limit", "0"])
        .args([&package, &fleet]);
    if nix::unistd::geteuid().is_root() {
        lintian.arg("--allow-root");
    }
    check(lintian)
}

/// Runs `make tarball`.
pub fn tarball() -> Result<()> {
    let (folder, release) = (folder()?, Release::of(tree::root())?);
    let built = build(tree::root(), &target()?, Linkage::Static, &release)?;
    limit(&built.binary, LARGEST_BINARY_MB)?;
    let archive = tarball::make(&built, &release, &folder)?;
    println!("{}", archive.display());
    Ok(())
}

/// Runs `make image`.
pub fn image() -> Result<()> {
    let (folder, release) = (folder()?, Release::of(tree::root())?);
    let built = build(tree::root(), &target()?, Linkage::Static, &release)?;
    let archive = image::make(&built, &release, &folder)?;
    limit(&archive, LARGEST_IMAGE_MB)?;
    println!("{} ({})", archive.display(), image::id(&release)?);
    Ok(())
}

/// Runs `make reproducible`.
pub fn reproducible(only: &[String]) -> Result<()> {
    reproducible::check(only)
}

/// Runs `make test-package`: builds the package, and installs, runs, upgrades and purges it in a
/// clean root.
pub fn life() -> Result<()> {
    deb()?;
    let (folder, release) = (folder()?, Release::of(tree::root())?);
    let sbom = folder.join("dynamic/cofferdam.cdx.json");
    let mut schema = Command::new(tree::root().join("scripts/check-sbom"));
    schema.arg(sbom);
    check(schema)?;
    let package = |name: &str| {
        let file = format!("{name}_{}_{}.deb", release.version, deb::ARCHITECTURE);
        folder.join(file)
    };
    let script = tree::root().join("scripts/test-package");
    let mut command = match crate::run::as_root().split_first() {
        None => Command::new(&script),
        Some((sudo, options)) => {
            let mut command = Command::new(sudo);
            command.args(options).arg(&script);
            command
        }
    };
    command.args([package("cofferdam"), package("cofferdam-fleet")]);
    check(command)
}

/// Fails when `file` is larger than `most_mb`.
fn limit(file: &Path, most_mb: u64) -> Result<()> {
    let bytes = std::fs::metadata(file)?.len();
    println!("{}: {:.1} MB", file.display(), bytes as f64 / 1e6);
    if bytes > most_mb * 1_000_000 {
        bail!("{} is larger than {most_mb} MB", file.display());
    }
    Ok(())
}
