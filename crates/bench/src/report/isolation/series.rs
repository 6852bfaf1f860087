//! Time series of what a and b used, block upon block, as small pictures of one scenario each.

use crate::data::{CellKey, IsolationSample, IsolationTable, Point, Resource, RunData, Scenario};
use crate::report::page::figure;
use maud::{Markup, html};
use std::fmt::Write as _;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 120.0;
const LEFT: f64 = 8.0;
const BOTTOM: f64 = 20.0;
const TOP: f64 = 18.0;
/// Blocks drawn at the most: more are a smear.
const BLOCKS: usize = 10;

/// The scenario that lost most, and its baseline, over time.
pub fn of(run: &RunData, table: &IsolationTable) -> Markup {
    let loss = |row: &&crate::data::IsolationRow| {
        row.performance_loss_pct
            .as_ref()
            .map_or(f64::MIN, |e| e.median)
    };
    let contended = table.rows.iter().filter(|r| r.scenario.b.is_some());
    let Some(worst) = contended.max_by(|a, b| loss(a).total_cmp(&loss(b))) else {
        return html! {};
    };
    let pictures = [worst.scenario.baseline(), worst.scenario].map(|scenario| {
        let title = format!("{} over time: {scenario}", table.resource);
        figure(&title, &picture(run, table, scenario))
    });
    html! { div.charts { @for picture in pictures { (picture) } } }
}

fn picture(run: &RunData, table: &IsolationTable, scenario: Scenario) -> String {
    let mine = |key: &CellKey| {
        (key.runtime, key.care, key.resource, key.scenario)
            == (table.runtime, table.care, table.resource, scenario)
    };
    let cells: Vec<&IsolationSample> = run
        .isolation
        .iter()
        .filter(|s| mine(&s.key))
        .take(BLOCKS)
        .collect();
    let rates = |points: &[Point]| rates(table.resource, points);
    let all = cells.iter().flat_map(|c| {
        let b = c.b.iter().flat_map(|b| rates(&b.series));
        rates(&c.a.series).into_iter().chain(b).collect::<Vec<_>>()
    });
    let (mut longest, mut most) = (1.0_f64, 0.0_f64);
    for (t, value) in all.filter(|(_, v)| v.is_finite()) {
        (longest, most) = (longest.max(t), most.max(value));
    }
    let top = if table.capacity > 0.0 {
        most / table.capacity * 100.0
    } else {
        0.0
    };
    let x = |t: f64| LEFT + t / longest * (WIDTH - 2.0 * LEFT);
    let y = |v: f64| HEIGHT - BOTTOM - v / most.max(1e-9) * (HEIGHT - BOTTOM - TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"utilisation over time in {scenario}\">"
    );
    let line = |points: &[(f64, f64)], colour: &str| {
        let mut path = String::new();
        for (t, v) in points.iter().filter(|(_, v)| v.is_finite()) {
            // Writing to a String cannot fail.
            let _infallible = write!(path, "{:.1},{:.1} ", x(*t), y(*v));
        }
        format!(
            "<polyline fill=\"none\" opacity=\"0.7\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{path}\"/>"
        )
    };
    for cell in &cells {
        if let Some(b) = &cell.b {
            svg += &line(&rates(&b.series), "#C2410C");
        }
        svg += &line(&rates(&cell.a.series), "#1D6FA5");
    }
    let base = HEIGHT - BOTTOM;
    let end = WIDTH - LEFT;
    let _infallible = write!(
        svg,
        "<line x1=\"{LEFT}\" x2=\"{end}\" y1=\"{base}\" y2=\"{base}\" stroke=\"#DDE3E8\"/>\
         <text x=\"{LEFT}\" y=\"12\" font-size=\"11\" fill=\"#5F6B78\">top: {}% of the capacity; blue a, orange b</text>\
         <text x=\"{end}\" y=\"{}\" font-size=\"11\" text-anchor=\"end\" fill=\"#5F6B78\">{:.1} s</text></svg>",
        crate::report::format::number(top),
        HEIGHT - 6.0,
        longest / 1e3
    );
    svg
}

/// What was used between two readings, in the resource's unit, with the time in milliseconds.
fn rates(resource: Resource, points: &[Point]) -> Vec<(f64, f64)> {
    if resource == Resource::Memory {
        return points
            .iter()
            .map(|p| (p.t_ms, p.rss_bytes as f64))
            .collect();
    }
    points
        .windows(2)
        // The last reading follows the one before at once: too short to make a rate of.
        .filter(|pair| pair[1].t_ms - pair[0].t_ms > 20.0)
        .map(|pair| {
            let seconds = (pair[1].t_ms - pair[0].t_ms) / 1e3;
            let counted = |of: fn(&Point) -> f64| (of(&pair[1]) - of(&pair[0])) / seconds;
            let rate = match resource {
                Resource::Cpu | Resource::NetworkCpu | Resource::Memory => {
                    counted(|p| p.cpu_ms / 1e3)
                }
                Resource::Disk | Resource::DiskBuffered => counted(|p| p.io_ops as f64),
                // At the peer, by its ticks.
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
