//! Errors of the laboratory.

use cofferdam_host::HostError;
use std::io;
use std::path::{Path, PathBuf};

/// Object that could not be made on this host, or read from it.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The host lacks something; the message names the remedy.
    #[error("{0}")]
    Unsupported(String),
    /// A program is not installed.
    #[error(
        "this host has no '{program}': install the package '{}' (apt-get install {})",
        package(program),
        package(program)
    )]
    Missing {
        /// Name of the program.
        program: String,
    },
    /// A file of the host could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    Host {
        /// `read`, `write`, `make`, `open`, `enter`, `join`.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A tool (`ip`, `tc`, `nft`, …) failed.
    #[error("'{command}' failed: {reason}")]
    Command {
        /// Command line as for a shell.
        command: String,
        /// Message of the tool.
        reason: String,
    },
}

impl LabError {
    /// Makes the error of an `action` on `path`, for `map_err`.
    pub(crate) fn host(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> LabError {
        move |source| LabError::Host {
            action,
            path: path.as_ref().to_owned(),
            source,
        }
    }
}

impl From<HostError> for LabError {
    fn from(error: HostError) -> LabError {
        match error {
            HostError::NoCgroup2 => LabError::Unsupported(
                "this host has no cgroup v2 hierarchy: mount one with 'mkdir -p \
                 /sys/fs/cgroup/unified; mount -t cgroup2 none /sys/fs/cgroup/unified'"
                    .to_owned(),
            ),
            HostError::Read { path, source } => LabError::host("read", path)(source),
            other => LabError::Unsupported(other.to_string()),
        }
    }
}

/// Debian package that contains a program.
fn package(program: &str) -> &str {
    match program {
        "ip" | "tc" => "iproute2",
        "nft" => "nftables",
        "ctr" => "containerd",
        "docker" => "docker.io",
        "systemd-nspawn" => "systemd-container",
        "nsenter" | "taskset" => "util-linux",
        program if program.starts_with("qemu-system-") => "qemu-system-x86",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        for (program, package) in [("ctr", "containerd"), ("tc", "iproute2"), ("fio", "fio")] {
            let error = LabError::Missing {
                program: program.to_owned(),
            };
            let remedy = format!("(apt-get install {package})");
            assert!(error.to_string().ends_with(&remedy), "{error}");
        }
    }
}
