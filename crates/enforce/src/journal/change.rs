//! What the journal can hold: one change of the host, with its value before and ours.

use crate::cpus::{Cpus, read_list};
use crate::device::DeviceId;
use crate::thread::ThreadId;
use cofferdam_host::parse;
use cofferdam_types::CpuId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// Something on the host that has one value, and keeps it until another is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A file of cgroupfs, procfs or the host's sysfs. `directory_inode` is that of the
    /// directory it is in: a cgroup made anew at the same path is another one.
    File {
        /// Where.
        path: PathBuf,
        /// Inode number of its directory.
        directory_inode: u64,
    },
    /// A file in a network device's sysfs directory, such as `threaded`.
    DeviceFile {
        /// Whose.
        device: DeviceId,
        /// Below `/sys/class/net/DEVICE/`.
        file: PathBuf,
    },
    /// Whether a network device's NAPI instances poll in threads, over netlink: `0` or `1`.
    Napis {
        /// Whose.
        device: DeviceId,
    },
    /// Whether the sysfs of a network device's namespace is read-only for everybody: `ro` or
    /// `rw`. Ours only for the moment of a write.
    Sysfs {
        /// A device in the namespace.
        device: DeviceId,
    },
    /// An offload of a network device, by the kernel's name (`rx-gro`); `on` or `off`.
    Feature {
        /// Whose.
        device: DeviceId,
        /// The kernel's name.
        name: String,
    },
    /// The cgroup of a thread in one hierarchy.
    ThreadCgroup {
        /// Which thread.
        thread: ThreadId,
        /// Where the hierarchy is mounted.
        mount: PathBuf,
    },
    /// The CPUs that a thread may run on.
    ThreadCpus(
        /// Which thread.
        ThreadId,
    ),
    /// A directory that we made: `present` or `absent`.
    Directory {
        /// Where.
        path: PathBuf,
        /// Inode number of the directory it is in.
        parent_inode: u64,
    },
}

/// How values of a target are compared: the kernel spells them its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As text, blanks at the ends and between words aside.
    Text,
    /// A list of CPUs, such as `0-2,5`.
    CpuList,
    /// A mask of CPUs, such as `00000000,00000003`.
    CpuMask,
}

impl Form {
    /// One spelling for all that mean the same.
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

/// One change in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What was changed.
    pub target: Target,
    /// How its values are compared.
    pub form: Form,
    /// What it was.
    pub before: String,
    /// What we wrote, newest last; at most two, as the newest may not have been written yet.
    pub ours: Vec<String>,
}

impl Change {
    /// Notes a value that is about to be written.
    pub(super) fn will_be(&mut self, value: &str) {
        if self.ours.last().is_none_or(|last| last != value) {
            self.ours.push(value.to_owned());
        }
        if self.ours.len() > 2 {
            self.ours.remove(0);
        }
    }

    /// Notes that another program has written `found`, which is what is put back from now on.
    /// Nothing of ours is there any more: should our former values come back, they are that
    /// program's too.
    pub(super) fn was_rewritten(&mut self, found: &str) {
        found.clone_into(&mut self.before);
        self.ours.clear();
    }

    /// Whether `found` is what we wrote.
    pub(super) fn is_ours(&self, found: &str) -> bool {
        let found = self.form.canonical(found);
        self.ours.iter().any(|o| self.form.canonical(o) == found)
    }

    /// Whether `found` is what the kernel, or taking back, made of a list of ours: without the
    /// CPUs that are offline (cgroup v1 strikes them out for good), or joined with the list before
    /// (see [`super::back`]). The list before itself is neither: another program wrote that.
    pub(super) fn came_of_ours(&self, found: &str, online: &Cpus) -> bool {
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

    /// Whether `found` is what was there before.
    pub(super) fn is_before(&self, found: &str) -> bool {
        self.form.canonical(&self.before) == self.form.canonical(found)
    }
}

impl Target {
    /// The file at `path`, as it is now.
    ///
    /// # Errors
    /// When its directory cannot be looked at: it is gone.
    pub fn file(path: &Path) -> std::io::Result<Target> {
        Ok(Target::File {
            path: path.to_owned(),
            directory_inode: inode_of_parent(path)?,
        })
    }

    /// A directory that is to be made at `path`.
    ///
    /// # Errors
    /// When the directory above it cannot be looked at.
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
    fn what_is_no_list_is_compared_as_text() {
        assert_eq!(Form::CpuList.canonical("1-0"), "1-0");
        assert_eq!(Form::CpuList.canonical("0-4294967295"), "0-4294967295");
    }
}
