//! Latencies as text for people.

use super::schema::IntervalRecord;
use cofferdam_latency::Sample;
use cofferdam_types::Container;
use std::fmt::Write;

/// Nanoseconds in at most seven characters: `950ns`, `12.3µs`, `4.56ms`.
pub fn nanoseconds(ns: f64) -> String {
    match ns {
        v if v < 999.5 => format!("{v:.0}ns"),
        v if v < 99_950.0 => format!("{:.1}µs", v / 1e3),
        v if v < 999_500.0 => format!("{:.0}µs", v / 1e3),
        v if v < 99_950_000.0 => format!("{:.2}ms", v / 1e6),
        v if v < 999_500_000.0 => format!("{:.0}ms", v / 1e6),
        v => format!("{:.2}s", v / 1e9),
    }
}

/// One packet as one line.
pub fn packet(container: &Container, sample: &Sample) -> String {
    let r = &sample.report;
    let mut line = format!(
        "{} {} {:7} {:5} {}:{} > {}:{} {} {}",
        humantime::format_rfc3339_micros(sample.time),
        container.name,
        r.direction.label(),
        r.class().label(),
        r.source,
        r.source_port,
        r.destination,
        r.destination_port,
        nanoseconds(sample.stages.total_ns.into()),
        r.end.label(),
    );
    for (stage, ns) in &sample.stages.parts_ns {
        // Writing to a String cannot fail.
        let _ = write!(line, " {}={}", stage.label(), nanoseconds((*ns).into()));
    }
    if r.retransmit {
        line.push_str(" retransmit");
    }
    line.push('\n');
    line
}

/// One interval as a table.
pub fn interval(record: &IntervalRecord) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header([
        "container",
        "direction",
        "protocol",
        "packets",
        "coverage",
        "part",
        "p50",
        "p90",
        "p99",
        "max",
    ]);
    for flow in &record.flows {
        let coverage = flow
            .coverage_pct
            .map_or("-".to_owned(), |c| format!("{c:.2}%"));
        let mut first = true;
        for name in [
            "total",
            "added",
            "stack",
            "container_qdisc",
            "veth",
            "forward",
            "host_qdisc",
            "reader",
        ] {
            let Some(d) = flow.distributions.get(name) else {
                continue;
            };
            let head = if first {
                [
                    flow.container.clone(),
                    flow.direction.clone(),
                    flow.protocol.clone(),
                    flow.packets.to_string(),
                    coverage.clone(),
                ]
            } else {
                Default::default()
            };
            first = false;
            let figures = [d.p50_ns, d.p90_ns, d.p99_ns, d.max_ns];
            let row = head
                .into_iter()
                .chain([name.to_owned()])
                .chain(figures.map(|ns| nanoseconds(ns as f64)));
            table.add_row(row);
        }
    }
    let mut text = format!("{}  interval {:.2} s\n", record.time, record.interval_s);
    if record.flows.is_empty() {
        text.push_str("no packets\n");
    } else {
        text.push_str(&table.to_string());
        text.push('\n');
    }
    if record.reports_lost + record.reports_rejected > 0 {
        let _ = writeln!(
            text,
            "{} reports were lost before they were read (raise --ring), {} rejected",
            record.reports_lost, record.reports_rejected
        );
    }
    if record.one_in > 1 {
        let _ = writeln!(text, "one flow in {} was measured", record.one_in);
    }
    text.push('\n');
    text
}
