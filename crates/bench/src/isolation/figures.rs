//! What a cell's readings say of a tenant.

use super::acquire::Acquired;
use super::guest::Done;
use super::levels::DATAGRAM_WIRE_BITS;
use crate::data::{GeneratorKind, Point, Resource, TenantSample};
use std::time::Duration;

/// The points of tenant `index`, joined with its generator's ticks.
pub(super) fn series(acquired: &Acquired, index: usize, ticks: &[(u64, u64, u64)]) -> Vec<Point> {
    let mut points = acquired.series.get(index).cloned().unwrap_or_default();
    for point in &mut points {
        let last = ticks
            .iter()
            .rev()
            .find(|(t, _, _)| *t as f64 / 1e3 <= point.t_ms);
        if let Some((_, ops, bytes)) = last {
            (point.ops, point.bytes) = (*ops, *bytes);
        }
    }
    points
}

/// What a tenant's load told.
pub(super) struct Loaded<'a> {
    /// In the resource's own unit; `None`: all it can get.
    pub asked: Option<f64>,
    /// At its source.
    pub source: &'a Done,
    /// Where it arrives, if that is elsewhere.
    pub sink: Option<&'a Done>,
    /// Whether source and sink read one clock.
    pub one_clock: bool,
}

/// A tenant's figures within the window, which is from and to these times of its series.
pub(super) fn sample(
    resource: Resource,
    generator: GeneratorKind,
    load: &Loaded<'_>,
    series: Vec<Point>,
    [from, to]: [Duration; 2],
) -> TenantSample {
    let Loaded { source, sink, .. } = *load;
    let judged = sink.unwrap_or(source);
    let window_s = judged.window_s.max(1e-3);
    let ops_per_s = judged.ops as f64 / window_s;
    // After its end a load holds no memory: a late reading must not count.
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
            let held = |p: &&Point| p.traced.map_or(p.rss_bytes, |t| t.rss_bytes) as f64;
            inside.iter().map(held).sum::<f64>() / inside.len().max(1) as f64
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
    // Sent and not arrived counts as lost, beside what was not even sent in time.
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
