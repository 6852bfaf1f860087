//! Names of containers, read from the state that their runtime keeps on disk.

pub(crate) mod cri;
pub(crate) mod docker;
pub(crate) mod identity;
pub(crate) mod labels;
pub(crate) mod nspawn;
pub(crate) mod podman;
mod storage;

use crate::classify::NamedContainer;
use crate::fs::HostFs;
use cofferdam_types::{Runtime, path_text, printable};
use identity::{Identity, owner_home, plausible_name};
use std::path::Path;

/// Looks up names; caches files that list many containers.
#[derive(Debug, Default)]
pub(crate) struct Names {
    podman: podman::Cache,
}

impl Names {
    pub fn look_up(&mut self, fs: &HostFs, named: &NamedContainer, cgroup_path: &Path) -> Identity {
        let Some(id) = named.id.as_deref() else {
            let registered = match named.runtime {
                Runtime::Nspawn => nspawn::name(fs, cgroup_path),
                _ => None,
            };
            let name = registered.or_else(|| named.name.as_deref().and_then(plausible_name));
            return Identity { name, pod: None };
        };
        let home = owner_home(fs, cgroup_path);
        match named.runtime {
            Runtime::Podman => Identity {
                name: self.podman.name(fs, id, home.as_deref()),
                pod: None,
            },
            Runtime::Docker => Identity {
                name: docker::name(fs, id, home.as_deref()),
                pod: None,
            },
            Runtime::Containerd => {
                let identity = cri::containerd(fs, id);
                // An old kubelet used docker with the same cgroup paths.
                let name = identity.name.or_else(|| docker::name(fs, id, None));
                Identity {
                    name,
                    pod: identity.pod,
                }
            }
            Runtime::Crio => cri::crio(fs, id),
            Runtime::Nspawn | Runtime::Plain | Runtime::Host => Identity::default(),
        }
    }
}

/// Makes a name for a container whose runtime's state could not be read.
pub(crate) fn fallback(runtime: Runtime, id: Option<&str>, path: &Path) -> String {
    if let Some(id) = id {
        return format!("{runtime}-{}", id.get(..12).unwrap_or(id));
    }
    let last = Path::new(path.file_name().unwrap_or(path.as_os_str()));
    printable(&path_text(last))
}

#[cfg(test)]
mod tests;
