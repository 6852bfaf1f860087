//! Containers by podman and runc, for a topology: its network is ours, all else is theirs (the
//! namespaces, the cgroups, a sysfs that is read-only for the whole network namespace).

use super::netns::Netns;
use super::sweep;
use crate::error::BenchError;
use cofferdam_host::CgroupLayout;
use cofferdam_lab::UndoStack;
use cofferdam_lab::cgroup::{CPU, Membership};
use cofferdam_lab::run;
use std::fs;
use std::path::PathBuf;

/// Where Debian and Fedora have a static busybox.
const BUSYBOX: [&str; 3] = ["/bin/busybox", "/usr/bin/busybox", "/usr/sbin/busybox"];

/// An image with busybox and nothing else, and the containers made of it.
pub(super) struct Image {
    name: String,
    tag: String,
}

impl Image {
    /// Makes it; `undo` removes it.
    pub fn import(tag: &str, undo: &mut UndoStack) -> Result<Image, BenchError> {
        let busybox = BUSYBOX.into_iter().find(|p| fs::exists(p).unwrap_or(false));
        let busybox = busybox.ok_or_else(|| {
            BenchError::Unsupported(
                "podman's containers run busybox, which is missing: apt-get install busybox-static"
                    .to_owned(),
            )
        })?;
        let name = format!("localhost/{}{tag}", sweep::CGROUP_PREFIX);
        let archive = std::env::temp_dir().join(format!("{}{tag}.tar", sweep::CGROUP_PREFIX));
        let folder = PathBuf::from(busybox);
        let folder = folder.parent().unwrap_or(&folder).display().to_string();
        let file = archive.display();
        let packed = run(&format!("tar -C {folder} -cf {file} busybox"));
        let imported = packed.and_then(|_| run(&format!("podman import --quiet {file} {name}")));
        let _gone = fs::remove_file(&archive);
        imported?;
        let gone = name.clone();
        undo.push(format!("image {name}"), move || {
            run(&format!("podman rmi --force {gone}"))
        });
        Ok(Image {
            name,
            tag: tag.to_owned(),
        })
    }

    /// Starts a container that sleeps. Returns its network namespace, under a name, its cgroups in
    /// every hierarchy that matters, and its path below the v2 mount.
    pub fn start(
        &self,
        name: &str,
        options: &str,
        layout: &CgroupLayout,
        undo: &mut UndoStack,
    ) -> Result<(Netns, Vec<PathBuf>, String), BenchError> {
        let container = format!("{}{}-{name}", sweep::NETNS_PREFIX, self.tag);
        let gone = container.clone();
        undo.push(format!("container {container}"), move || {
            run(&format!("podman rm --force --ignore --time 0 {gone}"))
        });
        // podman's own limits ask for more than a root without CAP_SYS_RESOURCE has.
        run(&format!(
            "podman --runtime runc run --detach --name {container} --network none \
             --ulimit nofile=20000:20000 --ulimit nproc=10000:10000{options} {} \
             /busybox sleep 1000000",
            self.name
        ))?;
        let pid = run(&format!(
            "podman inspect --format {{{{.State.Pid}}}} {container}"
        ))?;
        let netns = Netns::attach(&container, pid.trim(), undo)?;
        let pid = pid.trim().parse().map_err(|_| BenchError::Command {
            command: format!("podman inspect {container}"),
            reason: format!("it names no process, but '{}'", pid.trim()),
        })?;
        let membership = Membership::of(layout, pid)?;
        let path = membership.path().display().to_string();
        Ok((netns, membership.dirs(&CPU), path))
    }
}
