//! The cgroup hierarchies: pure v2, or v1 controllers next to v2.

use crate::fs::HostFs;
use crate::{HostError, procfs};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Cgroup hierarchies of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupLayout {
    /// Mount point of the unified hierarchy: `/sys/fs/cgroup`, or `/sys/fs/cgroup/unified`
    /// on a hybrid host.
    pub v2_mount: PathBuf,
    /// Controllers of the unified hierarchy (`cgroup.controllers` of its root).
    pub v2_controllers: Vec<String>,
    /// v1 controllers with their mount points; empty on a pure v2 host.
    pub v1_mounts: BTreeMap<String, PathBuf>,
    /// Mount points of v1 hierarchies without a controller, such as systemd's.
    pub v1_named: Vec<PathBuf>,
}

/// Superblock options of a v1 mount that are not controllers.
const OPTIONS: [&str; 7] = [
    "rw",
    "ro",
    "xattr",
    "noprefix",
    "clone_children",
    "cpuset_v2_mode",
    "favordynmods",
];

/// Hierarchy of a controller, with its mount point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller<'a> {
    /// In the unified hierarchy.
    V2(&'a Path),
    /// In a v1 hierarchy, alone or with a few other controllers.
    V1(&'a Path),
}

impl CgroupLayout {
    /// Reads `/proc/self/mountinfo`.
    ///
    /// Fails if it cannot be read, or if no cgroup2 file system is mounted.
    pub fn read(fs: &HostFs) -> Result<CgroupLayout, HostError> {
        let path = "/proc/self/mountinfo";
        let text = fs.read_text(path).map_err(HostError::reading(path))?;
        let mounts = procfs::mountinfo(&text);
        // A container runtime may have further cgroup2 mounts of sub-trees; the first that shows
        // the hierarchy's root is the host's own.
        let v2 = mounts
            .iter()
            .filter(|m| m.fs_type == "cgroup2")
            .min_by_key(|m| m.root != Path::new("/"))
            .ok_or(HostError::NoCgroup2)?;
        let controllers = fs
            .read_text(v2.point.join("cgroup.controllers"))
            .unwrap_or_default();
        let mut v1_mounts = BTreeMap::new();
        let mut v1_named = Vec::new();
        for mount in mounts.iter().filter(|m| m.fs_type == "cgroup") {
            let options = mount.super_options.split(',');
            let controllers = options.filter(|o| !OPTIONS.contains(o) && !o.contains('='));
            let mut named = true;
            for name in controllers {
                named = false;
                v1_mounts
                    .entry(name.to_owned())
                    .or_insert_with(|| mount.point.clone());
            }
            if named {
                v1_named.push(mount.point.clone());
            }
        }
        Ok(CgroupLayout {
            v2_mount: v2.point.clone(),
            v2_controllers: controllers.split_whitespace().map(str::to_owned).collect(),
            v1_mounts,
            v1_named,
        })
    }

    /// Whether controllers are still in v1 hierarchies.
    pub fn is_hybrid(&self) -> bool {
        !self.v1_mounts.is_empty()
    }

    /// Returns the hierarchy of `name` (`cpu`, `cpuset`, `memory`, …); `None` if this host lacks
    /// it.
    pub fn controller(&self, name: &str) -> Option<Controller<'_>> {
        if self.v2_controllers.iter().any(|c| c == name) {
            return Some(Controller::V2(&self.v2_mount));
        }
        self.v1_mounts.get(name).map(|mount| Controller::V1(mount))
    }

    /// Returns the directory of the v2 cgroup at `path` (which begins with `/`).
    pub fn v2_directory(&self, path: &Path) -> PathBuf {
        below(&self.v2_mount, path)
    }

    /// Returns the directory of the cgroup at `path` in the v1 hierarchy of `controller`.
    pub fn v1_directory(&self, controller: &str, path: &Path) -> Option<PathBuf> {
        self.v1_mounts
            .get(controller)
            .map(|mount| below(mount, path))
    }
}

fn below(mount: &Path, path: &Path) -> PathBuf {
    // Joining an empty path would add a slash, which comparisons of paths would see.
    match path.strip_prefix("/").unwrap_or(path) {
        rest if rest.as_os_str().is_empty() => mount.to_owned(),
        rest => mount.join(rest),
    }
}

impl fmt::Display for CgroupLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_hybrid() {
            return write!(
                f,
                "v2 at {} ({})",
                self.v2_mount.display(),
                self.v2_controllers.join(" ")
            );
        }
        let v1: Vec<&str> = self.v1_mounts.keys().map(String::as_str).collect();
        write!(
            f,
            "hybrid: v2 at {}, v1 for {}",
            self.v2_mount.display(),
            v1.join(" ")
        )
    }
}

#[cfg(test)]
mod tests;
