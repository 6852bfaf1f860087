//! What the demo prints: the same job without Cofferdam and with it, side by side.

use super::figure::{optional, time};
use crate::table;
use cofferdam_bench::data::{CellResult, Estimate, Treatment};
use cofferdam_bench::demo::data::DemoResult;
use cofferdam_bench::report::format;
use cofferdam_bench::reservation::data::{
    Entitled, PolicyRow, ReservationCellResult, ReservationPolicy,
};

/// Both parts as tables.
pub fn text(result: &DemoResult, width: Option<u16>) -> String {
    let mut text = flood(&result.cell, width);
    if let Some(cell) = &result.reservation {
        text.push('\n');
        text += &reservation(cell, width);
    }
    text
}

fn flood(c: &CellResult, width: Option<u16>) -> String {
    let mut table = table::plain(width);
    table.set_header(["a job next to", "Linux", "Linux + Cofferdam"]);
    let took = |e: &Estimate| time(c.metric, e.median);
    let with = |e: &Estimate, factor: f64| format!("{} ({})", took(e), format::factor(factor));
    if let Some(alone) = &c.alone {
        table.add_row(["nothing", &took(alone), ""]);
    }
    table.add_row(["a job that computes", &took(&c.baseline), ""]);
    let enforced = c
        .treated
        .iter()
        .find(|t| t.treatment == Treatment::Enforced);
    table.add_row([
        "a container that is flooded".to_owned(),
        // The penalty factor: the median over rounds, not of medians.
        with(&c.test, c.penalty.median),
        enforced.map_or_else(String::new, |t| with(&t.test, t.penalty.median)),
    ]);
    table.add_row([
        "share of the CPU it paid for packets".to_owned(),
        optional(c.victim_charged_fraction, format::share),
        optional(
            enforced.and_then(|t| t.victim_charged_fraction),
            format::share,
        ),
    ]);
    table::numbers_right(&mut table);
    table::finish(&table)
}

fn reservation(c: &ReservationCellResult, width: Option<u16>) -> String {
    let row = |policy| c.rows.iter().find(|r| r.policy == policy);
    let alone = row(ReservationPolicy::Alone);
    let both = [
        row(ReservationPolicy::None),
        row(ReservationPolicy::Lending),
    ];
    let mut table = table::plain(width);
    let first = format!(
        "a job with {} reserved, next to",
        format::cpu_count(c.cell.reserved_cpus)
    );
    table.set_header([first.as_str(), "Linux", "Linux + Cofferdam"]);
    let took = |row: &PolicyRow| {
        let seconds = row.elapsed_s.as_ref()?;
        Some(format!("{} s", format::number(seconds.median)))
    };
    if let Some(alone) = alone.and_then(took) {
        table.add_row(["nothing", &alone, ""]);
    }
    let with = |row: &PolicyRow| {
        let factor = format::factor(row.to_alone.as_ref()?.median);
        Some(format!("{} ({factor})", took(row)?))
    };
    let dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let mut add = |what: String, value: &dyn Fn(&PolicyRow) -> Option<String>| {
        let [without, kept] = both.map(|row| dash(row.and_then(value)));
        table.add_row([what, without, kept]);
    };
    add(
        format!("{} busy threads of others", c.cell.neighbour_threads),
        &with,
    );
    add("CPU it got ÷ CPU reserved".to_owned(), &|row| {
        Some(format::share(row.cpu_got.median))
    });
    for (i, cause) in Entitled::<Estimate>::CAUSES.iter().enumerate() {
        if c.rows.iter().any(|row| row.entitled.is_some()) {
            add(format!("  CPUs lost: {cause}"), &|row| {
                let entitled = row.entitled.as_ref()?;
                Some(format::cpus(entitled.losses()[i].median))
            });
        }
    }
    add("CPU time of the host in use".to_owned(), &|row| {
        Some(format::share(row.host_utilisation.median))
    });
    table::numbers_right(&mut table);
    table::finish(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

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
                "rows": [row("alone", 1.0, 0.0), row("none", 1.26, 0.18), row("lending", 1.01, 0.0)],
            },
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn both_parts_stand_side_by_side_in_80_columns() {
        let text = text(&demo(), Some(80));
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
        // One line a row: nothing had to be wrapped.
        assert_eq!(text.lines().count(), 5 + 1 + 9, "{text}");
    }

    #[test]
    fn without_a_reservation_the_flood_is_named() {
        let mut demo = demo();
        demo.reservation = None;
        assert_eq!(text(&demo, None).lines().count(), 5);
    }
}
