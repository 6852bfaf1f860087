//! Requests, parsed from bytes that anyone in the group may have sent.

use super::{LONGEST_REQUEST_BYTES, Refusal, RefusalCode, VERSION};
use crate::rules::{Matcher, Rule};
use cofferdam_types::{CpuAmount, CpuPolicy, NetworkCpu, Policy};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Request of a client.
#[derive(Clone, Debug)]
pub enum Request {
    /// State of the agent.
    Status,
    /// Reading of the ledger, with the containers that ended after `gone_after` (uptime of the
    /// accounting).
    Snapshot {
        /// `uptime_ns` of the client's last reading.
        gone_after: Option<Duration>,
        /// Whether estimates suffice. The request is then no reason for exact accounting.
        estimates: bool,
    },
    /// Read the configuration again. Root only.
    Reload,
    /// Set a rule before those of the file, until it is cleared or the agent ends. Root only.
    Set(Box<SetRule>),
    /// Clear a rule that was set. Root only.
    Clear {
        /// Match of the rule, as it was set.
        matches: String,
    },
    /// Revert all changes and end. Root only.
    Stop,
}

/// Rule of a `set`.
#[derive(Clone, Debug)]
pub struct SetRule(pub Rule);

/// Reason why a request cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RequestError(pub String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    Status,
    Snapshot,
    Reload,
    Set,
    Clear,
    Stop,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    version: u32,
    op: Op,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gone_after_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    estimates: Option<bool>,
    #[serde(rename = "match", default, skip_serializing_if = "Option::is_none")]
    matches: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network_cpu: Option<NetworkCpu>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu: Option<Cpu>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpus: Option<CpuAmount>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Cpu {
    Standard,
    Strict,
}

#[derive(Deserialize)]
struct OnlyVersion {
    version: u32,
}

impl Request {
    /// Parses one line, without its end.
    pub fn parse(line: &[u8]) -> Result<Request, Refusal> {
        let bad = |text: String| Refusal::new(RefusalCode::BadRequest, text);
        if line.len() >= LONGEST_REQUEST_BYTES {
            let text = format!("a request has at most {LONGEST_REQUEST_BYTES} bytes");
            return Err(Refusal::new(RefusalCode::TooLong, text));
        }
        // Check the version first: later ones may have other fields.
        match serde_json::from_slice(line) {
            Ok(OnlyVersion { version: VERSION }) => {}
            Ok(OnlyVersion { version }) => {
                let text = format!("this agent speaks version {VERSION}, not {version}");
                return Err(Refusal::new(RefusalCode::Version, text));
            }
            Err(e) => return Err(bad(format!("not a request: {e}"))),
        }
        let raw: Raw =
            serde_json::from_slice(line).map_err(|e| bad(format!("not a request: {e}")))?;
        Request::check(raw).map_err(|e| bad(e.0))
    }

    fn check(mut raw: Raw) -> Result<Request, RequestError> {
        let request = match raw.op {
            Op::Status => Request::Status,
            Op::Snapshot => Request::Snapshot {
                gone_after: raw.gone_after_ns.take().map(Duration::from_nanos),
                estimates: raw.estimates.take().unwrap_or(false),
            },
            Op::Reload => Request::Reload,
            Op::Stop => Request::Stop,
            Op::Clear => Request::Clear {
                matches: required(raw.matches.take())?,
            },
            Op::Set => {
                let text = required(raw.matches.take())?;
                let matcher: Matcher = text.parse().map_err(|e| RequestError(format!("{e}")))?;
                let cpu = match (raw.cpu.take().unwrap_or(Cpu::Standard), raw.cpus.take()) {
                    (Cpu::Standard, None) => CpuPolicy::Standard,
                    (Cpu::Strict, Some(cpus)) => CpuPolicy::Strict(cpus),
                    _ => {
                        return Err(RequestError(
                            "cpus requires cpu strict, and cpu strict requires cpus".into(),
                        ));
                    }
                };
                let policy = Policy {
                    network_cpu: raw.network_cpu.take().unwrap_or_default(),
                    cpu,
                };
                Request::Set(Box::new(SetRule(Rule {
                    line: 0,
                    matcher,
                    policy,
                    by_request: false,
                })))
            }
        };
        let left = raw.gone_after_ns.is_some()
            || raw.estimates.is_some()
            || raw.matches.is_some()
            || raw.network_cpu.is_some()
            || raw.cpu.is_some()
            || raw.cpus.is_some();
        if left {
            return Err(RequestError("a field that this op does not have".into()));
        }
        Ok(request)
    }

    /// Whether the request changes the agent, which only root may do.
    pub fn is_change(&self) -> bool {
        !matches!(self, Request::Status | Request::Snapshot { .. })
    }

    /// Formats the request as a line.
    pub fn line(&self) -> Vec<u8> {
        let mut raw = Raw {
            version: VERSION,
            op: Op::Status,
            gone_after_ns: None,
            estimates: None,
            matches: None,
            network_cpu: None,
            cpu: None,
            cpus: None,
        };
        match self {
            Request::Status => {}
            Request::Snapshot {
                gone_after,
                estimates,
            } => {
                raw.op = Op::Snapshot;
                raw.estimates = estimates.then_some(true);
                raw.gone_after_ns =
                    gone_after.map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX));
            }
            Request::Reload => raw.op = Op::Reload,
            Request::Stop => raw.op = Op::Stop,
            Request::Clear { matches } => {
                raw.op = Op::Clear;
                raw.matches = Some(matches.clone());
            }
            Request::Set(rule) => {
                let SetRule(rule) = &**rule;
                raw.op = Op::Set;
                raw.matches = Some(rule.matcher.to_string());
                raw.network_cpu = Some(rule.policy.network_cpu);
                (raw.cpu, raw.cpus) = match rule.policy.cpu {
                    CpuPolicy::Standard => (Some(Cpu::Standard), None),
                    CpuPolicy::Strict(cpus) => (Some(Cpu::Strict), Some(cpus)),
                };
            }
        }
        let mut bytes = serde_json::to_vec(&raw).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

fn required(matches: Option<String>) -> Result<String, RequestError> {
    matches.ok_or_else(|| RequestError("give a match, such as \"match\":\"web-*\"".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> Refusal {
        Request::parse(line.as_bytes()).expect_err(line)
    }

    #[test]
    fn every_request_survives_the_round_trip() {
        for line in [
            r#"{"version":1,"op":"status"}"#,
            r#"{"version":1,"op":"snapshot"}"#,
            r#"{"version":1,"op":"snapshot","gone_after_ns":5}"#,
            r#"{"version":1,"op":"snapshot","gone_after_ns":5,"estimates":true}"#,
            r#"{"version":1,"op":"reload"}"#,
            r#"{"version":1,"op":"stop"}"#,
            r#"{"version":1,"op":"clear","match":"web-*"}"#,
            r#"{"version":1,"op":"set","match":"web-*","network_cpu":"enforce","cpu":"standard"}"#,
            r#"{"version":1,"op":"set","match":"a","network_cpu":"observe","cpu":"strict","cpus":1.5}"#,
        ] {
            let request = Request::parse(line.as_bytes()).unwrap();
            let again = String::from_utf8(request.line()).unwrap();
            assert_eq!(again.trim_end(), line);
            let reads = line.contains("status") || line.contains("snapshot");
            assert_eq!(request.is_change(), !reads, "{line}");
        }
    }

    #[test]
    fn an_invalid_request_is_refused_by_name() {
        use RefusalCode::{BadRequest, TooLong, Version};
        for (line, code, words) in [
            ("", BadRequest, "not a request"),
            ("{}", BadRequest, "version"),
            ("[1]", BadRequest, "not a request"),
            (
                r#"{"version":2,"op":"anything","new":1}"#,
                Version,
                "version 1, not 2",
            ),
            (r#"{"version":1}"#, BadRequest, "op"),
            (r#"{"version":1,"op":"dance"}"#, BadRequest, "dance"),
            (
                r#"{"version":1,"op":"status","x":1}"#,
                BadRequest,
                "unknown field",
            ),
            (
                r#"{"version":1,"op":"status","match":"a"}"#,
                BadRequest,
                "this op does not have",
            ),
            (r#"{"version":1,"op":"set"}"#, BadRequest, "match"),
            (
                r#"{"version":1,"op":"set","match":"id:x"}"#,
                BadRequest,
                "0-9",
            ),
            (
                r#"{"version":1,"op":"set","match":"a","cpu":"strict"}"#,
                BadRequest,
                "cpus",
            ),
            (
                r#"{"version":1,"op":"set","match":"a","cpus":1}"#,
                BadRequest,
                "cpus",
            ),
            (
                r#"{"version":1,"op":"set","match":"a","cpu":"strict","cpus":0}"#,
                BadRequest,
                "0.001",
            ),
            (&" ".repeat(LONGEST_REQUEST_BYTES), TooLong, "8192"),
        ] {
            let refusal = refused(line);
            assert_eq!(refusal.code, code, "{line}");
            assert!(refusal.text.contains(words), "{line}: {}", refusal.text);
            assert_eq!(refusal.text.lines().count(), 1);
        }
    }

    #[test]
    fn deep_nesting_is_no_danger() {
        let line = "[".repeat(LONGEST_REQUEST_BYTES - 1);
        assert_eq!(refused(&line).code, RefusalCode::BadRequest);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = Request::parse(&bytes);
        }
    }
}
