//! The v2 cgroup tree as it was last seen.

use super::members::Members;
use crate::classify::{Class, classify};
use cofferdam_types::{CgroupId, NetnsId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// One cgroup.
#[derive(Debug)]
pub(crate) struct Node {
    pub path: PathBuf,
    pub parent: Option<CgroupId>,
    pub children: BTreeSet<CgroupId>,
    pub class: Class,
    /// Whether a selector names it.
    pub is_named: bool,
    /// Processes directly in it, as last read.
    pub members: Members,
    /// Namespaces that make it a container, with everything below it that has no other one.
    pub absorbs: BTreeSet<NetnsId>,
}

/// All cgroups, by id and by path.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<CgroupId, Node>,
    by_path: HashMap<PathBuf, CgroupId>,
}

impl Tree {
    pub fn get(&self, id: CgroupId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    pub fn get_mut(&mut self, id: CgroupId) -> Option<&mut Node> {
        self.nodes.get_mut(&id)
    }

    /// Returns the next cgroup after `id` in the order of ids; the first if there is none.
    pub fn after(&self, id: Option<CgroupId>) -> Option<CgroupId> {
        let begin = id.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.nodes.range((begin, Bound::Unbounded)).next();
        next.or_else(|| self.nodes.first_key_value())
            .map(|(id, _)| *id)
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn id_of(&self, path: &Path) -> Option<CgroupId> {
        self.by_path.get(path).copied()
    }

    /// Returns the ids of all cgroups, parents before their children.
    pub fn top_down(&self) -> Vec<CgroupId> {
        let root = self.id_of(Path::new("/"));
        root.map(|root| self.subtree(root, |_| true))
            .unwrap_or_default()
    }

    /// Returns `root` and all cgroups below it, parents first. A child for which `enter` is false
    /// is left out, with all below it.
    pub fn subtree(&self, root: CgroupId, enter: impl Fn(CgroupId) -> bool) -> Vec<CgroupId> {
        let mut found = vec![root];
        let mut next = 0;
        while let Some(id) = found.get(next) {
            let children = self.nodes.get(id).map(|n| n.children.iter().copied());
            let children: Vec<_> = children
                .into_iter()
                .flatten()
                .filter(|c| enter(*c))
                .collect();
            found.extend(children);
            next += 1;
        }
        found
    }

    /// Returns the cgroups directly below `id`.
    pub fn children(&self, id: CgroupId) -> Vec<CgroupId> {
        let node = self.nodes.get(&id);
        node.map(|n| n.children.iter().copied().collect())
            .unwrap_or_default()
    }

    /// Iterates over `id` and the cgroups above it, the root last.
    pub fn upwards(&self, id: CgroupId) -> impl Iterator<Item = CgroupId> {
        std::iter::successors(Some(id), |id| self.nodes.get(id)?.parent)
    }

    /// Adds a cgroup; its parent must exist already, unless it is the root.
    pub fn insert(&mut self, id: CgroupId, path: &Path, parent: Option<CgroupId>) {
        if let Some(parent) = parent.and_then(|p| self.nodes.get_mut(&p)) {
            parent.children.insert(id);
        }
        let class = classify(path);
        let children = BTreeSet::new();
        self.nodes.insert(
            id,
            Node {
                path: path.to_owned(),
                parent,
                children,
                class,
                is_named: false,
                members: Members::default(),
                absorbs: BTreeSet::new(),
            },
        );
        self.by_path.insert(path.to_owned(), id);
    }

    /// Sets the class of a cgroup from other facts than the form of its path.
    pub fn set_class(&mut self, id: CgroupId, class: Class) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.class = class;
        }
    }

    /// Removes one cgroup without children.
    pub fn remove(&mut self, id: CgroupId) {
        let Some(node) = self.nodes.remove(&id) else {
            return;
        };
        if self.by_path.get(&node.path) == Some(&id) {
            self.by_path.remove(&node.path);
        }
        if let Some(parent) = node.parent.and_then(|p| self.nodes.get_mut(&p)) {
            parent.children.remove(&id);
        }
    }
}
