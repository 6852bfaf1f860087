//! Chart of every block of every scenario, with the outliers named.

use crate::isolation::data::{IsolationSample, IsolationSamples, IsolationTable, Scenario};
use crate::report::chart::{Chart, Mark, Row, Tone};
use crate::report::error::ReportError;
use crate::report::format::number;
use crate::report::section::figure;
use crate::stats;
use maud::{Markup, html};

/// Chart with a dot for each block, and the outliers in words; empty if a has no baseline.
pub fn of(run: &IsolationSamples, table: &IsolationTable) -> Result<Markup, ReportError> {
    let mut outliers = Vec::new();
    let mut rows = Vec::new();
    for row in &table.rows {
        let mine = samples(run, table, row.scenario);
        let alone = table
            .rows
            .iter()
            .find(|r| r.scenario == row.scenario.baseline())
            .map_or(0.0, |r| r.performance.median);
        if mine.is_empty() || alone <= 0.0 {
            continue;
        }
        let pct = |performance: f64| performance / alone * 100.0;
        let values: Vec<f64> = mine.iter().map(|s| pct(s.a.performance)).collect();
        for i in stats::outliers(&values) {
            outliers.push(format!(
                "{} in block {} ({}%)",
                row.scenario,
                mine[i].key.repetition + 1,
                number(values[i])
            ));
        }
        let median = pct(row.performance.median);
        let tone = match row.scenario.b {
            None => Tone::Neutral,
            Some(_) => Tone::Paid,
        };
        rows.push(Row {
            label: row.scenario.to_string(),
            note: format!("{}%", number(median)),
            lanes: vec![vec![
                Mark::Dots { values, tone },
                Mark::Median { at: median },
            ]],
        });
    }
    if rows.is_empty() {
        return Ok(html! {});
    }
    let axis = "performance of a, % of its median alone";
    let chart = Chart {
        alt: format!("{axis}, a dot a block"),
        axis: axis.to_owned(),
        from: 0.0,
        legend: &[],
        references: vec![(100.0, "alone")],
        rows,
    };
    let outlier_text = match outliers.as_slice() {
        [] => "No block lies beyond one and a half interquartile ranges from its scenario's \
               quartiles."
            .to_owned(),
        some => format!(
            "Beyond one and a half interquartile ranges from their scenario's quartiles: {}. They \
             still count.",
            some.join(", ")
        ),
    };
    Ok(html! { div.charts { (figure("Every block", &chart.svg()?)) } p.lead { (outlier_text) } })
}

fn samples<'a>(
    run: &'a IsolationSamples,
    table: &IsolationTable,
    scenario: Scenario,
) -> Vec<&'a IsolationSample> {
    let wanted = (table.runtime, table.protection, table.resource, scenario);
    let all = run.samples.iter();
    all.filter(|s| {
        (
            s.key.runtime,
            s.key.protection,
            s.key.resource,
            s.key.scenario,
        ) == wanted
    })
    .collect()
}
