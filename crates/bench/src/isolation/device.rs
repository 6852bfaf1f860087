//! Block device that holds a directory.

use crate::error::BenchError;
use nix::sys::stat::{major, minor, stat};
use nix::sys::statvfs::statvfs;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Whole disk: a partition has no limits of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockDevice {
    pub major: u64,
    pub minor: u64,
    /// Device node, for the runtimes' flags.
    pub node: PathBuf,
}

/// `MAJOR:MINOR`, as in the cgroup files.
impl fmt::Display for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl BlockDevice {
    /// Finds the disk that holds `path`.
    ///
    /// # Errors
    /// The file system has no disk (tmpfs, overlay).
    pub fn under(path: &Path) -> Result<BlockDevice, BenchError> {
        let device = stat(path).map_err(|e| BenchError::host("read", path)(e.into()))?;
        let device = device.st_dev;
        let lacks = |what: &str| {
            BenchError::Unsupported(format!(
                "{} lies on {what}, which takes no I/O limits: mount a file system of a disk there",
                path.display()
            ))
        };
        let sysfs = format!("/sys/dev/block/{}:{}", major(device), minor(device));
        let sysfs = fs::canonicalize(sysfs).map_err(|_| lacks("no block device"))?;
        let disk = match sysfs.join("partition").exists() {
            true => sysfs.parent().unwrap_or(&sysfs),
            false => &sysfs,
        };
        let numbers = fs::read_to_string(disk.join("dev")).unwrap_or_default();
        let parsed = numbers
            .trim()
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let (Some((major, minor)), Some(name)) = (parsed, disk.file_name()) else {
            return Err(lacks("a device that sysfs does not know"));
        };
        Ok(BlockDevice {
            major,
            minor,
            node: Path::new("/dev").join(name),
        })
    }
}

/// Most free space that must remain on a large file system, bytes.
const RESERVE: u64 = 4 << 30;
/// Ratio of the free space to a file that is too small to fill a disk, however full it is.
const SMALL: u64 = 50;

/// Checks that a file of `bytes` does not fill the disk of `path`. It may leave a twentieth of the
/// file system free (at most [`RESERVE`]), or take at most a fiftieth of the free space.
pub(super) fn room_for(path: &Path, bytes: u64) -> Result<(), BenchError> {
    let space = statvfs(path).map_err(|e| BenchError::host("read", path)(e.into()))?;
    let unit = space.fragment_size();
    let (free, all) = (space.blocks_available() * unit, space.blocks() * unit);
    room_in(free, all, bytes).map_err(|reserve| {
        BenchError::Unsupported(format!(
            "{} has {} MiB free, of which {} MiB are left alone, and a tenant's file needs {} MiB: \
             free some space, or give a smaller 'limits.disk_file'",
            path.display(),
            free >> 20,
            reserve >> 20,
            bytes >> 20
        ))
    })
}

/// Checks `bytes` as [`room_for`] does, for a file system with `free` of `all` bytes. The error is
/// the space that must stay free.
fn room_in(free: u64, all: u64, bytes: u64) -> Result<(), u64> {
    let reserve = (all / 20).min(RESERVE);
    if bytes.saturating_add(reserve) <= free || bytes <= free / SMALL {
        return Ok(());
    }
    Err(reserve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_disk_is_named() {
        let reason = BlockDevice::under(Path::new("/proc")).unwrap_err();
        assert_eq!(reason.exit_code(), 3);
        assert!(reason.to_string().contains("/proc"), "{reason}");
        assert!(BlockDevice::under(Path::new("/no/such/place")).is_err());
        let reason = room_for(Path::new("/var/tmp"), 1 << 60).unwrap_err();
        assert!(reason.to_string().contains("free"), "{reason}");
    }
    #[test]
    fn a_twentieth_or_four_gib_stay_free() {
        const GIB: u64 = 1 << 30;
        assert_eq!(room_in(2 * GIB, 20 * GIB, GIB), Ok(()));
        assert_eq!(room_in(2 * GIB, 20 * GIB, GIB + 1), Err(GIB));
        assert_eq!(room_in(5 * GIB, 1000 * GIB, GIB), Ok(()));
        assert_eq!(room_in(5 * GIB, 1000 * GIB, GIB + 1), Err(RESERVE));
    }

    #[test]
    fn a_small_file_needs_no_reserve() {
        const MIB: u64 = 1 << 20;
        assert_eq!(room_in(1000 * MIB, 1 << 40, 20 * MIB), Ok(()));
        assert_eq!(room_in(1000 * MIB, 1 << 40, 20 * MIB + 1), Err(RESERVE));
        assert_eq!(room_in(0, 1 << 40, 1), Err(RESERVE));
    }
}
