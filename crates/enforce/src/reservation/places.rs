//! Directories of a container's CPU settings, on pure v2 and on hybrid hosts.

use cofferdam_host::{CgroupLayout, Controller, HostFs, parse};
use cofferdam_types::Container;
use std::path::{Path, PathBuf};

/// Directory of a container in one controller's hierarchy, as the host names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    pub path: PathBuf,
    pub v1: bool,
}

/// Directories of a container's settings; `None` if this host has no such control for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub cpuset: Option<Directory>,
    pub cpu: Option<Directory>,
    /// The v2 cgroup, which counts its CPU use.
    pub v2: PathBuf,
}

impl Places {
    pub fn of(fs: &HostFs, layout: &CgroupLayout, container: &Container) -> Places {
        let v2 = layout.v2_directory(&container.cgroup_path);
        let proc = container
            .pid
            .and_then(|pid| fs.read_text(format!("/proc/{pid}/cgroup")).ok());
        let find = |controller: &str, file: [&str; 2]| {
            let found = match layout.controller(controller)? {
                Controller::V2(_) => Directory {
                    path: v2.clone(),
                    v1: false,
                },
                Controller::V1(_) => {
                    // Runtimes use the same path in every hierarchy, but need not.
                    let path = proc
                        .as_deref()
                        .and_then(|text| parse::proc_cgroup_v1(text, controller))
                        // The root belongs to the whole host. The kernel shows an exiting process
                        // there, whatever its cgroup was.
                        .filter(|path| path.parent().is_some())
                        .unwrap_or_else(|| container.cgroup_path.clone());
                    path.parent()?;
                    Directory {
                        path: layout.v1_directory(controller, &path)?,
                        v1: true,
                    }
                }
            };
            let file = file[usize::from(found.v1)];
            // In v2 a file is missing if the controller is not enabled for this cgroup.
            fs.exists(found.path.join(file)).then_some(found)
        };
        Places {
            cpuset: find("cpuset", ["cpuset.cpus"; 2]),
            cpu: find("cpu", ["cpu.weight", "cpu.shares"]),
            v2,
        }
    }
}

impl Directory {
    /// Directory of the parent cgroup.
    pub fn parent(&self) -> Option<&Path> {
        self.path.parent()
    }
}
