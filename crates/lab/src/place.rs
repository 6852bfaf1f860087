//! Place of a process: a network namespace and cgroups.

use crate::LabError;
use nix::sched::{CloneFlags, setns};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Opened network namespace and cgroups.
#[derive(Debug, Default)]
pub struct Spot {
    /// Namespace; `None`: the caller's.
    netns: Option<OpenFile>,
    /// `cgroup.procs` files, opened for writing.
    cgroups: Vec<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    file: File,
}

impl Spot {
    /// Opens the namespace at a path such as `/run/netns/NAME`; `None` is the caller's. `cgroups`
    /// are directories.
    pub fn open(netns: Option<&Path>, cgroups: &[PathBuf]) -> Result<Spot, LabError> {
        let netns = netns.map(|path| match File::open(path) {
            Ok(file) => Ok(OpenFile {
                path: path.to_owned(),
                file,
            }),
            Err(e) => Err(LabError::host("open", path)(e)),
        });
        let procs = |dir: &PathBuf| {
            let path = dir.join("cgroup.procs");
            match OpenOptions::new().write(true).open(&path) {
                Ok(file) => Ok(OpenFile { path, file }),
                Err(e) => Err(LabError::host("join", path)(e)),
            }
        };
        Ok(Spot {
            netns: netns.transpose()?,
            cgroups: cgroups.iter().map(procs).collect::<Result<_, _>>()?,
        })
    }

    /// Moves the calling thread into the namespace, then its process into the cgroups. In this
    /// order, a watcher of cgroups sees at once that the process is a container.
    pub fn enter(&self) -> Result<(), LabError> {
        if let Some(netns) = &self.netns {
            netns.set().map_err(LabError::host("enter", &netns.path))?;
        }
        for procs in &self.cgroups {
            procs.join().map_err(LabError::host("join", &procs.path))?;
        }
        Ok(())
    }

    /// Makes `command` start inside the spot.
    pub fn pre_exec(self, command: &mut Command) {
        let enter = move || {
            self.netns.iter().try_for_each(OpenFile::set)?;
            self.cgroups.iter().try_for_each(OpenFile::join)
        };
        // SAFETY: between fork and exec only write and setns are called on files that are open
        // already: system calls, no lock, no memory.
        unsafe {
            command.pre_exec(enter);
        }
    }
}

impl OpenFile {
    fn set(&self) -> io::Result<()> {
        Ok(setns(&self.file, CloneFlags::CLONE_NEWNET)?)
    }

    /// "0" means the writing process, on v1 and v2 alike.
    fn join(&self) -> io::Result<()> {
        (&self.file).write_all(b"0")
    }
}
