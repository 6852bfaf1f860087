//! The OCI image: the static program and nothing else, built from packaging/Containerfile.

use super::build::{BuildProducts, Release};
use super::stage;
use crate::run::check;
use crate::tree;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the image for podman.
pub const NAME: &str = "localhost/cofferdam";

/// Builds the image and saves it in `folder` as an OCI archive; returns its path.
pub fn make(built: &BuildProducts, release: &Release, folder: &Path) -> Result<PathBuf> {
    let context = folder.join("image");
    stage::fresh(&context)?;
    let bin = context.join("rootfs/usr/bin");
    fs::create_dir_all(&bin)?;
    fs::create_dir_all(context.join("rootfs/etc/cofferdam"))?;
    fs::copy(&built.binary, bin.join("cofferdam")).context("cannot copy the program")?;
    fs::set_permissions(bin.join("cofferdam"), fs::Permissions::from_mode(0o755))?;
    // Names of users for programs that look them up; the image has no other.
    fs::write(
        context.join("rootfs/etc/passwd"),
        "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n\
         gateway:x:64242:64242:gateway:/:/sbin/nologin\n",
    )?;
    fs::write(
        context.join("rootfs/etc/group"),
        "root:x:0:\nnogroup:x:65534:\ngateway:x:64242:\n",
    )?;
    let documents = context.join("rootfs/usr/share/doc/cofferdam");
    fs::create_dir_all(&documents)?;
    fs::copy(&built.sbom, documents.join("cofferdam.cdx.json"))?;
    fs::copy(
        tree::root().join("packaging/debian/copyright"),
        documents.join("copyright"),
    )?;
    stage::date(&context, release.epoch_s)?;
    let tag = format!("{NAME}:{}", release.version);
    let mut command = Command::new("podman");
    command
        .args(["build", "--quiet", "--pull=never", "--network=none"])
        .arg(format!("--timestamp={}", release.epoch_s))
        .arg("--build-arg")
        .arg(format!("VERSION={}", release.version))
        .arg("--build-arg")
        .arg(format!(
            "REVISION={}",
            release.commit.as_deref().unwrap_or("unknown")
        ))
        .args(["--tag", &tag])
        .arg("--file")
        .arg(tree::root().join("packaging/Containerfile"))
        .arg(&context);
    check(command)?;
    let archive = folder.join(format!("cofferdam-{}-image.tar", release.version));
    if archive.exists() {
        // podman adds to an existing archive.
        fs::remove_file(&archive)?;
    }
    let mut command = Command::new("podman");
    command
        .args(["save", "--quiet", "--format", "oci-archive", "--output"])
        .arg(&archive)
        .arg(&tag);
    check(command)?;
    Ok(archive)
}

/// Id of the image: the digest of its configuration, which names its layers.
pub fn id(release: &Release) -> Result<String> {
    let tag = format!("{NAME}:{}", release.version);
    let out = Command::new("podman")
        .args(["image", "inspect", "--format", "{{.Id}}", &tag])
        .output()
        .context("cannot run podman")?;
    if !out.status.success() {
        bail!("podman has no image {tag}");
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
