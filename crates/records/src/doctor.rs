//! Capabilities of a host: schema `cofferdam.doctor/1`, the document of `doctor --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema of [`DoctorReport`].
pub const DOCTOR: &str = "cofferdam.doctor/1";

/// Capabilities of this host: the document of `doctor --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorReport {
    /// Always `cofferdam.doctor/1`.
    pub schema: String,
    /// Time of the examination, RFC 3339 in UTC.
    pub time: String,
    /// Whether the accounting can run. If false, the exit code is 3.
    pub accounting: bool,
    /// Reason why the accounting cannot run, and the remedy; null when it can.
    pub accounting_blocker: Option<String>,
    /// Every capability that was probed.
    pub checks: Vec<DoctorCheck>,
}

/// One capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorCheck {
    /// Stable name for scripts.
    pub id: String,
    /// Description of the capability, for people.
    pub capability: String,
    /// `yes`, `partly` or `no`.
    pub status: String,
    /// Finding of the probe.
    pub detail: String,
    /// Function that needs the capability.
    pub enables: String,
    /// Way to obtain the capability; null if there is nothing to do.
    pub remedy: Option<String>,
    /// Whether the accounting needs the capability.
    pub required_for_accounting: bool,
}
