//! Messages on the socket: requests in, answers out. Each message is one line of JSON.

mod request;
mod snapshot;

pub use request::{Request, RequestError, SetRule};
pub(crate) use snapshot::other_schema;
pub use snapshot::{SNAPSHOT, WireContainer, WireCpu, WireSnapshot};

use serde::{Deserialize, Serialize};

/// Version of the protocol.
pub const VERSION: u32 = 1;
/// Longest request, its line end included.
pub const LONGEST_REQUEST_BYTES: usize = 8 << 10;
/// Longest answer that a client accepts. A reading of 10,000 containers is about 15 MiB.
pub const LONGEST_ANSWER_BYTES: usize = 64 << 20;

/// Answer: either `ok` or `error`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer<T> {
    /// Version of the protocol.
    pub version: u32,
    /// Result of the request.
    #[serde(skip_serializing_if = "Option::is_none", default = "none")]
    pub ok: Option<T>,
    /// Reason of the refusal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<Refusal>,
}

fn none<T>() -> Option<T> {
    None
}

/// Reason why a request was not served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Stable code, for programs.
    pub code: RefusalCode,
    /// One line for people: failure, cause and remedy.
    pub text: String,
}

/// Kinds of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The request cannot be parsed.
    BadRequest,
    /// The request is longer than allowed.
    TooLong,
    /// The client speaks another version of the protocol.
    Version,
    /// Only root may do that.
    Denied,
    /// Too many connections, or too many requests waiting.
    Busy,
    /// The request was valid and could not be served.
    Failed,
}

/// Result of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadResult {
    /// Number of rules in force.
    pub rules: u64,
    /// Warnings about settings without effect.
    pub warnings: Vec<String>,
}

/// Result of setting or clearing a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeResult {
    /// Number of containers that the rule matches now.
    pub containers: u64,
}

/// Confirmation that the agent has begun to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopResult {
    /// Always true.
    pub stopping: bool,
}

/// Formats a result as a line.
pub fn ok_line<T: Serialize>(value: &T) -> Vec<u8> {
    line(&Answer {
        version: VERSION,
        ok: Some(value),
        error: None,
    })
}

/// Formats a refusal as a line.
pub fn refusal_line(refusal: &Refusal) -> Vec<u8> {
    line(&Answer::<()> {
        version: VERSION,
        ok: None,
        error: Some(refusal.clone()),
    })
}

fn line<T: Serialize>(answer: &Answer<T>) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(answer).unwrap_or_else(|e| {
        // Only maps with keys that are no strings can fail; there are none.
        format!("{{\"version\":{VERSION},\"error\":{{\"code\":\"failed\",\"text\":\"{e}\"}}}}")
            .into_bytes()
    });
    bytes.push(b'\n');
    bytes
}

impl Refusal {
    /// Builds a refusal; `text` becomes one line.
    pub fn new(code: RefusalCode, text: impl AsRef<str>) -> Refusal {
        let text = text
            .as_ref()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        Refusal { code, text }
    }
}
