//! What can go wrong when the host is read.

use std::io;
use std::path::{Path, PathBuf};

/// The host could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file or directory that should be there.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A netlink request.
    #[error("netlink {request}: {source}")]
    Netlink {
        /// Which.
        request: &'static str,
        /// Why.
        source: io::Error,
    },
    /// No unified hierarchy.
    #[error(
        "no cgroup2 file system is mounted, which identifies containers: \
         mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
    )]
    NoCgroup2,
    /// A file says something that it should not.
    #[error("cannot understand {path}: '{text}'")]
    Content {
        /// Which.
        path: PathBuf,
        /// What it says.
        text: String,
    },
}

impl HostError {
    pub(crate) fn reading(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> HostError {
        move |source| HostError::Read {
            path: path.as_ref().to_owned(),
            source,
        }
    }

    pub(crate) fn asking(request: &'static str) -> impl FnOnce(io::Error) -> HostError {
        move |source| HostError::Netlink { request, source }
    }
}
