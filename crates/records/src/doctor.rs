//! What a host can do: schema `cofferdam.doctor/1`, the document of `doctor --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema of [`DoctorReport`].
pub const DOCTOR: &str = "cofferdam.doctor/1";

/// What this host can do: the document of `doctor --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorReport {
    /// Always `cofferdam.doctor/1`.
    pub schema: String,
    /// Time of the examination, RFC 3339 in UTC.
    pub time: String,
    /// Whether the accounting can run. If false, the exit code is 3.
    pub accounting: bool,
    /// Why it cannot, and the remedy; null when it can.
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
    /// What was found.
    pub detail: String,
    /// What it enables.
    pub enables: String,
    /// How to obtain it; null if there is nothing to do.
    pub remedy: Option<String>,
    /// Whether the accounting needs it.
    pub required_for_accounting: bool,
}
