//! What this host can do for Cofferdam, found by trying it: a version number says neither what
//! a distribution left out nor what lockdown or a container forbids.
//!
//! Probes load tiny programs and close them; those that need a device use a veth pair in a separate
//! network namespace, which ends with the probe. No existing device, cgroup or setting is changed.

mod bpf;
mod cgroup;
mod limits;
mod net;
mod runtimes;
mod sandbox;
#[cfg(test)]
mod tests;

use cofferdam_host::HostFs;
use serde::Serialize;
use std::fmt;

/// Whether the host has a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It works.
    Yes,
    /// Partly; the detail says which part, or that it is unknown.
    Partly,
    /// It does not.
    No,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Status::Yes => "yes",
            Status::Partly => "partly",
            Status::No => "no",
        })
    }
}

/// One capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable name for scripts, such as `tp-btf`.
    pub id: &'static str,
    /// What it is called in a table.
    pub capability: String,
    /// Whether the host has it.
    pub status: Status,
    /// What the probe saw.
    pub detail: String,
    /// What Cofferdam does with it.
    pub enables: String,
    /// What to do when it is missing and something can be done.
    pub remedy: Option<String>,
    /// Whether the accounting cannot run without it.
    pub required_for_accounting: bool,
    /// False where this process lacks the rights to find out: the status is then [`Status::No`] or
    /// [`Status::Partly`], and says nothing about the host.
    pub permitted: bool,
}

/// Remedy where rights are missing.
const ASK_AS_ROOT: &str = "run it as root: sudo cofferdam doctor";

impl Check {
    fn new(id: &'static str, capability: &str, enables: &str) -> Check {
        Check {
            id,
            capability: capability.to_owned(),
            status: Status::No,
            detail: String::new(),
            enables: enables.to_owned(),
            remedy: None,
            required_for_accounting: false,
            permitted: true,
        }
    }

    /// What cannot be found out without more rights.
    fn not_permitted(mut self, status: Status, detail: impl Into<String>) -> Check {
        self.permitted = false;
        self.is(status, detail).or(ASK_AS_ROOT)
    }

    fn required(mut self) -> Check {
        self.required_for_accounting = true;
        self
    }

    fn is(mut self, status: Status, detail: impl Into<String>) -> Check {
        self.status = status;
        self.detail = detail.into();
        self
    }

    /// The remedy is kept only for what is not fully there.
    fn or(mut self, remedy: impl Into<String>) -> Check {
        if self.status != Status::Yes {
            self.remedy = Some(remedy.into());
        }
        self
    }

    fn blocks_accounting(&self) -> bool {
        self.required_for_accounting && self.status == Status::No
    }
}

/// Everything that was probed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In the order of a table: what the accounting needs comes first.
    pub checks: Vec<Check>,
}

impl Report {
    /// The first thing without which the accounting cannot run; `None` when it can.
    pub fn accounting_blocker(&self) -> Option<&Check> {
        self.checks.iter().find(|check| check.blocks_accounting())
    }

    /// Whether this process had the rights to find out everything.
    pub fn is_permitted(&self) -> bool {
        self.checks.iter().all(|check| check.permitted)
    }

    /// The check called `id`.
    pub fn check(&self, id: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.id == id)
    }
}

/// Probes everything. Takes a fraction of a second. Works without root; capabilities that could not
/// be tested are marked as such.
pub fn examine() -> Report {
    examine_in(&HostFs::host())
}

fn examine_in(fs: &HostFs) -> Report {
    let mut checks = vec![limits::capabilities(fs)];
    checks.extend(bpf::required());
    checks.push(cgroup::layout(fs));
    checks.extend(bpf::optional());
    checks.extend(sandbox::probe());
    checks.extend(net::devices(fs));
    checks.extend(cgroup::controllers(fs));
    checks.extend(limits::kernel(fs));
    checks.extend(limits::resources());
    checks.extend(runtimes::all(fs));
    Report { checks }
}

/// Only what the accounting needs: for every command that is about to start it. Takes some
/// tens of milliseconds.
pub fn accounting_blocker() -> Option<Check> {
    let fs = HostFs::host();
    let mut checks = vec![limits::capabilities(&fs)];
    checks.extend(bpf::required());
    checks.push(cgroup::layout(&fs));
    checks.into_iter().find(Check::blocks_accounting)
}
