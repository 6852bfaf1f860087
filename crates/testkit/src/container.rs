//! A container without a runtime.

use crate::cgroup::Cgroup;
use crate::command::spawn;
use crate::net::{Namespace, Net};
use crate::place::{Place, open};
use cofferdam_lab::Process;
use cofferdam_lab::command::{output, split};
use cofferdam_lab::place::Spot;
use std::path::Path;
use std::process::Command;

/// A cgroup, a network namespace, and one idle process inside both: what Cofferdam takes for a
/// container when it knows no runtime. Looks as `Plain` does in the ledger.
pub struct FakeContainer {
    // Dropped in this order: first the process, then what it lives in.
    idle: Process,
    cgroup: Cgroup,
    netns: Namespace,
}

impl FakeContainer {
    /// Makes the cgroup and the namespace under one `cf-PID-N-LABEL` each.
    #[track_caller]
    pub fn new(label: &str) -> FakeContainer {
        let netns = Namespace::new(label);
        let cgroup = Cgroup::new(label);
        let mut command = Command::new("sleep");
        command.arg("infinity");
        spot(&cgroup, &netns).pre_exec(&mut command);
        let idle = spawn(command, "sleep infinity");
        FakeContainer {
            idle,
            cgroup,
            netns,
        }
    }

    /// The name that Cofferdam gives it: the last part of its cgroup path.
    pub fn name(&self) -> &str {
        let name = self.cgroup.path().file_name();
        name.and_then(|n| n.to_str())
            .expect("cgroup names are made of ASCII")
    }

    /// Its v2 cgroup id.
    #[track_caller]
    pub fn id(&self) -> u64 {
        self.cgroup.id()
    }

    /// The idle process.
    pub fn pid(&self) -> u32 {
        self.idle.pid()
    }

    /// Its cgroup.
    pub fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// Its namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.netns
    }

    /// Path of its cgroup below the v2 mount.
    pub fn cgroup_path(&self) -> &Path {
        self.cgroup.path()
    }

    /// Runs a command inside cgroup and namespace and returns its output. (`Net::run` enters
    /// the namespace only.)
    #[track_caller]
    pub fn exec(&self, line: &str) -> String {
        match output(self.command(line), line, "") {
            Ok(out) => out,
            Err(e) => panic!("in container {}: {e}", self.name()),
        }
    }

    /// Starts a command inside cgroup and namespace.
    #[track_caller]
    pub fn start(&self, line: &str) -> Process {
        spawn(self.command(line), line)
    }

    #[track_caller]
    fn command(&self, line: &str) -> Command {
        let mut command = split(line);
        self.spot().pre_exec(&mut command);
        command
    }
}

fn spot(cgroup: &Cgroup, netns: &Namespace) -> Spot {
    open(Some(&netns.path()), cgroup.dirs())
}

impl Place for FakeContainer {
    fn spot(&self) -> Spot {
        spot(&self.cgroup, &self.netns)
    }
}

impl Net for FakeContainer {
    fn netns(&self) -> Option<&str> {
        self.netns.netns()
    }
}
