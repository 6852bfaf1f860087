//! Reads and writes the value of a target on the host.

use super::change::{Target, inode_of_parent};
use crate::device::Inside;
use crate::thread;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Value of a directory that we created, while it exists.
pub(super) const PRESENT: &str = "present";
/// Values of a namespace's sysfs.
pub(super) const READ_ONLY: &str = "ro";
pub(super) const WRITABLE: &str = "rw";
/// Value of a directory before we created it.
pub(super) const ABSENT: &str = "absent";

/// Current value of the target. An error of kind `NotFound` means that the object is gone, or that
/// another one has its place.
pub(super) fn read(target: &Target) -> io::Result<String> {
    match target {
        Target::File {
            path,
            directory_inode,
        } => {
            same_directory(path, *directory_inode)?;
            read_small(path)
        }
        Target::DeviceFile { device, file } => Inside::of(device)?.read(device, file),
        Target::Napis { device } => Inside::of(device)?.napis_threaded(device),
        Target::Sysfs { device } => {
            let read_only = Inside::of(device)?.is_read_only()?;
            Ok(if read_only { READ_ONLY } else { WRITABLE }.to_owned())
        }
        Target::Feature { device, name } => {
            let on = Inside::of(device)?.feature(device, name)?;
            Ok(if on { "on" } else { "off" }.to_owned())
        }
        Target::ThreadCgroup { thread, mount } => thread::cgroup(*thread, mount),
        Target::ThreadCpus(thread) => thread::cpus(*thread),
        Target::Directory { path, parent_inode } => {
            same_directory(path, *parent_inode)?;
            Ok(if path.is_dir() { PRESENT } else { ABSENT }.to_owned())
        }
    }
}

/// Writes a value of the target.
pub(super) fn write(target: &Target, value: &str) -> io::Result<()> {
    match target {
        Target::File {
            path,
            directory_inode,
        } => {
            same_directory(path, *directory_inode)?;
            write_small(path, value)
        }
        Target::DeviceFile { device, file } => Inside::of(device)?.write(device, file, value),
        Target::Napis { device } => Inside::of(device)?.set_napis_threaded(device, value),
        Target::Sysfs { device } => Inside::of(device)?.set_read_only(value == READ_ONLY),
        Target::Feature { device, name } => {
            Inside::of(device)?.set_feature(device, name, value == "on")
        }
        Target::ThreadCgroup { thread, mount } => thread::set_cgroup(*thread, mount, value),
        Target::ThreadCpus(thread) => thread::set_cpus(*thread, value),
        Target::Directory { path, parent_inode } => {
            same_directory(path, *parent_inode)?;
            if value == PRESENT {
                fs::create_dir(path)
            } else {
                thread::empty_cgroup(path)?;
                fs::remove_dir(path)
            }
        }
    }
}

fn same_directory(path: &Path, inode: u64) -> io::Result<()> {
    if inode_of_parent(path)? == inode {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "a different directory by now",
        ))
    }
}

/// Largest setting, bytes: a list of CPUs may be long.
const MOST_BYTES: u64 = 64 << 10;

fn read_small(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut options = OpenOptions::new();
    // Only kernel files are read: a link or a FIFO in the place of one is refused.
    let options = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.read(true).open(path)?;
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

/// Writes a value at once, without truncation: kernel files accept it as a whole or not at all. An
/// empty value is written as a newline, because the kernel ignores an empty write.
fn write_small(path: &Path, value: &str) -> io::Result<()> {
    #[cfg(test)]
    super::fake_kernel::judge(path, value)?;
    let bytes: &[u8] = if value.is_empty() {
        b"\n"
    } else {
        value.as_bytes()
    };
    let mut options = OpenOptions::new();
    options
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    if is_plain(path) {
        options.truncate(true);
    }
    options.open(path)?.write_all(bytes)?;
    #[cfg(test)]
    super::fake_kernel::follow();
    Ok(())
}

/// Whether the file is in an ordinary file system, such as a test's synthetic tree.
fn is_plain(path: &Path) -> bool {
    ["/sys", "/proc"].iter().all(|root| !path.starts_with(root))
}
