//! Figures of a tenant, from a cell's readings.

use super::acquire::AcquiredSeries;
use super::guest::{LoadFigures, Tick};
use super::levels::DATAGRAM_WIRE_BITS;
use crate::isolation::data::{GeneratorKind, Point, Resource, TenantSample};
use std::time::Duration;

/// Joins the points of tenant `index` with the generator's last report before each point.
pub(super) fn series(acquired: &AcquiredSeries, index: usize, ticks: &[Tick]) -> Vec<Point> {
    let mut points = acquired.series.get(index).cloned().unwrap_or_default();
    for point in &mut points {
        let read = acquired.started + Duration::from_secs_f64(point.t_ms / 1e3);
        if let Some(last) = ticks.iter().rev().find(|tick| tick.at <= read) {
            (point.ops, point.bytes) = (last.ops, last.bytes);
        }
    }
    points
}

/// Reports of a tenant's load.
pub(super) struct LoadReports<'a> {
    /// Demand in the resource's own unit; `None`: all that it can get.
    pub asked: Option<f64>,
    /// Report of the source.
    pub source: &'a LoadFigures,
    /// Report of the sink, if that is another process.
    pub sink: Option<&'a LoadFigures>,
    /// Whether source and sink read the same clock.
    pub one_clock: bool,
}

/// Computes a tenant's figures within the window `[from, to]` of its series.
pub(super) fn sample(
    resource: Resource,
    generator: GeneratorKind,
    load: &LoadReports<'_>,
    series: Vec<Point>,
    [from, to]: [Duration; 2],
) -> TenantSample {
    let LoadReports { source, sink, .. } = *load;
    let judged = sink.unwrap_or(source);
    let window_s = judged.window_s.max(1e-3);
    let ops_per_s = judged.ops as f64 / window_s;
    // A load that has ended has no memory: a late reading must not count.
    let window = from.as_secs_f64() * 1e3..=to.as_secs_f64() * 1e3;
    let inside: Vec<&Point> = series.iter().filter(|p| window.contains(&p.t_ms)).collect();
    let per_s = |of: fn(&Point) -> f64| match (inside.first(), inside.last()) {
        (Some(first), Some(last)) if last.t_ms > first.t_ms => {
            (of(last) - of(first)) / (last.t_ms - first.t_ms) * 1e3
        }
        _ => 0.0,
    };
    let used = match resource {
        Resource::Cpu | Resource::NetworkCpu => per_s(|p| p.cpu_ms / 1e3),
        Resource::Memory => {
            let resident = |p: &&Point| p.traced.map_or(p.rss_bytes, |t| t.rss_bytes) as f64;
            inside.iter().map(resident).sum::<f64>() / inside.len().max(1) as f64
        }
        Resource::Disk | Resource::DiskBuffered => per_s(|p| p.io_ops as f64),
        Resource::Network => ops_per_s * DATAGRAM_WIRE_BITS,
        Resource::Llc => ops_per_s,
    };
    let performance = match resource {
        Resource::Cpu
        | Resource::NetworkCpu
        | Resource::Disk
        | Resource::DiskBuffered
        | Resource::Llc => ops_per_s,
        Resource::Memory if generator.is_foreign() => ops_per_s,
        Resource::Memory => judged.bytes as f64 / window_s,
        Resource::Network => judged.bytes as f64 * 8.0 / window_s,
    };
    // Datagrams that were sent and not received count as lost; so do datagrams not sent in time.
    let missing = sink.map_or(0, |sink| source.ops.saturating_sub(sink.ops));
    TenantSample {
        asked: load.asked,
        used,
        performance,
        p50_us: judged.p50_us.filter(|_| load.one_clock),
        p99_us: judged.p99_us.filter(|_| load.one_clock),
        lost: source.lost + missing,
        restarts: source.restarts,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Promise 45.
    #[test]
    fn a_point_has_what_was_reported_by_then() {
        let started = Instant::now() + Duration::from_secs(1);
        let tick = |ms: u64, ops| Tick {
            at: started + Duration::from_millis(ms) - Duration::from_millis(100),
            ops,
            bytes: 2 * ops,
        };
        let point = |t_ms| Point {
            t_ms,
            ..Point::default()
        };
        let acquired = AcquiredSeries {
            started,
            series: vec![vec![], vec![point(0.0), point(99.0), point(250.0)]],
            cpu_pct: 0.0,
            wall_s: 0.3,
        };
        // Reports 100 ms before the first reading, and 0, 100 and 200 ms after it.
        let ticks = [tick(0, 1), tick(100, 5), tick(200, 9), tick(300, 14)];
        let points = series(&acquired, 1, &ticks);
        let sums: Vec<_> = points.iter().map(|p| (p.ops, p.bytes)).collect();
        assert_eq!(sums, [(5, 10), (5, 10), (14, 28)]);
        assert!(series(&acquired, 0, &ticks).is_empty() && series(&acquired, 7, &[]).is_empty());
        assert_eq!(series(&acquired, 1, &[])[2].ops, 0);
    }
}
