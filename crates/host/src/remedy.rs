//! Remedies for errors from limits and mounts of the process itself.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::path::Path;

/// Remedy for a cgroup file system that cannot be written.
const READ_ONLY: &str = "this process sees the cgroup file system read-only: \
     mount it writable for it (systemd: no ProtectControlGroups= or ReadOnlyPaths= over it; \
     in a container: mount the host's /sys/fs/cgroup read-write) and restart it";

/// Returns the remedy for the error in `text`: too many open files, or a read-only cgroup file
/// system. `None` for any other text, and if the text includes the remedy already.
pub fn remedy(text: &str) -> Option<String> {
    let remedy = if text.contains("Too many open files in system") || text.contains("os error 23)")
    {
        let most = std::fs::read_to_string(Path::new("/proc/sys/fs/file-max")).unwrap_or_default();
        format!(
            "all processes of this host together may have {} open files (fs.file-max): raise it by \
             sysctl -w fs.file-max=NUMBER",
            most.trim()
        )
    } else if text.contains("Too many open files") || text.contains("os error 24)") {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or_default();
        format!(
            "this process may have {soft} open files (RLIMIT_NOFILE; hard limit {hard}): \
             raise it by LimitNOFILE=65536 in its unit, ulimit -n 65536 in the shell before, \
             or podman --ulimit nofile=65536 for its container"
        )
    } else if (text.contains("Read-only file system") || text.contains("os error 30)"))
        && text.contains("cgroup")
    {
        READ_ONLY.to_owned()
    } else {
        return None;
    };
    (!text.contains(&remedy)).then_some(remedy)
}

/// Appends the remedy to the text, if [`remedy`] has one.
pub fn with_remedy(text: &str) -> String {
    match remedy(text) {
        Some(remedy) => format!("{text}; {remedy}"),
        None => text.to_owned(),
    }
}

/// Raises the limit of open files to the hard limit: one open file per container, and BPF's maps
/// and programs, exceed a shell's limit. Not for a process that starts foreign programs, which
/// inherit it: programs that use `select` fail with descriptors beyond 1023.
pub fn raise_open_files() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // If it is refused, the limit stays.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn text_of(errno: i32) -> String {
        let error = io::Error::from_raw_os_error(errno);
        format!("cannot set /sys/fs/cgroup/cpuset/a/cpuset.cpus to 1: {error}")
    }

    /// Promise 24.
    #[test]
    fn an_open_file_limit_is_named_with_its_remedy() {
        let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let text = with_remedy(&text_of(libc::EMFILE));
        for part in [format!("may have {soft} open files"), "LimitNOFILE=".into()] {
            assert!(text.contains(&part), "{text}");
        }
        assert_eq!(with_remedy(&text), text, "once is enough");
        assert!(with_remedy(&text_of(libc::ENFILE)).contains("fs.file-max=NUMBER"));
    }

    /// Promise 24.
    #[test]
    fn a_read_only_cgroup_file_system_is_named() {
        let text = with_remedy(&text_of(libc::EROFS));
        assert!(text.contains("ProtectControlGroups="), "{text}");
        let other = "cannot write /etc/x: Read-only file system (os error 30)";
        assert_eq!(with_remedy(other), other);
        assert_eq!(with_remedy(&text_of(libc::EINVAL)), text_of(libc::EINVAL));
    }

    /// Promise 24.
    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, soft.min(200), hard).unwrap();
        raise_open_files();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    }
}
