//! `make install` and `make uninstall`: the user builds, and root writes only where that is needed.

use super::build::{Linkage, Release, build, target};
use super::layout::{Entry, Layout, entries, fleet};
use super::stage;
use crate::run::{as_root, check};
use crate::tree;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Target of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `PREFIX`, absolute; `/usr/local` by default.
    pub prefix: PathBuf,
    /// `DESTDIR`, the prefix of every path; `/` by default.
    pub root: PathBuf,
}

impl Place {
    /// Target by the environment's `PREFIX` and `DESTDIR`.
    pub fn of_environment() -> Result<Place> {
        let path = |name: &str, default: &str| -> Result<PathBuf> {
            let given = std::env::var_os(name).filter(|value| !value.is_empty());
            let path = given.map_or(PathBuf::from(default), PathBuf::from);
            if !path.is_absolute() {
                bail!("{name} must be absolute, not '{}'", path.display());
            }
            Ok(path)
        };
        Ok(Place {
            prefix: path("PREFIX", "/usr/local")?,
            root: path("DESTDIR", "/")?,
        })
    }
}

/// Folder with a copy of the installed files, so that the same can be removed.
fn staged() -> Result<PathBuf> {
    Ok(target()?.join("package/install"))
}

/// Builds and installs.
pub fn install() -> Result<()> {
    let place = Place::of_environment()?;
    let release = Release::of(tree::root())?;
    let built = build(tree::root(), &target()?, Linkage::Dynamic, &release)?;
    let layout = Layout::below(&place.prefix);
    let mut all = entries(&layout, &built, &release)?;
    all.push(fleet(&layout, &built));
    let stage = staged()?;
    stage::fresh(&stage)?;
    stage::write(&all, &stage)?;
    privileged("install-tree", &place, &stage)?;
    eprintln!(
        "installed below {}; `sudo systemctl enable --now cofferdam` starts the agent, `make \
         uninstall` removes all of it",
        stage::under(&place.root, &place.prefix).display()
    );
    Ok(())
}

/// Removes what `install` wrote with the same `PREFIX` and `DESTDIR`.
pub fn uninstall() -> Result<()> {
    let place = Place::of_environment()?;
    let stage = staged()?;
    if !stage.exists() {
        bail!(
            "nothing was installed from here: {} is missing",
            stage.display()
        );
    }
    privileged("uninstall-tree", &place, &stage)
}

/// Runs the second half as root, unless this user may write to the target.
fn privileged(task: &str, place: &Place, stage: &Path) -> Result<()> {
    let arguments = [stage, &place.root];
    if is_writable(place) {
        let words: Vec<String> = arguments
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        return match task {
            "install-tree" => install_tree(&words),
            _ => uninstall_tree(&words),
        };
    }
    let Some((sudo, options)) = as_root().split_first() else {
        bail!("{} cannot be written", place.root.display());
    };
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(sudo);
    command.args(options).arg(own).arg(task).args(arguments);
    check(command)
}

fn is_writable(place: &Place) -> bool {
    if nix::unistd::geteuid().is_root() {
        return true;
    }
    let prefix = stage::under(&place.root, &place.prefix);
    let nearest = prefix.ancestors().find(|path| path.exists());
    let writable = |path: &Path| nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok();
    // The configuration goes to /etc whatever the prefix is.
    nearest.is_some_and(writable) && place.root != Path::new("/")
}

fn two(arguments: &[String]) -> Result<(PathBuf, PathBuf)> {
    match arguments {
        [stage, root] => Ok((stage.into(), root.into())),
        _ => bail!("two folders are needed"),
    }
}

/// Copies a staged tree. An existing configuration stays.
pub fn install_tree(arguments: &[String]) -> Result<()> {
    let (stage, root) = two(arguments)?;
    let mut all: Vec<Entry> = Vec::new();
    for path in stage::walk(&stage)? {
        if let Some(entry) = stage::entry(&stage, &path)? {
            let stays = is_configuration(&entry.to) && stage::under(&root, &entry.to).exists();
            match stays {
                true => eprintln!("kept: {}", entry.to.display()),
                false => all.push(entry),
            }
        }
    }
    stage::write(&all, &root)?;
    refresh_libraries(&root);
    Ok(())
}

/// Updates the linker's cache of libraries. In another root that is not our task, and without
/// ldconfig there is nothing to do.
fn refresh_libraries(root: &Path) {
    if root == Path::new("/") {
        let _ = Command::new("/sbin/ldconfig").status();
    }
}

/// Removes the files of the staged tree, and folders that are empty then. An edited configuration
/// stays.
pub fn uninstall_tree(arguments: &[String]) -> Result<()> {
    let (stage, root) = two(arguments)?;
    let mut folders = Vec::new();
    for path in stage::walk(&stage)? {
        let Some(entry) = stage::entry(&stage, &path)? else {
            folders.push(path);
            continue;
        };
        let installed = stage::under(&root, &entry.to);
        let edited = is_configuration(&entry.to)
            && installed.exists()
            && fs::read(&installed).ok() != fs::read(&path).ok();
        if edited {
            eprintln!("kept: {} was edited", installed.display());
            continue;
        }
        match fs::remove_file(&installed) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("cannot remove {}", installed.display()));
            }
            _ => {}
        }
    }
    // The deepest first. Folders with other files stay, and so do those of the system.
    for folder in folders.iter().rev() {
        let relative = folder.strip_prefix(&stage).unwrap_or(folder);
        if relative.to_string_lossy().contains("cofferdam") {
            let _ = fs::remove_dir(root.join(relative));
        }
    }
    refresh_libraries(&root);
    Ok(())
}

fn is_configuration(to: &Path) -> bool {
    to.starts_with("/etc")
}
