//! Containers by podman and runc, for a topology. The network is the benchmark's. Namespaces,
//! cgroups and the read-only sysfs of the whole network namespace are podman's.

use cofferdam_host::CgroupLayout;
use cofferdam_lab::cgroup::{CPU, Membership};
use cofferdam_lab::names::{CGROUP_PREFIX, NETNS_PREFIX};
use cofferdam_lab::podman::{import_busybox, start};
use cofferdam_lab::{LabError, Netns, UndoStack};
use std::path::PathBuf;

/// Image that contains only busybox, and the containers made from it.
pub(super) struct Image {
    name: String,
    tag: String,
}

impl Image {
    /// Makes the image; `undo` removes it.
    pub fn import(tag: &str, undo: &mut UndoStack) -> Result<Image, LabError> {
        let file = format!("{CGROUP_PREFIX}{tag}");
        let name = format!("localhost/{file}");
        import_busybox(&name, &file, undo)?;
        Ok(Image {
            name,
            tag: tag.to_owned(),
        })
    }

    /// Starts a container that sleeps. Returns its network namespace under a name, its cgroups in
    /// every CPU hierarchy, and its path below the v2 mount.
    pub fn start(
        &self,
        name: &str,
        options: &str,
        layout: &CgroupLayout,
        undo: &mut UndoStack,
    ) -> Result<(Netns, Vec<PathBuf>, String), LabError> {
        let container = format!("{NETNS_PREFIX}{}-{name}", self.tag);
        let started = start(&self.name, &container, "none", options, undo)?;
        let netns = Netns::attach(&container, started.pid, undo)?.without_ipv6()?;
        let membership = Membership::of(layout, started.pid)?;
        let path = membership.path().display().to_string();
        Ok((netns, membership.dirs(&CPU), path))
    }
}
