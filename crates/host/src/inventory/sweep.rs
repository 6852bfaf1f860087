//! The one full look: at the start, and after events were lost.

use super::Inventory;
use crate::HostError;
use cofferdam_types::{CgroupId, NetnsId};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

impl Inventory {
    /// Brings the tree, the containers and their namespaces in line with the host.
    pub(super) fn sweep(&mut self) -> Result<(), HostError> {
        let found = self.walk()?;
        let alive: HashMap<CgroupId, &PathBuf> = found.iter().map(|(id, p)| (*id, p)).collect();
        for id in self.tree.top_down() {
            let known = self.tree.get(id).map(|node| &node.path);
            if known.is_some() && known != alive.get(&id).copied() {
                self.remove_cgroup(id);
            }
        }
        for (id, path) in &found {
            self.add_cgroup(*id, path);
        }
        for (id, _) in &found {
            let mut seen: HashMap<NetnsId, u32> = HashMap::new();
            for pid in self.processes(*id) {
                if let Some(netns) = self.fs.netns_of(pid) {
                    seen.entry(netns).or_insert(pid);
                }
            }
            self.observe_all(*id, &seen);
        }
        self.settle_weak();
        self.drop_empty_plain();
        Ok(())
    }

    /// Every v2 cgroup, parents before their children.
    fn walk(&self) -> Result<Vec<(CgroupId, PathBuf)>, HostError> {
        let root = PathBuf::from("/");
        let mount = self.layout.v2_directory(&root);
        let inode = self.fs.inode(&mount).map_err(HostError::reading(&mount))?;
        let mut found = vec![(CgroupId(inode), root)];
        let mut next = 0;
        while let Some((_, path)) = found.get(next).cloned() {
            next += 1;
            // Gone in the meantime: its children are as well.
            let directory = self.layout.v2_directory(&path);
            for name in self.fs.directories(&directory).unwrap_or_default() {
                if let Ok(inode) = self.fs.inode(directory.join(&name)) {
                    found.push((CgroupId(inode), Path::new(&path).join(name)));
                }
            }
        }
        Ok(found)
    }

    /// Plain containers whose processes have all gone while events were lost.
    fn drop_empty_plain(&mut self) {
        let plain: Vec<_> = self
            .containers
            .values()
            .filter(|c| self.is_plain(c))
            .cloned()
            .collect();
        for container in plain {
            let below = self.tree.subtree(container.cgroup, |_| true);
            if below.into_iter().all(|id| self.processes(id).is_empty()) {
                self.stop(container.cgroup);
                self.refresh_descendants(Some(container.cgroup));
            }
        }
    }
}
