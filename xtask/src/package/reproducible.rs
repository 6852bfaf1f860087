//! Check that two builds of the same commit have the same bytes.

use super::build::{Linkage, Release, build, target};
use super::{deb, stage, tarball};
use crate::tree;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the package and the archive, or the products that `only` names, a second time, and
/// compares them with the first. The second build uses a copy of the sources elsewhere, and nothing
/// built before.
pub fn check(only: &[String]) -> Result<()> {
    let linkages = linkages(only)?;
    let release = Release::of(tree::root())?;
    if release
        .commit
        .as_ref()
        .is_some_and(|c| c.ends_with("-dirty"))
    {
        bail!("there are uncommitted changes: commit them first, a copy of the commit is built");
    }
    let target = target()?;
    let elsewhere = target.join("reproducible");
    let (sources, other) = (elsewhere.join("sources"), elsewhere.join("target"));
    stage::fresh(&elsewhere)?;
    copy_of_the_commit(&sources)?;
    let mut differ = Vec::new();
    for linkage in linkages {
        let ours = artifact(
            tree::root(),
            &target,
            &target.join("package"),
            linkage,
            &release,
        )?;
        let theirs = artifact(
            &sources,
            &other,
            &elsewhere.join("package"),
            linkage,
            &release,
        )?;
        if Release::of(tree::root())?.commit != release.commit {
            bail!(
                "the sources were changed while they were built: try again, and leave them alone"
            );
        }
        for (a, b) in ours.iter().zip(&theirs) {
            let name = a.file_name().unwrap_or_default().to_string_lossy();
            match fs::read(a)? == fs::read(b)? {
                true => println!("same bytes: {name}"),
                false => differ.push(format!("{} and {}", a.display(), b.display())),
            }
        }
    }
    if !differ.is_empty() {
        bail!("not the same bytes: {}", differ.join("; "));
    }
    // Gigabytes without further use.
    fs::remove_dir_all(&elsewhere).with_context(|| format!("cannot remove {}", elsewhere.display()))
}

fn linkages(only: &[String]) -> Result<Vec<Linkage>> {
    let all = [("deb", Linkage::Dynamic), ("tarball", Linkage::Static)];
    if let Some(other) = only.iter().find(|o| !all.iter().any(|(name, _)| name == o)) {
        bail!("'{other}' is none of deb, tarball");
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| o == name);
    let chosen = all.into_iter().filter(|(name, _)| wanted(name));
    Ok(chosen.map(|(_, linkage)| linkage).collect())
}

/// Files to compare: the program first, since it shows best why a package differs.
fn artifact(
    root: &Path,
    target: &Path,
    folder: &Path,
    linkage: Linkage,
    release: &Release,
) -> Result<Vec<PathBuf>> {
    let built = build(root, target, linkage, release)?;
    fs::create_dir_all(folder)?;
    let mut all = vec![
        built.binary.clone(),
        built.fleet.clone(),
        built.sbom.clone(),
    ];
    all.extend(built.library.clone());
    all.extend(built.preload.clone());
    match linkage {
        Linkage::Dynamic => {
            let depends = deb::depends(&built.programs(), folder)?;
            all.push(deb::make(&built, release, &depends, folder)?);
            let depends = deb::depends(&[&built.fleet], folder)?;
            all.push(deb::make_fleet(&built, release, &depends, folder)?);
        }
        Linkage::Static => all.push(tarball::make(&built, release, folder)?),
    }
    Ok(all)
}

fn copy_of_the_commit(to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let archive = to.with_extension("tar");
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(tree::root())
        .args(["archive", "--format=tar", "--output"])
        .arg(&archive)
        .arg("HEAD");
    crate::run::check(git)?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(to);
    crate::run::check(tar)
}
