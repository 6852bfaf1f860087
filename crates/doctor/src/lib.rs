//! Capabilities of this host, found by trying them. A version number shows neither parts that a
//! distribution left out, nor restrictions by lockdown or a container.
//!
//! Probes load tiny programs and close them. Probes that need a device use a veth pair in a
//! separate network namespace, which ends with the probe. No existing device, cgroup or setting is
//! changed.

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
    /// Yes.
    Yes,
    /// Partly; the detail says which part, or that it is unknown.
    Partly,
    /// No.
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
    /// Name in a table.
    pub capability: String,
    /// Whether the host has it.
    pub status: Status,
    /// Finding of the probe.
    pub detail: String,
    /// Function of Cofferdam that needs it.
    pub enables: String,
    /// Remedy, if something is missing and there is one.
    pub remedy: Option<String>,
    /// Whether the accounting needs it.
    pub required_for_accounting: bool,
    /// Whether this process has the rights to find out. If not, the status is [`Status::No`] or
    /// [`Status::Partly`], and is no statement about the host.
    pub permitted: bool,
}

/// Remedy for missing rights.
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

    /// Result of a check that needs more rights.
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

    /// Sets the remedy, unless the capability is complete.
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

/// Report of all probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Checks in the order of a table: those for the accounting come first.
    pub checks: Vec<Check>,
}

impl Report {
    /// First check without which the accounting cannot run; `None` when it can run.
    pub fn accounting_blocker(&self) -> Option<&Check> {
        self.checks.iter().find(|check| check.blocks_accounting())
    }

    /// Whether this process had the rights to find out everything.
    pub fn is_permitted(&self) -> bool {
        self.checks.iter().all(|check| check.permitted)
    }

    /// Check with the name `id`.
    pub fn check(&self, id: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.id == id)
    }
}

/// Probes everything, within a fraction of a second. Works without root: capabilities that could
/// not be tested are marked.
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

/// Probes only the capabilities that the accounting needs, for commands that are about to start it.
/// Takes tens of milliseconds.
pub fn accounting_blocker() -> Option<Check> {
    let fs = HostFs::host();
    let mut checks = vec![limits::capabilities(&fs)];
    checks.extend(bpf::required());
    checks.push(cgroup::layout(&fs));
    checks.into_iter().find(Check::blocks_accounting)
}
