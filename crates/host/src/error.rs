//! Errors of reading the host.

use std::io;
use std::path::{Path, PathBuf};

/// Reason why the host could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file or directory cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// A netlink request failed.
    #[error("netlink {request}: {source}")]
    Netlink {
        /// Name of the request.
        request: &'static str,
        /// Cause of the failure.
        source: io::Error,
    },
    /// No unified hierarchy is mounted.
    #[error(
        "no cgroup2 file system is mounted, which identifies containers: \
         mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
    )]
    NoCgroup2,
    /// A file has an unexpected content.
    #[error("cannot understand {path}: '{text}'")]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Content of the file.
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

    pub(crate) fn request_error(request: &'static str) -> impl FnOnce(io::Error) -> HostError {
        move |source| HostError::Netlink { request, source }
    }
}
