//! docker: `config.v2.json` in each container's directory.

use crate::fs::HostFs;
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Config {
    #[serde(rename = "Name")]
    name: String,
}

#[derive(Deserialize)]
struct Daemon {
    #[serde(rename = "data-root")]
    data_root: PathBuf,
}

/// Reads the container's name from the bytes of `config.v2.json`, without its leading slash.
pub fn config(bytes: &[u8]) -> Option<String> {
    let config: Config = serde_json::from_slice(bytes).ok()?;
    super::identity::plausible_name(&config.name)
}

/// Reads `data-root` from the bytes of `daemon.json`.
pub fn data_root(bytes: &[u8]) -> Option<PathBuf> {
    let daemon: Daemon = serde_json::from_slice(bytes).ok()?;
    daemon.data_root.is_absolute().then_some(daemon.data_root)
}

pub(crate) fn name(fs: &HostFs, id: &str, home: Option<&Path>) -> Option<String> {
    let file = directory(fs, id, home).join("config.v2.json");
    config(&fs.read(file, crate::fs::SMALL_BYTES).ok()?)
}

/// Returns the directory that docker keeps for a container.
pub(crate) fn directory(fs: &HostFs, id: &str, home: Option<&Path>) -> PathBuf {
    let root = match home {
        Some(home) => home.join(".local/share/docker"),
        None => fs
            .read("/etc/docker/daemon.json", crate::fs::SMALL_BYTES)
            .ok()
            .and_then(|bytes| data_root(&bytes))
            .unwrap_or_else(|| PathBuf::from("/var/lib/docker")),
    };
    root.join("containers").join(id)
}
