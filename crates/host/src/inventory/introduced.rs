//! Containers that their runtime itself describes: names and cgroups come from it, and none of its
//! files is read.

use super::{Inventory, unnamed};
use crate::classify::{Class, Named};
use crate::names::identity::{Identity, plausible};
use cofferdam_types::{CgroupId, ContainerChange, Runtime};
use std::path::{Path, PathBuf};

/// Containers that can be described at the same time, at most.
const MOST_INTRODUCED: usize = 100_000;

/// What a runtime says of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The runtime's id.
    pub id: String,
    /// The container's name.
    pub name: String,
    /// Its pod as `namespace/name`.
    pub pod: Option<String>,
    /// Its cgroup below the v2 mount, where the runtime says.
    pub cgroup_path: Option<PathBuf>,
}

impl Inventory {
    /// Takes in what the runtime says of containers, before or after their cgroups are there.
    pub fn introduce(&mut self, all: Vec<Introduction>) -> Vec<ContainerChange> {
        for one in all {
            self.introduce_one(one);
        }
        self.finish()
    }

    /// The runtime has no such container any more. What is still there of it keeps its name.
    pub fn forget_introduced(&mut self, id: &str) {
        self.introduced.remove(id);
    }

    /// Whether names are read from the files of containerd and CRI-O; they are until this says
    /// otherwise. Switched on again, it looks up what could not be named meanwhile.
    pub fn read_runtime_files(&mut self, read: bool) -> Vec<ContainerChange> {
        let again = read && !self.runtime_files;
        self.runtime_files = read;
        if !again {
            return Vec::new();
        }
        for id in self.containers.keys().copied().collect::<Vec<_>>() {
            let Some(named) = self.named_by_path(id) else {
                continue;
            };
            let known = named
                .id
                .as_ref()
                .is_some_and(|id| self.introduced.contains_key(id));
            let path = self.tree.get(id).map(|n| n.path.clone());
            if let Some(path) = path.filter(|_| !known && is_of_cri(named.runtime)) {
                let identity = self.names.look_up(&self.fs, &named, &path);
                self.rename(id, identity);
            }
        }
        self.finish()
    }

    fn introduce_one(&mut self, one: Introduction) {
        if self.introduced.len() >= MOST_INTRODUCED && !self.introduced.contains_key(&one.id) {
            return;
        }
        let identity = identity(&one);
        let path = one.cgroup_path.clone();
        let found = self.with_id(&one.id);
        let id = one.id.clone();
        self.introduced.insert(id.clone(), one);
        if let Some(cgroup) = found {
            return self.rename(cgroup, identity);
        }
        // Its cgroup was seen before, and had no form that is known.
        let Some(cgroup) = path.and_then(|path| self.tree.id_of(&path)) else {
            return;
        };
        if self
            .tree
            .get(cgroup)
            .is_some_and(|n| n.class == Class::Other)
        {
            if self.containers.contains_key(&cgroup) {
                self.dissolve(cgroup);
            }
            self.tree.set_class(cgroup, Class::Container(named(&id)));
            self.start_by_path(cgroup);
            self.refresh(cgroup);
            self.assess(cgroup);
        }
    }

    fn rename(&mut self, cgroup: CgroupId, identity: Identity) {
        self.change(cgroup, |container| {
            if let Some(name) = identity.name {
                container.name = name;
            }
            if identity.pod.is_some() {
                container.pod = identity.pod;
            }
        });
    }

    fn named_by_path(&self, cgroup: CgroupId) -> Option<Named> {
        match &self.tree.get(cgroup)?.class {
            Class::Container(named) => Some(named.clone()),
            _ => None,
        }
    }

    /// The class of a cgroup whose path has no known form, if its container was introduced.
    pub(super) fn introduced_at(&self, path: &Path) -> Option<Named> {
        let id = path.file_name()?.to_str()?;
        self.introduced.contains_key(id).then(|| named(id))
    }

    /// Makes the cgroup, which has the form of a runtime's, a container.
    pub(super) fn start_by_path(&mut self, cgroup: CgroupId) {
        let Some(named) = self.named_by_path(cgroup) else {
            return;
        };
        let Some(path) = self.tree.get(cgroup).map(|n| n.path.clone()) else {
            return;
        };
        let introduced = named.id.as_ref().and_then(|id| self.introduced.get(id));
        let identity = match introduced {
            Some(one) => identity(one),
            None if is_of_cri(named.runtime) && !self.runtime_files => Identity::default(),
            None => self.names.look_up(&self.fs, &named, &path),
        };
        let name = identity.name.or(named.name);
        let id = named.id.as_deref();
        let name = name.unwrap_or_else(|| crate::names::fallback(named.runtime, id, &path));
        self.start(cofferdam_types::Container {
            name,
            id: named.id,
            runtime: named.runtime,
            pod: identity.pod.or(named.pod_uid),
            ..unnamed(cgroup, &path)
        });
    }
}

fn identity(one: &Introduction) -> Identity {
    Identity {
        name: plausible(&one.name),
        pod: one.pod.as_deref().and_then(plausible),
    }
}

fn named(id: &str) -> Named {
    Named {
        runtime: Runtime::Containerd,
        id: Some(id.to_owned()),
        name: None,
        pod_uid: None,
    }
}

/// Whether the runtime speaks NRI.
fn is_of_cri(runtime: Runtime) -> bool {
    matches!(runtime, Runtime::Containerd | Runtime::Crio)
}
