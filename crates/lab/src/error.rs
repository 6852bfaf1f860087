//! Why the laboratory could not be set up.

use cofferdam_host::HostError;
use std::io;
use std::path::{Path, PathBuf};

/// Something could not be made on this host, or read from it.
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
        /// Which.
        program: String,
    },
    /// A file of the host could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    Host {
        /// `read`, `write`, `make`, `open`, `enter`, `join`.
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// `ip`, `tc`, `nft`, … refused.
    #[error("'{command}' failed: {reason}")]
    Command {
        /// As a shell would have it.
        command: String,
        /// Its own words.
        reason: String,
    },
}

impl LabError {
    /// For `map_err`: `action` on `path` failed.
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

/// The Debian package that has a program.
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
