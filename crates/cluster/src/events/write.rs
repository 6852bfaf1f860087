//! Writer of events: `core/v1`, one object a condition. The same condition always gets the same
//! name, so that a restart finds earlier events, and a repetition is a higher count.

use super::tracker::{Key, Outcome, Transition, Write};
use crate::agents::{AgentsError, place};
use crate::http::{Content, Limits};
use crate::kubectl::{Api, ApiError};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time limit for writing one event, all its requests together.
const EACH_WITHIN: Duration = Duration::from_secs(5);
/// Largest event, bytes.
const MOST_EVENT_BYTES: usize = 1 << 20;
/// Reporting component in the events.
const COMPONENT: &str = "cofferdam";
/// Longest part of the pod's name in the event's name: the API server accepts 253 characters.
const LONGEST_POD: usize = 200;
/// Most events whose counts are remembered. Beyond that all are forgotten, and the counts are read
/// again from the API server.
const MOST_COUNTS: usize = 2 * super::tracker::MOST_TRACKED;

/// Writer of events, which remembers their counts.
#[derive(Debug, Default)]
pub struct Writer {
    counts: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    count: u64,
}

impl Writer {
    /// Writes one event, if the pod is on the node that reports it.
    ///
    /// # Errors
    /// The reason why the API server did not take it.
    pub fn write(&mut self, api: &Api, write: &Write, time: &str) -> Result<Outcome, String> {
        let deadline = Instant::now() + EACH_WITHIN;
        let limits = Limits {
            deadline,
            most_bytes: MOST_EVENT_BYTES,
        };
        let Key { namespace, pod, .. } = &write.key;
        let place = match place(api, namespace, pod, deadline) {
            Ok(place) => place,
            Err(AgentsError::Api { why, .. }) if status(&why) == Some(404) => {
                return Ok(Outcome::NoPod);
            }
            Err(why) => return Err(why.to_string()),
        };
        if place.node.as_deref() != Some(&write.node) {
            tracing::warn!(
                "node {} reports pod {namespace}/{pod}, which is not on it: no event is written",
                write.node
            );
            return Ok(Outcome::NoPod);
        }
        let name = name(write, &place.uid);
        let folder = format!("/api/v1/namespaces/{namespace}/events");
        let path = format!("{folder}/{name}");
        let failed =
            |why: ApiError| format!("cannot write an event in namespace {namespace}: {why}");
        let remembered = self.counts.get(&name).copied();
        let count = match remembered {
            // This process wrote the event: its count increases.
            Some(count) => {
                let again = again(write, count + 1, time);
                match patch(api, &path, &again, limits) {
                    Ok(event) => Some(event.count),
                    Err(why) if status(&why) == Some(404) => None,
                    Err(why) => return Err(failed(why)),
                }
            }
            None => None,
        };
        let count = match count {
            Some(count) => count,
            None => {
                let event = event(write, &name, &place.uid, time).to_string();
                let content = Content {
                    method: "POST",
                    content_type: "application/json",
                    body: event.as_bytes(),
                };
                match api.send(&folder, &content, limits) {
                    Ok(_) => 1,
                    // The event was written before a restart: a lasting condition is no repetition.
                    Err(why) if status(&why) == Some(409) => {
                        let existing = patch(api, &path, &json!({}), limits).map_err(failed)?;
                        match write.transition {
                            Transition::Holds => existing.count,
                            Transition::Lasts | Transition::Over => {
                                let again = again(write, existing.count + 1, time);
                                patch(api, &path, &again, limits).map_err(failed)?.count
                            }
                        }
                    }
                    Err(why) => return Err(failed(why)),
                }
            }
        };
        if self.counts.len() >= MOST_COUNTS && !self.counts.contains_key(&name) {
            self.counts.clear();
        }
        self.counts.insert(name, count);
        Ok(Outcome::Written)
    }
}

fn patch(
    api: &Api,
    path: &str,
    changes: &serde_json::Value,
    limits: Limits,
) -> Result<Event, ApiError> {
    let changes = changes.to_string();
    let content = Content {
        method: "PATCH",
        content_type: "application/merge-patch+json",
        body: changes.as_bytes(),
    };
    let body = api.send(path, &content, limits)?;
    serde_json::from_slice(&body).map_err(|why| ApiError::Refused {
        status: 0,
        message: format!("its answer is not an event: {why}"),
    })
}

fn status(why: &ApiError) -> Option<u16> {
    match why {
        ApiError::Refused { status, .. } => Some(*status),
        ApiError::Http(_) => None,
    }
}

/// Reason of the event.
fn reason(write: &Write) -> String {
    match write.transition {
        Transition::Over => format!("{}Over", write.key.reason),
        Transition::Holds | Transition::Lasts => write.key.reason.clone(),
    }
}

fn text(write: &Write) -> String {
    let container = match &write.key.container {
        Some(name) => format!("container {name}: "),
        None => String::new(),
    };
    match write.transition {
        Transition::Over => format!("{container}over; it was: {}", write.text),
        Transition::Holds | Transition::Lasts => container + &write.text,
    }
}

/// Name of the event: the same for the same condition of the same pod, whichever process writes it.
fn name(write: &Write, uid: &str) -> String {
    let container = write.key.container.as_deref().unwrap_or_default();
    let hash = fnv(&[uid, container, &reason(write)]);
    let pod: String = write.key.pod.chars().take(LONGEST_POD).collect();
    format!("{}.cofferdam-{hash:016x}", pod.trim_end_matches(['.', '-']))
}

/// FNV-1a of 64 bits. The hash of `std` may change with its version.
fn fnv(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    // 0xff does not occur in UTF-8: it separates the parts.
    for byte in parts.iter().flat_map(|p| p.bytes().chain([0xff])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

fn event(write: &Write, name: &str, uid: &str, time: &str) -> serde_json::Value {
    let Key { namespace, pod, .. } = &write.key;
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod, "uid": uid,
    });
    if let Some(container) = &write.key.container {
        object["fieldPath"] = format!("spec.containers{{{container}}}").into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": object,
        "type": match write.transition { Transition::Over => "Normal", _ => "Warning" },
        "reason": reason(write),
        "message": text(write),
        "source": {"component": COMPONENT, "host": write.node},
        "reportingComponent": COMPONENT,
        "reportingInstance": write.node,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    })
}

fn again(write: &Write, count: u64, time: &str) -> serde_json::Value {
    json!({"count": count, "lastTimestamp": time, "message": text(write)})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(pod: &str, container: Option<&str>, transition: Transition) -> Write {
        Write {
            key: Key {
                namespace: "shop".to_owned(),
                pod: pod.to_owned(),
                container: container.map(str::to_owned),
                reason: "ReservationImpossible".to_owned(),
            },
            transition,
            node: "n1".to_owned(),
            text: "5 CPUs do not fit".to_owned(),
        }
    }

    #[test]
    fn each_condition_has_its_own_event_name() {
        let of = |c, transition, uid| name(&write("web", c, transition), uid);
        let first = of(Some("a"), Transition::Holds, "u1");
        assert_eq!(first, of(Some("a"), Transition::Lasts, "u1"));
        assert!(first.starts_with("web.cofferdam-"), "{first}");
        for other in [
            of(Some("b"), Transition::Holds, "u1"),
            of(None, Transition::Holds, "u1"),
            of(Some("a"), Transition::Over, "u1"),
            of(Some("a"), Transition::Holds, "u2"),
        ] {
            assert_ne!(first, other);
        }
        // Published values of FNV-1a.
        assert_eq!(fnv(&[]), 0xcbf2_9ce4_8422_2325);
        let long = name(
            &write(&format!("{}.", "a".repeat(252)), None, Transition::Holds),
            "u",
        );
        assert!(long.len() <= 253 && crate::agents::check_name(&long).is_ok());
    }

    #[test]
    fn an_event_names_the_container_and_has_its_type() {
        let holds = write("web", Some("main"), Transition::Holds);
        let event = event(&holds, "web.x", "u1", "2026-01-01T00:00:00Z");
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["message"], "container main: 5 CPUs do not fit");
        assert_eq!(event["involvedObject"]["uid"], "u1");
        assert_eq!(
            event["involvedObject"]["fieldPath"],
            "spec.containers{main}"
        );
        let over = write("web", None, Transition::Over);
        let event = super::event(&over, "web.x", "u1", "2026-01-01T00:00:00Z");
        assert_eq!(event["type"], "Normal");
        assert_eq!(event["reason"], "ReservationImpossibleOver");
        assert_eq!(event["message"], "over; it was: 5 CPUs do not fit");
    }
}
