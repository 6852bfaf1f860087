//! Sections of latency runs.

use super::goals::goals;
use crate::data::Estimate;
use crate::data::Judgement;
use crate::latency::data::{BiasRow, LatencyResult};
use crate::latency::goals::{BIAS_US, GOAL_ADDED_US};
use crate::report::chart::{Chart, Mark, Row, Tone};
use crate::report::error::ReportError;
use crate::report::format::{bytes, estimate, number};
use crate::report::section::{figure, section, spread};
use crate::run::{Outcome, RunData};
use maud::{Markup, html};

impl Outcome for LatencyResult {
    fn is_measured(&self) -> bool {
        !(self.truth.is_empty()
            && self.injection.is_empty()
            && self.bias.is_empty()
            && self.coverage.is_empty()
            && self.perturbation.is_empty()
            && self.programs.is_empty())
    }

    fn goals(&self) -> Vec<Judgement> {
        goals(self)
    }

    fn finding(&self, _run: &RunData) -> Vec<String> {
        let mut text = Vec::new();
        let packets: u64 = self.truth.iter().map(|r| r.packets).sum();
        let wrong: u64 = self.truth.iter().map(|r| r.violations).sum();
        if packets > 0 {
            text.push(format!(
            "Of {packets} reports checked against the timestamps of both ends, {wrong} were out of \
             order."
        ));
        }
        if let Some(worst) = self
            .bias
            .iter()
            .max_by(|a, b| a.bias_us.median.abs().total_cmp(&b.bias_us.median.abs()))
        {
            text.push(format!(
                "Corrected, a container's ping differs from the host's by {} µs at its worst ({} \
             neighbours; raw {} µs).",
                estimate(&worst.bias_us),
                worst.load,
                estimate(&worst.raw_bias_us)
            ));
        }
        if let Some(least) = self
            .coverage
            .iter()
            .min_by(|a, b| a.coverage_pct.total_cmp(&b.coverage_pct))
        {
            text.push(format!(
                "The least coverage was {:.3}% ({} {} at {} packets/s).",
                least.coverage_pct,
                least.protocol,
                least.direction,
                number(least.packets_per_s.round())
            ));
        }
        for row in &self.perturbation {
            if row.state != "off" {
                text.push(format!(
                    "{} added {} µs to a round trip.",
                    row.state,
                    estimate(&row.added_us)
                ));
            }
        }
        text
    }

    fn sections(&self, _run: &RunData) -> Result<Vec<Markup>, ReportError> {
        let mut sections = Vec::new();
        if !self.truth.is_empty() {
            sections.push(truth(self));
        }
        if !self.injection.is_empty() {
            sections.push(injection(self)?);
        }
        if !self.bias.is_empty() {
            sections.push(bias(&self.bias)?);
        }
        if !self.coverage.is_empty() {
            sections.push(coverage(self)?);
        }
        if !self.perturbation.is_empty() {
            sections.push(perturbation(self)?);
        }
        if !self.programs.is_empty() {
            sections.push(programs(self)?);
        }
        if let Some(memory) = self.memory_bytes {
            let text = format!("All maps take {}, allocated at the start.", bytes(memory));
            sections.push(section("Memory", &text, html! {}));
        }
        Ok(sections)
    }
}

/// Legend of the blocks and their summary.
const BLOCKS: &[(Tone, &str)] = &[
    (Tone::Paid, "each block"),
    (Tone::Caused, "median, 95% interval"),
];

fn truth(result: &LatencyResult) -> Markup {
    let lead = "Each packet was stamped by the application and by the far end of the wire. Out: \
                application ≤ start ≤ end ≤ wire. In: wire ≤ start ≤ end ≤ application. The \
                slack is what lies between: median and largest.";
    section(
        "Timestamps of both ends",
        lead,
        html! {
            div.scroll tabindex="0" { table {
                thead { tr { th {"protocol"} th {"direction"} th {"packets"} th {"out of order"}
                     th {"before the start, µs"} th {"after the end, µs"} } }
                tbody { @for row in &result.truth {
                    tr {
                        td {(row.protocol)} td {(row.direction)} td {(row.packets)}
                        td {(row.violations)}
                        td {(number(row.before_us.0)) " (" (number(row.before_us.1)) ")"}
                        td {(number(row.after_us.0)) " (" (number(row.after_us.1)) ")"}
                    }
                } }
            } }
        },
    )
}

fn row(label: String, e: &Estimate, tone: Tone) -> Row {
    Row::of_estimate(label, estimate(e), e, [Tone::Paid, tone])
}

fn injection(result: &LatencyResult) -> Result<Markup, ReportError> {
    let rows = result.injection.iter().map(|r| {
        let label = format!("{} the path: {} µs", r.place, number(r.injected_us));
        row(label, &r.seen_us, Tone::Caused)
    });
    let chart = Chart {
        alt: "How much of an injected delay the reports show".to_owned(),
        axis: "longer by, µs".to_owned(),
        from: -10.0,
        legend: BLOCKS,
        references: vec![(0.0, "none"), (100.0, "all")],
        rows: rows.collect(),
    };
    let lead = "A known delay on the host's side of the pair must be in the reports in full; one \
                behind the NIC must not. Each dot is one block's median less that of the block \
                without a delay.";
    Ok(section(
        "Injected delays",
        lead,
        html! { div.charts { (figure("Injected delays", &chart.svg()?)) } },
    ))
}

fn bias(rows: &[BiasRow]) -> Result<Markup, ReportError> {
    let mut lanes = Vec::new();
    for r in rows {
        lanes.push(row(
            format!("raw, {} neighbours", r.load),
            &r.raw_bias_us,
            Tone::Caused,
        ));
        lanes.push(row(
            format!("corrected, {} neighbours", r.load),
            &r.bias_us,
            Tone::Caused,
        ));
    }
    let lowest = rows
        .iter()
        .flat_map(|r| r.bias_us.values.iter().chain(&r.raw_bias_us.values))
        .copied()
        .fold(-5.0, f64::min);
    let chart = Chart {
        alt: "Round-trip time from the container less that from the host".to_owned(),
        axis: "container − host, µs".to_owned(),
        from: (lowest / 5.0).floor() * 5.0,
        legend: BLOCKS,
        references: vec![(0.0, "as the host"), (BIAS_US, "MACE's bound")],
        rows: lanes,
    };
    let table = html! {
        div.scroll tabindex="0" { table {
            thead { tr { th {"neighbours"} th {"raw, µs"} th {"corrected, µs"} th {"host, µs"}
                 th {"bias, µs"} th {"not corrected"} } }
            tbody { @for r in rows {
                tr {
                    td {(r.load)} td {(spread(Some(&r.raw_us)))}
                    td {(spread(Some(&r.corrected_us)))}
                    td {(spread(Some(&r.host_us)))} td {(spread(Some(&r.bias_us)))}
                    td {(r.uncorrected)}
                }
            } }
        } }
    };
    let lead = "Pings from the container and from the host's namespace in turns, while \
                neighbours ping as fast as they are answered. Each dot is one block.";
    Ok(section(
        "Bias of round-trip times",
        lead,
        html! { div.charts { (figure("Bias", &chart.svg()?)) } (table) },
    ))
}

fn coverage(result: &LatencyResult) -> Result<Markup, ReportError> {
    let rows = result.coverage.iter().map(|r| {
        let misses: Vec<String> = r
            .misses
            .iter()
            .map(|(why, n)| format!("{why} {n}"))
            .collect();
        Row {
            label: format!(
                "{} {}{}, {} packets/s",
                r.protocol,
                r.direction,
                if r.both_ways { " of both" } else { "" },
                number(r.packets_per_s.round())
            ),
            note: format!("{:.3}% {}", r.coverage_pct, misses.join(" ")),
            lanes: vec![vec![Mark::Bar {
                value: r.coverage_pct,
                tone: Tone::Neutral,
            }]],
        }
    });
    let chart = Chart {
        alt: "Reports by packets".to_owned(),
        axis: "reports ÷ packets, %".to_owned(),
        from: 0.0,
        legend: &[],
        references: vec![(100.0, "all")],
        rows: rows.collect(),
    };
    let lead = "Every packet that should have a report, and the reason if it had none.";
    Ok(section(
        "Coverage",
        lead,
        html! { div.charts { (figure("Coverage", &chart.svg()?)) } },
    ))
}

fn perturbation(result: &LatencyResult) -> Result<Markup, ReportError> {
    let rows = result
        .perturbation
        .iter()
        .map(|r| row(r.state.clone(), &r.added_us, Tone::Caused));
    let lowest = result
        .perturbation
        .iter()
        .flat_map(|r| r.added_us.values.iter().copied())
        .fold(-1.0, f64::min);
    let chart = Chart {
        alt: "Round-trip time added by the measurement".to_owned(),
        axis: "added to the median round trip, µs".to_owned(),
        from: lowest.floor(),
        legend: BLOCKS,
        references: vec![(0.0, "off"), (GOAL_ADDED_US, "goal")],
        rows: rows.collect(),
    };
    let table = html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th {"state"} th {"round trip, µs"} th {"added, µs"} th {"datagrams/s sent"}
            } }
            tbody { @for r in &result.perturbation {
                tr { td {(r.state)} td {(spread(Some(&r.rtt_us)))} td {(spread(Some(&r.added_us)))}
                     td {(spread(Some(&r.packets_per_s)))} }
            } }
        } }
    };
    let lead = "The same pings and the same flood with the measurement off, loaded and idle, on, \
                and with ftrace on the same events. Blocks on and off take turns; added is the \
                difference from the adjacent block.";
    Ok(section(
        "Perturbation",
        lead,
        html! { div.charts { (figure("Perturbation", &chart.svg()?)) } (table) },
    ))
}

fn programs(result: &LatencyResult) -> Result<Markup, ReportError> {
    let rows = result.programs.iter().map(|p| Row {
        label: p.name.clone(),
        note: format!("{} ns, {} runs", number(p.ns_per_run.round()), p.runs),
        lanes: vec![vec![Mark::Bar {
            value: p.ns_per_run,
            tone: Tone::Caused,
        }]],
    });
    let chart = Chart {
        alt: "Cost of each program".to_owned(),
        axis: "nanoseconds a run".to_owned(),
        from: 0.0,
        legend: &[],
        references: Vec::new(),
        rows: rows.collect(),
    };
    let lead = "By the kernel's run-time statistics, minus that of an empty program.";
    Ok(section(
        "Cost of the programs",
        lead,
        html! { div.charts { (figure("Cost", &chart.svg()?)) } },
    ))
}
