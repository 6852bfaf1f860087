//! Results of a run on standard output; the report has all of them.

use crate::table;
use cofferdam_bench::report::finding;
use cofferdam_bench::run::{RunData, RunResult};
use cofferdam_bench::table::Table;

/// Verdict in words, then the figures.
pub fn text(run: &RunData, width: Option<u16>) -> String {
    let mut text = String::new();
    for sentence in finding::of(run) {
        text += &sentence;
        text.push('\n');
    }
    let figures = run.result.as_ref().map(|result| figures(result, width));
    if let Some(figures) = figures.filter(|text| !text.is_empty()) {
        text.push('\n');
        text += &figures;
    }
    text
}

fn figures(result: &RunResult, width: Option<u16>) -> String {
    let tables = result.tables();
    let shown: Vec<String> = tables.iter().map(|table| shown(table, width)).collect();
    shown.join("\n")
}

fn shown(figures: &Table, width: Option<u16>) -> String {
    let mut table = table::plain(width);
    table.set_header(&figures.head);
    for row in &figures.rows {
        table.add_row(row);
    }
    table::numbers_right(&mut table);
    let lead = match figures.lead.as_str() {
        "" => String::new(),
        lead => format!("{lead}\n\n"),
    };
    format!("{lead}{}", table::finish(&table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_bench::demo::data::DemoResult;

    fn estimate(median: f64) -> serde_json::Value {
        serde_json::json!({ "median": median, "low": median, "high": median, "values": [median] })
    }

    fn demo() -> DemoResult {
        let row = |policy: &str, factor: f64, lost: f64| {
            serde_json::json!({
                "policy": policy, "elapsed_s": estimate(1.02 * factor), "p99_us": null,
                "to_alone": estimate(factor), "cpu_got": estimate(0.99 / factor),
                "host_utilisation": estimate(0.998),
                "entitled": {
                    "entitled_cpus": estimate(1.0), "forced_sharing_cpus": estimate(lost),
                    "phantom_cpus": estimate(0.01), "throttled_cpus": estimate(0.0),
                    "lack_cpus": estimate(0.02),
                },
            })
        };
        let value = serde_json::json!({
            "cell": {
                "cell": {
                    "id": "cpu/flood/receiver/veth/3x200B", "victim": "cpu", "interferer": "flood",
                    "protocol": "udp", "direction": "receiver", "path": "veth", "flows": 3,
                    "payload_bytes": 200, "htb_gbit_per_s": null,
                },
                "metric": "elapsed_s", "alone": estimate(0.512), "baseline": estimate(1.03),
                "test": estimate(5.43), "penalty": estimate(5.27), "softirq_fraction": 0.81,
                "softirq_source": "ledger", "predicted": 5.2, "offered": null, "received": null,
                "offender_caused_fraction": 0.81, "victim_charged_fraction": 0.62,
                "treated": [{
                    "treatment": "enforced", "test": estimate(1.04), "penalty": estimate(1.01),
                    "goodput_kept": null, "idle_goodput_kept": null, "softirq_fraction": 0.03,
                    "received": null, "offender_corrected_fraction": 0.5,
                    "victim_charged_fraction": 0.012,
                }],
            },
            "offender": "competitor", "victim": "victim", "ledger": null, "sentence": "",
            "reservation": {
                "cell": {
                    "id": "batch/cpu/burstable", "target": "batch", "neighbours": "cpu",
                    "limit": "burstable", "reserved_cpus": 1.0, "neighbour_cpus": 1.0,
                    "threads": 2, "neighbour_threads": 3,
                },
                "rows": [
                    row("alone", 1.0, 0.0),
                    row("none", 1.26, 0.18),
                    row("lending", 1.01, 0.0),
                ],
            },
        });
        serde_json::from_value(value).unwrap()
    }

    /// Promise 42.
    #[test]
    fn both_parts_stand_side_by_side_in_80_columns() {
        let text = figures(&RunResult::Demo(Box::new(demo())), Some(80));
        let line = |start: &str| {
            let found = text.lines().find(|l| l.trim_start().starts_with(start));
            let words = found.unwrap_or_else(|| panic!("{start}: {text}"));
            words.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(
            line("a container that is flooded").ends_with("5.43 s (5.27×) 1.04 s (1.01×)"),
            "{text}"
        );
        assert!(
            line("3 busy threads").ends_with("1.29 s (1.26×) 1.03 s (1.01×)"),
            "{text}"
        );
        assert!(
            line("CPUs lost: forced sharing").ends_with("0.18 0.00"),
            "{text}"
        );
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        // Each row is one line: nothing was wrapped.
        assert_eq!(text.lines().count(), 5 + 1 + 9, "{text}");
    }

    #[test]
    fn without_a_reservation_the_flood_is_named() {
        let mut demo = demo();
        demo.reservation = None;
        let text = figures(&RunResult::Demo(Box::new(demo)), None);
        assert_eq!(text.lines().count(), 5);
    }
}
