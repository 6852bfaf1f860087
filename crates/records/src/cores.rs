//! Work of each core of a dataplane between two of its documents (schema `cofferdam.dataplane/1`).

use serde::Serialize;
use serde_json::Value;

/// Most cores of a document that are read: a dataplane has fewer.
const MOST_CORES: usize = 256;

/// One core of a dataplane in an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoreRecord {
    /// Number of the core.
    pub core: u64,
    /// CPU reserved for the core; null when it has none.
    pub cpu: Option<u64>,
    /// Flow groups that it serves now.
    pub groups: u64,
    /// Packets received from the device, a second.
    pub received_per_s: f64,
    /// Packets received from other cores, a second.
    pub steered_in_per_s: f64,
    /// Packets sent, a second.
    pub sent_per_s: f64,
    /// Share of the loop's time with work, 0 to 1.
    pub busy: f64,
    /// Time that a packet waits for the core now, nanoseconds.
    pub queue_delay_ns: u64,
}

/// Growth of the counter at `pointer`; 0 where there is no counter, and after a restart.
pub fn grown(before: &Value, now: &Value, pointer: &str) -> u64 {
    let at = |v: &Value| v.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    at(now).saturating_sub(at(before))
}

/// Cores of the document `now`, with their work in the `seconds` since the document `before`.
pub fn cores(before: &Value, now: &Value, seconds: f64) -> Vec<CoreRecord> {
    let all = now.get("cores").and_then(Value::as_array);
    let row = |(n, core): (usize, &Value)| {
        let count = |key: &str| grown(before, now, &format!("/cores/{n}/{key}"));
        let rate = |key: &str| count(key) as f64 / seconds.max(1e-3);
        let number = |key: &str| core.get(key).and_then(Value::as_u64);
        // Computed as shares: the sum of two hostile counters may not fit.
        let (busy, idle) = (count("busy_cycles") as f64, count("idle_cycles") as f64);
        CoreRecord {
            core: n as u64,
            cpu: number("cpu"),
            groups: number("groups").unwrap_or(0),
            received_per_s: rate("received_packets"),
            steered_in_per_s: rate("steered_in_packets"),
            sent_per_s: rate("sent_packets"),
            busy: busy / (busy + idle).max(1.0),
            queue_delay_ns: number("queue_delay_ns").unwrap_or(0),
        }
    };
    let all = all.map(|all| all.iter().take(MOST_CORES).enumerate().map(row));
    all.map(Iterator::collect).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_core_is_busy_by_the_growth_of_its_cycles() {
        let at = |received: u64, busy: u64| {
            json!({"cores": [{"core": 0, "cpu": 3, "groups": 64, "received_packets": received,
    "busy_cycles": busy, "idle_cycles": 3 * busy, "queue_delay_ns": 250_999},
    {"core": 1}]})
        };
        let rows = cores(&at(1000, 10), &at(3000, 1010), 2.0);
        assert_eq!((rows[0].received_per_s, rows[0].busy), (1000.0, 0.25));
        assert_eq!((rows[0].cpu, rows[0].queue_delay_ns), (Some(3), 250_999));
        assert_eq!((rows[1].cpu, rows[1].busy), (None, 0.0));
    }

    /// A document without cores has none, and one with absurd counters yields bounded values.
    #[test]
    fn cores_of_a_malformed_document_are_bounded() {
        assert_eq!(cores(&json!(null), &json!({"cores": "all"}), 1.0), []);
        let many =
            json!({"cores": vec![json!({"busy_cycles": u64::MAX, "idle_cycles": u64::MAX}); 2000]});
        let rows = cores(&json!({}), &many, 0.0);
        assert_eq!((rows.len(), rows[0].busy), (MOST_CORES, 0.5));
        // A restarted dataplane counts from zero.
        assert_eq!(
            cores(&many, &json!({"cores": [{"busy_cycles": 5}]}), 1.0)[0].busy,
            0.0
        );
    }
}
