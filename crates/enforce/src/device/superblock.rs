//! Sysfs that is read-only for a whole network namespace.
//!
//! All mounts of one namespace's sysfs share a superblock. A container runtime that mounts it
//! first, and read-only, makes the superblock itself read-only for every mount, ours too. The flag
//! can be turned off and on again without touching any mount. The runtime's own mount stays
//! read-only, since `mount(2)` sets both flags.

use super::sys;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// Whether no mount of it can be written.
pub(super) fn is_read_only(sysfs: &OwnedFd) -> io::Result<bool> {
    let flags = nix::sys::statvfs::fstatvfs(sysfs.as_fd())?.flags();
    Ok(flags.contains(nix::sys::statvfs::FsFlags::ST_RDONLY))
}

/// Sets the flag for all mounts. Refuses to clear it if another process's mount would become
/// writable.
pub(super) fn set_read_only(sysfs: &OwnedFd, read_only: bool) -> io::Result<()> {
    if !read_only && let Some(pid) = writable_for(sysfs)? {
        return Err(io::Error::new(
            io::ErrorKind::ReadOnlyFilesystem,
            format!(
                "its sysfs is read-only, and making it writable would also make it writable for \
                 process {pid}"
            ),
        ));
    }
    sys::reconfigure(sysfs, if read_only { c"ro" } else { c"rw" })
}

/// Finds a process that has a mount which only the superblock keeps read-only. Reads each mount
/// namespace once.
fn writable_for(sysfs: &OwnedFd) -> io::Result<Option<u32>> {
    let device = nix::sys::stat::fstat(sysfs.as_fd())?.st_dev;
    let device = format!("{}:{}", libc::major(device), libc::minor(device));
    let mut seen = HashSet::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let namespace: PathBuf = match fs::read_link(format!("/proc/{pid}/ns/mnt")) {
            Ok(namespace) => namespace,
            // A process that has ended, or a kernel thread.
            Err(_) => continue,
        };
        let mounts = || fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        if seen.insert(namespace) && has_writable(&mounts(), &device) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// Whether `mountinfo` lists a mount of `device` (`major:minor`) that is not read-only by its own
/// options. Source: proc_pid_mountinfo(5).
fn has_writable(mountinfo: &str, device: &str) -> bool {
    mountinfo.lines().any(|line| {
        let mut fields = line.split(' ');
        fields.nth(2) == Some(device)
            && fields
                .nth(2)
                .is_some_and(|options| !options.split(',').any(|option| option == "ro"))
    })
}

#[cfg(test)]
mod tests {
    use super::has_writable;

    #[test]
    fn a_read_only_mount_differs_from_a_read_only_superblock() {
        let runc = "78 75 0:45 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro\n";
        let plain = "104 59 0:45 / /mnt rw,relatime - sysfs x ro\n";
        assert!(!has_writable(runc, "0:45"));
        assert!(has_writable(&format!("{runc}{plain}"), "0:45"));
        assert!(!has_writable(plain, "0:4"), "another file system");
        assert!(!has_writable("", "0:45"));
    }
}
