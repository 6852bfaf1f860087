//! The one full look: at the start, and after events were lost.

use super::Inventory;
use crate::HostError;
use cofferdam_types::CgroupId;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
        // The root is no container, whatever runs in it.
        for (id, _) in found.iter().skip(1) {
            self.refresh(*id);
        }
        self.claims.confirm_old(None, Duration::ZERO);
        self.assess_pending();
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
}
