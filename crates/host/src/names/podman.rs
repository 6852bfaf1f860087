//! podman: `containers.json` of containers/storage, one file for all containers of a user.

use crate::fs::HostFs;
use serde::Deserialize;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Size limit of a list: a thousand containers take about 1 MiB.
const MAX_BYTES: u64 = 64 << 20;
const DRIVERS: [&str; 3] = ["overlay", "vfs", "btrfs"];
const LISTS: [&str; 2] = ["containers.json", "volatile-containers.json"];

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
}

/// Reads names by full id from the bytes of `containers.json`; empty if it does not parse.
pub fn containers(bytes: &[u8]) -> HashMap<String, String> {
    let entries: Vec<Entry> = serde_json::from_slice(bytes).unwrap_or_default();
    entries
        .into_iter()
        .filter_map(|entry| {
            let name = super::identity::plausible_name(entry.names?.first()?)?;
            Some((entry.id, name))
        })
        .collect()
}

/// Reads `graphroot` from the text of `storage.conf`.
pub fn graph_root(text: &str) -> Option<PathBuf> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let path = value.trim().trim_matches('"');
        (key.trim() == "graphroot" && path.starts_with('/')).then(|| PathBuf::from(path))
    })
}

/// Cached lists; a list is read again only if its file has changed.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    lists: HashMap<PathBuf, (Version, HashMap<String, String>)>,
    graph_root: Option<PathBuf>,
}

/// Inode, length, modification time: podman replaces the file by renaming.
type Version = (u64, u64, i64, i64);

impl Cache {
    /// Finds the name of the container `id`, in the system's storage or the one below `home`.
    pub fn name(&mut self, fs: &HostFs, id: &str, home: Option<&Path>) -> Option<String> {
        let root = match home {
            Some(home) => user_root(home),
            None => self.system_root(fs),
        };
        DRIVERS.iter().find_map(|driver| {
            let directory = root.join(format!("{driver}-containers"));
            LISTS
                .iter()
                .find_map(|list| self.list(fs, directory.join(list))?.get(id).cloned())
        })
    }

    fn system_root(&mut self, fs: &HostFs) -> PathBuf {
        self.graph_root
            .get_or_insert_with(|| system_root(fs))
            .clone()
    }

    fn list(&mut self, fs: &HostFs, path: PathBuf) -> Option<&HashMap<String, String>> {
        let Ok(file) = fs.open(&path) else {
            self.lists.remove(&path);
            return None;
        };
        let meta = file.metadata().ok()?;
        let version = (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
        if self
            .lists
            .get(&path)
            .is_none_or(|(cached, _)| *cached != version)
        {
            let bytes = fs.read(&path, MAX_BYTES).ok()?;
            self.lists
                .insert(path.clone(), (version, containers(&bytes)));
        }
        self.lists.get(&path).map(|(_, names)| names)
    }
}

fn user_root(home: &Path) -> PathBuf {
    home.join(".local/share/containers/storage")
}

fn system_root(fs: &HostFs) -> PathBuf {
    let text = fs.read_text("/etc/containers/storage.conf").ok();
    let root = text.and_then(|text| graph_root(&text));
    root.unwrap_or_else(|| PathBuf::from("/var/lib/containers/storage"))
}

/// Lists possible folders of a container's OCI configuration in podman.
pub(crate) fn bundles(fs: &HostFs, id: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let root = home.map_or_else(|| system_root(fs), user_root);
    super::storage::configurations(&root, &DRIVERS, id)
}
