//! The storage directories that podman and CRI-O share.

use std::path::{Path, PathBuf};

/// Lists possible paths of an OCI configuration in a storage directory of libpod.
pub(crate) fn configurations(root: &Path, drivers: &[&str], id: &str) -> Vec<PathBuf> {
    drivers
        .iter()
        .map(|driver| {
            root.join(format!("{driver}-containers"))
                .join(id)
                .join("userdata/config.json")
        })
        .collect()
}
