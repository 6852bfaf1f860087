//! Time series of the use by a and b, with all blocks of a scenario in one picture.

use crate::isolation::data::{
    CellKey, IsolationSample, IsolationSamples, IsolationTable, Point, Resource, Scenario,
};
use crate::report::chart::Tone;
use crate::report::error::ReportError;
use crate::report::plot::{Axis, Line, Plot};
use crate::report::section::figure;
use maud::{Markup, html};

/// Most blocks that are drawn: more are illegible.
const BLOCKS: usize = 10;

/// Time series of the scenario with the largest loss, and of its baseline.
pub fn of(run: &IsolationSamples, table: &IsolationTable) -> Result<Markup, ReportError> {
    let loss = |row: &&crate::isolation::data::IsolationRow| {
        row.performance_loss_pct
            .as_ref()
            .map_or(f64::MIN, |e| e.median)
    };
    let contended = table.rows.iter().filter(|r| r.scenario.b.is_some());
    let Some(worst) = contended.max_by(|a, b| loss(a).total_cmp(&loss(b))) else {
        return Ok(html! {});
    };
    let mut pictures = Vec::new();
    for scenario in [worst.scenario.baseline(), worst.scenario] {
        let title = format!("{} over time: {scenario}", table.resource);
        let svg = picture(run, table, scenario).svg()?;
        pictures.push(figure(&title, &svg));
    }
    Ok(html! { div.charts { @for picture in pictures { (picture) } } })
}

fn picture(run: &IsolationSamples, table: &IsolationTable, scenario: Scenario) -> Plot {
    let mine = |key: &CellKey| {
        (key.runtime, key.protection, key.resource, key.scenario)
            == (table.runtime, table.protection, table.resource, scenario)
    };
    let cells: Vec<&IsolationSample> = run
        .samples
        .iter()
        .filter(|s| mine(&s.key))
        .take(BLOCKS)
        .collect();
    let (unit, scale) = match table.capacity > 0.0 {
        true => ("used, % of the capacity", 100.0 / table.capacity),
        false => ("used, in the resource's unit", 1.0),
    };
    let line = |name: &str, tone, points: &[Point]| Line {
        name: name.to_owned(),
        tone,
        points: rates(table.resource, points)
            .into_iter()
            .map(|(t_ms, used)| (t_ms / 1e3, used * scale))
            .collect(),
        hollow_from: None,
        is_trace: true,
    };
    let a = cells
        .iter()
        .map(|c| line("tenant a", Tone::Paid, &c.a.series));
    let b = cells.iter().filter_map(|c| c.b.as_ref());
    let b = b.map(|b| line("tenant b", Tone::Caused, &b.series));
    Plot {
        alt: format!("utilisation over time in {scenario}"),
        x: Axis::linear("seconds"),
        y: Axis::linear(unit),
        references: Vec::new(),
        hollow: "",
        // Tenant b first: a is judged and lies on top.
        lines: b.chain(a).collect(),
    }
}

/// Rates between two readings in the resource's unit, each with its time in milliseconds.
fn rates(resource: Resource, points: &[Point]) -> Vec<(f64, f64)> {
    if resource == Resource::Memory {
        return points
            .iter()
            .map(|p| (p.t_ms, p.rss_bytes as f64))
            .collect();
    }
    points
        .windows(2)
        // The last reading follows directly: too short for a rate.
        .filter(|pair| pair[1].t_ms - pair[0].t_ms > 20.0)
        .map(|pair| {
            let seconds = (pair[1].t_ms - pair[0].t_ms) / 1e3;
            let counted = |of: fn(&Point) -> f64| (of(&pair[1]) - of(&pair[0])) / seconds;
            let rate = match resource {
                Resource::Cpu | Resource::NetworkCpu | Resource::Memory => {
                    counted(|p| p.cpu_ms / 1e3)
                }
                Resource::Disk | Resource::DiskBuffered => counted(|p| p.io_ops as f64),
                // The ticks of the peer.
                Resource::Network => counted(|p| p.bytes as f64 * 8.0),
                Resource::Llc => counted(|p| p.ops as f64),
            };
            (pair[1].t_ms, rate.max(0.0))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences() {
        let at = |t_ms, cpu_ms| Point {
            t_ms,
            cpu_ms,
            rss_bytes: 7,
            ..Point::default()
        };
        let points = [
            at(0.0, 0.0),
            at(100.0, 50.0),
            at(200.0, 50.0),
            at(201.0, 51.0),
        ];
        assert_eq!(rates(Resource::Cpu, &points), [(100.0, 0.5), (200.0, 0.0)]);
        assert_eq!(rates(Resource::Memory, &points).len(), 4);
        assert!(rates(Resource::Disk, &points[..1]).is_empty());
    }
}
