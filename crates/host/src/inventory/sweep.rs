//! The full scan: at the start, and after events were lost.

use super::Inventory;
use crate::HostError;
use cofferdam_types::CgroupId;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

impl Inventory {
    /// Updates the tree, the containers and their namespaces from the host.
    pub(super) fn sweep(&mut self) -> Result<(), HostError> {
        let found = self.walk()?;
        let alive: HashMap<CgroupId, &PathBuf> = found.iter().map(|(id, p)| (*id, p)).collect();
        for id in self.tree.top_down() {
            let path = self.tree.get(id).map(|node| &node.path);
            if path.is_some() && path != alive.get(&id).copied() {
                self.remove_cgroup(id);
            }
        }
        for (id, path) in &found {
            self.add_cgroup(*id, path);
        }
        // The root is never a container.
        for (id, _) in found.iter().skip(1) {
            self.refresh(*id);
        }
        self.claims.confirm_old(None, Duration::ZERO);
        self.assess_pending();
        Ok(())
    }

    /// Lists every v2 cgroup, parents before their children.
    fn walk(&self) -> Result<Vec<(CgroupId, PathBuf)>, HostError> {
        let root = PathBuf::from("/");
        let mount = self.layout.v2_directory(&root);
        let inode = self.fs.inode(&mount).map_err(HostError::reading(&mount))?;
        let mut found = vec![(CgroupId(inode), root)];
        let mut next = 0;
        while let Some((_, path)) = found.get(next).cloned() {
            next += 1;
            // The cgroup was removed in the meantime: its children were as well.
            let directory = self.layout.v2_directory(&path);
            for name in self.fs.directories(&directory).unwrap_or_default() {
                if let Ok(inode) = self.fs.inode(directory.join(&name)) {
                    found.push((CgroupId(inode), Path::new(&path).join(name)));
                }
            }
        }
        Ok(found)
    }
}
