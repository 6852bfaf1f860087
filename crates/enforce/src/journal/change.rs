//! One change of the host: a target with its value before and ours.

use crate::cpus::{Cpus, read_list};
use crate::device::DeviceId;
use crate::thread::ThreadId;
use cofferdam_host::parse;
use cofferdam_types::CpuId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// Setting of the host that keeps its value until another is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// File of cgroupfs, procfs or the host's sysfs. A cgroup created again at the same path is
    /// another target, because its directory has another inode.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Inode number of the file's directory.
        directory_inode: u64,
    },
    /// File in a network device's sysfs directory, such as `threaded`.
    DeviceFile {
        /// Network device.
        device: DeviceId,
        /// Path below `/sys/class/net/DEVICE/`.
        file: PathBuf,
    },
    /// Whether a network device's NAPI instances poll in threads, over netlink: `0` or `1`.
    Napis {
        /// Network device.
        device: DeviceId,
    },
    /// Whether the sysfs of a network device's namespace is read-only for all mounts: `ro` or `rw`.
    /// Changed only for the moment of a write.
    Sysfs {
        /// Any device in the namespace.
        device: DeviceId,
    },
    /// Offload of a network device by the kernel's name (`rx-gro`): `on` or `off`.
    Feature {
        /// Network device.
        device: DeviceId,
        /// Name of the offload.
        name: String,
    },
    /// Cgroup of a thread in one hierarchy.
    ThreadCgroup {
        /// Thread that is moved.
        thread: ThreadId,
        /// Mount point of the hierarchy.
        mount: PathBuf,
    },
    /// CPUs that a thread may run on.
    ThreadCpus(
        /// Thread that is bound.
        ThreadId,
    ),
    /// Directory that we created: `present` or `absent`.
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Inode number of the parent directory.
        parent_inode: u64,
    },
}

/// Comparison of a target's values: the kernel spells them in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Text, without regard to blanks at the ends and between words.
    Text,
    /// List of CPUs, such as `0-2,5`.
    CpuList,
    /// Mask of CPUs, such as `00000000,00000003`.
    CpuMask,
}

impl Form {
    /// Returns one spelling for all values that mean the same.
    pub fn canonical(self, value: &str) -> String {
        let words = || value.split_whitespace().collect::<Vec<_>>().join(" ");
        match self {
            Form::Text => words(),
            Form::CpuList => parse::cpu_list(value).map_or_else(words, |cpus| {
                let cpus: Vec<String> = cpus.iter().map(CpuId::to_string).collect();
                cpus.join(",")
            }),
            Form::CpuMask => {
                let mut digits: String = value
                    .trim()
                    .split(',')
                    .enumerate()
                    .map(|(i, group)| {
                        if i == 0 {
                            group.to_owned()
                        } else {
                            format!("{group:0>8}")
                        }
                    })
                    .collect();
                digits.make_ascii_lowercase();
                match digits.trim_start_matches('0') {
                    "" => "0".to_owned(),
                    rest => rest.to_owned(),
                }
            }
        }
    }
}

/// Change in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Setting that was changed.
    pub target: Target,
    /// Comparison of its values.
    pub form: Form,
    /// Value before the change.
    pub before: String,
    /// Values that we wrote, latest last; at most two, because the latest may not have been written
    /// yet.
    pub ours: Vec<String>,
}

impl Change {
    /// Adds a value that is about to be written.
    pub(super) fn add_value(&mut self, value: &str) {
        if self.ours.last().is_none_or(|last| last != value) {
            self.ours.push(value.to_owned());
        }
        if self.ours.len() > 2 {
            self.ours.remove(0);
        }
    }

    /// Sets the value `found` of another program as the one to revert to. Our values no longer
    /// count: if they appear again, that program wrote them.
    pub(super) fn revert_to(&mut self, found: &str) {
        found.clone_into(&mut self.before);
        self.ours.clear();
    }

    /// Whether `found` is a value that we wrote.
    pub(super) fn is_ours(&self, found: &str) -> bool {
        let found = self.form.canonical(found);
        self.ours.iter().any(|o| self.form.canonical(o) == found)
    }

    /// Whether `found` derives from a list of ours: without offline CPUs (cgroup v1 removes them
    /// for good), or joined with the former list (see [`super::revert`]). The former list itself
    /// does not count: another program wrote that.
    pub(super) fn derives_from_ours(&self, found: &str, online: &Cpus) -> bool {
        if self.form != Form::CpuList {
            return false;
        }
        let Some(found) = read_list(found) else {
            return false;
        };
        let before = read_list(&self.before).unwrap_or_default();
        self.ours
            .iter()
            .filter_map(|text| read_list(text))
            .any(|ours| {
                let all = |cpu: &CpuId| ours.contains(cpu) || before.contains(cpu);
                let narrowed = ours.intersection(online).eq(&found);
                narrowed
                    || (found != before
                        && found.is_superset(&ours)
                        && found.is_superset(&before)
                        && found.iter().all(all))
            })
    }

    /// Whether `found` is the former value.
    pub(super) fn is_before(&self, found: &str) -> bool {
        self.form.canonical(&self.before) == self.form.canonical(found)
    }
}

impl Target {
    /// Returns the target for the file at `path` in its current directory.
    ///
    /// # Errors
    /// Fails if the directory is gone.
    pub fn file(path: &Path) -> std::io::Result<Target> {
        Ok(Target::File {
            path: path.to_owned(),
            directory_inode: inode_of_parent(path)?,
        })
    }

    /// Returns the target for a new directory at `path`.
    ///
    /// # Errors
    /// Fails if the parent directory is gone.
    pub fn directory(path: &Path) -> std::io::Result<Target> {
        Ok(Target::Directory {
            path: path.to_owned(),
            parent_inode: inode_of_parent(path)?,
        })
    }
}

pub(super) fn inode_of_parent(path: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let parent = path.parent().unwrap_or(Path::new("/"));
    Ok(std::fs::metadata(parent)?.ino())
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::File { path, .. } => write!(f, "{}", path.display()),
            Target::DeviceFile { device, file } => write!(f, "{} of {device}", file.display()),
            Target::Napis { device } => write!(f, "threaded NAPI of {device}"),
            Target::Sysfs { device } => write!(f, "sysfs of net:[{}]", device.netns),
            Target::Feature { device, name } => write!(f, "{name} of {device}"),
            Target::ThreadCgroup { thread, mount } => {
                write!(f, "cgroup of thread {} in {}", thread.tid, mount.display())
            }
            Target::ThreadCpus(thread) => write!(f, "CPUs of thread {}", thread.tid),
            Target::Directory { path, .. } => write!(f, "directory {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_value_are_equal() {
        let same = |form: Form, a: &str, b: &str| {
            assert_eq!(form.canonical(a), form.canonical(b), "{a} {b}");
        };
        same(Form::CpuList, "0-2,5\n", "5,0,1,2");
        same(Form::CpuList, "", "\n");
        same(Form::CpuMask, "00000000,00000003\n", "3");
        same(Form::CpuMask, "1,00000000", "00000001,00000000");
        same(Form::CpuMask, "0", "00");
        same(Form::Text, " 50000   100000\n", "50000 100000");
        assert_ne!(
            Form::CpuMask.canonical("1,00000000"),
            Form::CpuMask.canonical("1")
        );
        assert_ne!(
            Form::CpuList.canonical("0-1"),
            Form::CpuList.canonical("0,2")
        );
    }

    #[test]
    fn a_malformed_list_is_compared_as_text() {
        assert_eq!(Form::CpuList.canonical("1-0"), "1-0");
        assert_eq!(Form::CpuList.canonical("0-4294967295"), "0-4294967295");
    }
}
