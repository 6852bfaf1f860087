//! Release builds, which yield the same bytes wherever the sources are.

use crate::run::{cargo, check};
use crate::tree;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Target of packaged builds.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Name of the library for C, as the linker uses it.
pub const LIBRARY: &str = "libcofferdam_dataplane.so";
/// Version of the library's binary interface: raised when programs have to be built again.
pub const LIBRARY_ABI: u32 = 0;
/// Name of the library that `dataplane exec` preloads.
pub const PRELOAD: &str = "libcofferdam_preload.so";

/// Linkage of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// Against the libraries of a Debian system.
    Dynamic,
    /// One file without any library: static-pie against the GNU C library.
    Static,
}

/// Products of a build.
#[derive(Clone, Debug)]
pub struct BuildProducts {
    /// Root of the sources, from which documents and configuration are taken too.
    pub sources: PathBuf,
    /// Path of the program.
    pub binary: PathBuf,
    /// Path of the program of `report fleet`.
    pub fleet: PathBuf,
    /// Path of the library for C; none in a static build.
    pub library: Option<PathBuf>,
    /// Path of the library that `dataplane exec` preloads; none in a static build.
    pub preload: Option<PathBuf>,
    /// Folder of manual pages.
    pub man: PathBuf,
    /// Folder of completions.
    pub completions: PathBuf,
    /// Path of the bill of materials.
    pub sbom: PathBuf,
}

impl BuildProducts {
    /// Files of the package `cofferdam` whose libraries it depends on.
    pub fn programs(&self) -> Vec<&Path> {
        std::iter::once(self.binary.as_path())
            .chain(self.library.as_deref())
            .chain(self.preload.as_deref())
            .collect()
    }
}

/// Version and time of a build, the same for all products of one commit.
#[derive(Clone, Debug)]
pub struct Release {
    /// Version of the workspace.
    pub version: String,
    /// Seconds since 1970: `SOURCE_DATE_EPOCH`, or the time of the commit.
    pub epoch_s: u64,
    /// Commit that `--version` names.
    pub commit: Option<String>,
}

impl Release {
    /// Release of the sources in `root`.
    pub fn of(root: &Path) -> Result<Release> {
        let manifest = std::fs::read_to_string(root.join("Cargo.toml"))
            .with_context(|| format!("cannot read {}/Cargo.toml", root.display()))?;
        Ok(Release {
            version: version(&manifest).context("Cargo.toml names no version")?,
            epoch_s: match environment("SOURCE_DATE_EPOCH") {
                Some(text) => text
                    .parse()
                    .with_context(|| format!("SOURCE_DATE_EPOCH '{text}' is not a number"))?,
                None => git(root, &["log", "-1", "--format=%ct"])
                    .and_then(|text| text.parse().ok())
                    .context("the commit has no time: set SOURCE_DATE_EPOCH")?,
            },
            commit: environment("COFFERDAM_COMMIT").or_else(|| commit(root)),
        })
    }
}

/// Value of `version` in `[workspace.package]`.
fn version(manifest: &str) -> Option<String> {
    let (_, table) = manifest.split_once("[workspace.package]")?;
    let line = table.lines().find_map(|l| l.strip_prefix("version = "))?;
    Some(line.trim_matches('"').to_owned())
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let out = command.arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| text.trim().to_owned())
}

fn commit(root: &Path) -> Option<String> {
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let clean = git(root, &["status", "--porcelain"])?.is_empty();
    Some(if clean {
        commit
    } else {
        format!("{commit}-dirty")
    })
}

/// Builds the program and the files that it generates, in `target`.
pub fn build(
    root: &Path,
    target: &Path,
    linkage: Linkage,
    release: &Release,
) -> Result<BuildProducts> {
    let flags = flags(root, target, linkage)?;
    let cargo = |arguments: &[&str]| {
        let mut command = cargo(arguments);
        command
            .args(["--locked", "--release", "--target", TARGET])
            .current_dir(root)
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
            .env("SOURCE_DATE_EPOCH", release.epoch_s.to_string());
        if let Some(commit) = &release.commit {
            command.env("COFFERDAM_COMMIT", commit);
        }
        command
    };
    // In sequence: built together, the program would have features of crates that only the query
    // engine needs, 2 MB of code.
    for package in ["cofferdam", "cofferdam-fleet"] {
        let mut command = cargo(&["rustc", "--bin", package, "--package", package]);
        command.arg("--").args(link(linkage));
        check(command)?;
    }
    let programs = target.join(TARGET).join("release");
    let folder = target.join("package").join(match linkage {
        Linkage::Dynamic => "dynamic",
        Linkage::Static => "static",
    });
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    // The two builds share the folder in which cargo leaves the program.
    let keep = |name: &str| -> Result<PathBuf> {
        let to = folder.join(name);
        std::fs::copy(programs.join(name), &to)
            .with_context(|| format!("cannot copy {name} to {}", to.display()))?;
        // Cargo does not strip crates that have an optimization level of their own.
        let mut strip = Command::new("strip");
        strip.arg("--strip-unneeded").arg(&to);
        check(strip)?;
        Ok(to)
    };
    let binary = keep("cofferdam")?;
    let fleet = keep("cofferdam-fleet")?;
    let library = match linkage {
        Linkage::Dynamic => {
            let soname = format!("-Clink-arg=-Wl,-soname,{LIBRARY}.{LIBRARY_ABI}");
            let kind = ["--lib", "--crate-type", "cdylib"];
            let mut command = cargo(&["rustc", "--package", "cofferdam-dataplane"]);
            command.args(kind).args(["--", &soname]);
            check(command)?;
            Some(keep(LIBRARY)?)
        }
        // A shared library is never static.
        Linkage::Static => None,
    };
    let preload = match linkage {
        Linkage::Dynamic => {
            check(cargo(&["build", "--package", "cofferdam-preload"]))?;
            Some(keep(PRELOAD)?)
        }
        Linkage::Static => None,
    };
    let built = BuildProducts {
        sources: root.to_owned(),
        library,
        preload,
        man: folder.join("man"),
        completions: folder.join("completions"),
        sbom: folder.join("cofferdam.cdx.json"),
        binary,
        fleet,
    };
    for (what, folder) in [("man", &built.man), ("completions", &built.completions)] {
        let mut command = Command::new(&built.binary);
        command.args(["generate", what]).arg(folder);
        check(command)?;
    }
    super::sbom::write(root, release, linkage, &built.sbom)?;
    Ok(built)
}

/// Linker options that make a program smaller: one copy of functions with the same code, and a
/// compact table of relocations where the target's C library need not know it (from glibc 2.36 on).
fn link(linkage: Linkage) -> &'static [&'static str] {
    const FOLD: &str = "-Clink-arg=-Wl,--icf=all";
    const PACK: &str = "-Clink-arg=-Wl,-z,pack-relative-relocs";
    match linkage {
        Linkage::Dynamic => &[FOLD],
        Linkage::Static => &[FOLD, PACK],
    }
}

/// Compiler flags that keep paths of this machine out of the program: of the sources, of generated
/// files, and of the user's home. If several mappings fit, the compiler uses the last one.
fn flags(root: &Path, target: &Path, linkage: Linkage) -> Result<Vec<String>> {
    let home = match std::env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cargo"),
    };
    let root = root.canonicalize().context("cannot find the sources")?;
    let mut flags = Vec::new();
    for (from, to) in [
        (root.as_path(), "/usr/src/cofferdam"),
        (target, "/usr/src/cofferdam/target"),
        (home.as_path(), "/usr/src/cargo"),
    ] {
        let from = from.to_str().context("a path is not UTF-8")?;
        if from.contains(['=', '\u{1f}']) {
            bail!("'{from}' cannot be mapped: build elsewhere");
        }
        flags.push(format!("--remap-path-prefix={from}={to}"));
    }
    if linkage == Linkage::Static {
        flags.push("-Ctarget-feature=+crt-static".to_owned());
    }
    Ok(flags)
}

/// Folder of builds and of their products.
pub fn target() -> Result<PathBuf> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or(tree::root().join("target"), PathBuf::from);
    std::fs::create_dir_all(&target)
        .with_context(|| format!("cannot create {}", target.display()))?;
    target
        .canonicalize()
        .with_context(|| format!("cannot find {}", target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_workspace() {
        let manifest = "[package]\nversion = \"9\"\n[workspace.package]\nversion = \"0.1.0\"\n";
        assert_eq!(version(manifest).as_deref(), Some("0.1.0"));
        let own = Release::of(tree::root()).unwrap();
        assert_eq!(own.version, env!("CARGO_PKG_VERSION"));
    }

    /// Promise 79.
    #[test]
    fn paths_are_mapped_and_only_the_static_build_is_static() {
        let target = Path::new("/elsewhere/target");
        let dynamic = flags(tree::root(), target, Linkage::Dynamic).unwrap();
        assert_eq!(dynamic.len(), 3, "{dynamic:?}");
        assert_eq!(
            dynamic[1], "--remap-path-prefix=/elsewhere/target=/usr/src/cofferdam/target",
            "after the sources, which it may lie in"
        );
        let all = |f: &String| f.starts_with("--remap-path-prefix=/");
        assert!(dynamic.iter().all(all), "{dynamic:?}");
        let fixed = flags(tree::root(), target, Linkage::Static).unwrap();
        assert_eq!(fixed[3], "-Ctarget-feature=+crt-static");
    }
}
