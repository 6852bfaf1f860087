//! Closed list of the changes that Cofferdam makes: files and file systems, attributes, and the
//! spelling of their values. The journal makes and reverts no other change, even if its file
//! contains one.
//!
//! The check also runs before a change is made, so a new kind of change fails in its first test
//! until it is listed here. Rejected: a keyed checksum. A user who can write the file can also read
//! a key next to it.

use super::change::{Change, Form, Target};
use super::values::{ABSENT, PRESENT, READ_ONLY, WRITABLE};
use crate::cpus::read_list;
use crate::thread;
use cofferdam_host::HostFs;
use nix::sys::statfs::{
    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, FsType, PROC_SUPER_MAGIC, SYSFS_MAGIC, statfs,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Name of our cgroup below a container's, for its NAPI threads. A separate cgroup, so that the
/// runtime finds in its own no thread that it cannot end.
pub(crate) const NAPI_CGROUP: &str = "cofferdam.napi";
/// Offload without which veth has no NAPI.
pub(crate) const GRO: &str = "rx-gro";

/// Longest value, bytes: a list of CPUs may be long.
const MOST_VALUE_BYTES: usize = 64 << 10;

/// Change that Cofferdam never makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Cofferdam never makes such a change: {0}")]
pub struct UnlistedChange(&'static str);

impl From<UnlistedChange> for io::Error {
    fn from(unlisted: UnlistedChange) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, unlisted)
    }
}

type CheckResult<T> = Result<T, UnlistedChange>;

/// Comparison and spelling of the values of one target.
struct Spelling {
    form: Form,
    is_value: fn(&str) -> bool,
}

/// Name of a file, the form of its values, and a check of their spelling.
type ListedFile = (&'static str, Form, fn(&str) -> bool);

/// Permitted files of a cgroup's directory.
const CGROUP_FILES: [ListedFile; 9] = [
    ("cpu.shares", Form::Text, is_number),
    ("cpu.weight", Form::Text, is_number),
    ("cpu.cfs_quota_us", Form::Text, is_v1_quota),
    ("cpu.cfs_burst_us", Form::Text, is_number),
    ("cpu.max", Form::Text, is_v2_quota),
    ("cpu.max.burst", Form::Text, is_number),
    ("cpuset.cpus", Form::CpuList, is_cpu_list),
    ("pids.max", Form::Text, is_limit),
    ("cgroup.max.descendants", Form::Text, is_limit),
];

/// File system that must contain a file.
#[derive(Clone, Copy)]
enum FileSystem {
    Cgroup,
    Proc,
    Sysfs,
}

/// Checks that Cofferdam makes changes such as `change` on the host `fs`. A target that is gone
/// passes: nothing is written to it.
///
/// # Errors
/// Returns the reason for the refusal.
pub fn check_listed(fs: &HostFs, change: &Change) -> CheckResult<()> {
    let spelling = spelling_of(fs, &change.target)?;
    if change.form != spelling.form {
        return Err(UnlistedChange("its values are compared in another way"));
    }
    let mut values = change.ours.iter().chain([&change.before]);
    let is_value = |value: &String| value.len() <= MOST_VALUE_BYTES && (spelling.is_value)(value);
    match values.all(is_value) {
        true => Ok(()),
        false => Err(UnlistedChange("it has no such value")),
    }
}

fn spelling_of(fs: &HostFs, target: &Target) -> CheckResult<Spelling> {
    let text = |is_value| Spelling {
        form: Form::Text,
        is_value,
    };
    match target {
        Target::File { path, .. } => of_file(fs, path),
        Target::DeviceFile { file, .. } => of_device_file(file),
        Target::Napis { .. } => Ok(text(|value| value.split(' ').all(is_number))),
        Target::Sysfs { .. } => Ok(text(|value| [READ_ONLY, WRITABLE].contains(&value))),
        Target::Feature { name, .. } => match name == GRO || is_tcp_segmentation(name) {
            true => Ok(text(|value| ["on", "off"].contains(&value))),
            false => Err(UnlistedChange("it is none of the offloads")),
        },
        Target::ThreadCgroup { thread, mount } => {
            check_napi_thread(*thread)?;
            check_plain(mount)?;
            check_directory(fs, mount, FileSystem::Cgroup)?;
            Ok(text(is_cgroup_path))
        }
        Target::ThreadCpus(thread) => {
            check_napi_thread(*thread)?;
            Ok(Spelling {
                form: Form::CpuList,
                is_value: is_cpu_list,
            })
        }
        Target::Directory { path, .. } => {
            if path.file_name() != Some(OsStr::new(NAPI_CGROUP)) {
                return Err(UnlistedChange("it is no directory of ours"));
            }
            check_parent(fs, path, FileSystem::Cgroup)?;
            Ok(text(|value| [PRESENT, ABSENT].contains(&value)))
        }
    }
}

/// Whether an offload makes the kernel or the device split TCP segments.
pub(crate) fn is_tcp_segmentation(feature: &str) -> bool {
    feature.starts_with("tx-tcp") && feature.ends_with("-segmentation")
}

fn of_file(fs: &HostFs, path: &Path) -> CheckResult<Spelling> {
    let none = UnlistedChange("it is none of the files");
    let below = path.strip_prefix(fs.path("/")).map_err(|_| none)?;
    let names: Vec<&[u8]> = below.iter().map(OsStrExt::as_bytes).collect();
    let (form, is_value, file_system): (_, fn(&str) -> bool, _) = match names.as_slice() {
        [b"proc", b"irq", b"default_smp_affinity"] => (Form::CpuMask, is_mask, FileSystem::Proc),
        [b"proc", b"irq", number, b"smp_affinity_list"] if is_digits(number) => {
            (Form::CpuList, is_cpu_list, FileSystem::Proc)
        }
        [b"sys", b"class", b"net", _, b"queues", queue, b"rps_cpus"] if is_rx_queue(queue) => {
            (Form::CpuMask, is_mask, FileSystem::Sysfs)
        }
        [.., name] => {
            let mut files = CGROUP_FILES.into_iter();
            let found = files.find(|(file, ..)| file.as_bytes() == *name);
            let (_, form, is_value) = found.ok_or(none)?;
            (form, is_value, FileSystem::Cgroup)
        }
        [] => return Err(none),
    };
    check_parent(fs, path, file_system)?;
    Ok(Spelling { form, is_value })
}

fn of_device_file(file: &Path) -> CheckResult<Spelling> {
    let names: Vec<&[u8]> = file.iter().map(OsStrExt::as_bytes).collect();
    match names.as_slice() {
        [b"threaded"] => Ok(Spelling {
            form: Form::Text,
            is_value: is_number,
        }),
        [b"queues", queue, b"rps_cpus"] if is_rx_queue(queue) => Ok(Spelling {
            form: Form::CpuMask,
            is_value: is_mask,
        }),
        _ => Err(UnlistedChange("it is none of a device's files")),
    }
}

/// Checks that a thread is a kernel thread that polls a network device. A thread that has ended
/// passes.
fn check_napi_thread(thread: thread::ThreadId) -> CheckResult<()> {
    match thread::is_napi(thread) {
        Ok(false) => Err(UnlistedChange("it is no NAPI thread")),
        Ok(true) | Err(_) => Ok(()),
    }
}

fn check_parent(fs: &HostFs, path: &Path, file_system: FileSystem) -> CheckResult<()> {
    check_plain(path)?;
    let parent = path.parent().ok_or(UnlistedChange("it has no directory"))?;
    check_directory(fs, parent, file_system)
}

/// Checks that a path is absolute and without `.`, `..` and redundant separators.
fn check_plain(path: &Path) -> CheckResult<()> {
    let mut parts = path.components();
    let plain: PathBuf = path.components().collect();
    let is_absolute = parts.next() == Some(Component::RootDir);
    let is_plain = parts.all(|part| matches!(part, Component::Normal(_)));
    match is_absolute && is_plain && plain.as_os_str() == path.as_os_str() {
        true => Ok(()),
        false => Err(UnlistedChange("its path is not absolute and plain")),
    }
}

/// Checks that a directory is in a file system of the kernel. Symbolic links are refused, except in
/// sysfs.
fn check_directory(fs: &HostFs, directory: &Path, file_system: FileSystem) -> CheckResult<()> {
    let real = match directory.canonicalize() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => return Err(UnlistedChange("its directory cannot be reached")),
        Ok(real) => real,
    };
    if real != directory && !matches!(file_system, FileSystem::Sysfs) {
        return Err(UnlistedChange("a symbolic link leads to it"));
    }
    match is_of(fs, &real, file_system) {
        true => Ok(()),
        false => Err(UnlistedChange("it is in another file system")),
    }
}

fn is_of(fs: &HostFs, real: &Path, file_system: FileSystem) -> bool {
    let root = fs.path("/");
    if root == Path::new("/") {
        let wanted: &[FsType] = match file_system {
            FileSystem::Cgroup => &[CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC],
            FileSystem::Proc => &[PROC_SUPER_MAGIC],
            FileSystem::Sysfs => &[SYSFS_MAGIC],
        };
        return statfs(real).is_ok_and(|found| wanted.contains(&found.filesystem_type()));
    }
    // A copy of a host's files in an ordinary file system, for tests.
    real.starts_with(root.join(match file_system {
        FileSystem::Cgroup => "sys/fs/cgroup",
        FileSystem::Proc => "proc",
        FileSystem::Sysfs => "sys",
    }))
}

fn is_digits(text: &[u8]) -> bool {
    (1..=20).contains(&text.len()) && text.iter().all(u8::is_ascii_digit)
}

fn is_rx_queue(name: &[u8]) -> bool {
    name.strip_prefix(b"rx-").is_some_and(is_digits)
}

fn is_number(value: &str) -> bool {
    is_digits(value.as_bytes())
}

fn is_limit(value: &str) -> bool {
    value == "max" || is_number(value)
}

fn is_v1_quota(value: &str) -> bool {
    value == "-1" || is_number(value)
}

/// Checks for `QUOTA PERIOD`, in microseconds.
fn is_v2_quota(value: &str) -> bool {
    let words: Vec<&str> = value.split_whitespace().collect();
    matches!(words.as_slice(), [quota, period] if is_limit(quota) && is_number(period))
}

fn is_cpu_list(value: &str) -> bool {
    value.is_empty() || read_list(value).is_some()
}

fn is_mask(value: &str) -> bool {
    let is_group = |group: &str| {
        (1..=8).contains(&group.len()) && group.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    value.split(',').all(is_group)
}

/// Checks for a path below the hierarchy's mount, or `/..` and so on: a cgroup outside of our
/// cgroup namespace.
fn is_cgroup_path(value: &str) -> bool {
    let Some(below) = value.strip_prefix('/') else {
        return false;
    };
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    below.is_empty() || below.split('/').all(is_name) || below.split('/').all(|name| name == "..")
}

#[cfg(test)]
mod tests;
