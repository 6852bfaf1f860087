//! Containers that their runtime describes: names and cgroups come from its records, and none of
//! its files is read.

use super::{Inventory, unnamed};
use crate::classify::{Class, NamedContainer};
use crate::names::identity::{Identity, plausible_name};
use cofferdam_types::{CgroupId, ContainerChange, Runtime};
use std::path::{Path, PathBuf};

/// Most containers that can have a runtime record at the same time.
const MOST_INTRODUCED: usize = 100_000;

/// Runtime record of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Id of the runtime.
    pub id: String,
    /// The container's name.
    pub name: String,
    /// Pod of the container, as `namespace/name`.
    pub pod: Option<String>,
    /// Cgroup of the container below the v2 mount, if the runtime has reported it.
    pub cgroup_path: Option<PathBuf>,
}

impl Inventory {
    /// Adds runtime records of containers, before or after their cgroups exist.
    pub fn introduce(&mut self, all: Vec<Introduction>) -> Vec<ContainerChange> {
        for one in all {
            self.introduce_one(one);
        }
        self.finish()
    }

    /// Removes the record of a container that the runtime no longer has. Its remains keep their
    /// name.
    pub fn forget_introduced(&mut self, id: &str) {
        self.introduced.remove(id);
    }

    /// Sets whether names are read from the files of containerd and CRI-O; the default is true.
    /// When it is turned on again, names that are missing are looked up.
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
            let has_record = named
                .id
                .as_ref()
                .is_some_and(|id| self.introduced.contains_key(id));
            let path = self.tree.get(id).map(|n| n.path.clone());
            if let Some(path) = path.filter(|_| !has_record && is_of_cri(named.runtime)) {
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
        // The cgroup was seen before, and had no known form.
        let Some(cgroup) = path.and_then(|path| self.tree.id_of(&path)) else {
            return;
        };
        if self
            .tree
            .get(cgroup)
            .is_some_and(|n| n.class == Class::Other)
        {
            if self.containers.contains_key(&cgroup) {
                self.end_container(cgroup);
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

    fn named_by_path(&self, cgroup: CgroupId) -> Option<NamedContainer> {
        match &self.tree.get(cgroup)?.class {
            Class::Container(named) => Some(named.clone()),
            _ => None,
        }
    }

    /// Returns the class of a cgroup whose path has no known form, if its container has a record.
    pub(super) fn introduced_at(&self, path: &Path) -> Option<NamedContainer> {
        let id = path.file_name()?.to_str()?;
        self.introduced.contains_key(id).then(|| named(id))
    }

    /// Starts a container for a cgroup with the form of a runtime's.
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
        name: plausible_name(&one.name),
        pod: one.pod.as_deref().and_then(plausible_name),
    }
}

fn named(id: &str) -> NamedContainer {
    NamedContainer {
        runtime: Runtime::Containerd,
        id: Some(id.to_owned()),
        name: None,
        pod_uid: None,
    }
}

/// Whether the runtime supports NRI.
fn is_of_cri(runtime: Runtime) -> bool {
    matches!(runtime, Runtime::Containerd | Runtime::Crio)
}
