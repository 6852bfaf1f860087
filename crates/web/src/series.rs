//! Figures over time, with as many points as a chart can show.

use crate::feed::{Past, PastError, Point, Points};
use serde::Serialize;
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Limit on the containers with a line of their own in a chart of the host.
pub const MOST_LINES: usize = 6;

/// Data of a chart. Values are CPUs, averaged over each step; null if unknown.
#[derive(Debug, Serialize)]
pub struct Series {
    /// Ends of the steps, milliseconds since 1970.
    time_ms: Vec<u64>,
    /// Length of a step, seconds.
    step_s: f64,
    /// Figures of all containers, or of the requested one.
    total: Columns,
    /// Victims that paid most for others.
    #[serde(rename = "payers")]
    victims: Vec<Line>,
    /// Offenders whose packets required most.
    #[serde(rename = "causers")]
    offenders: Vec<Line>,
    /// Containers from which others took most CPU time.
    losers: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Columns {
    cpu: Vec<Option<f32>>,
    caused: Vec<Option<f32>>,
    charged: Vec<Option<f32>>,
    paid: Vec<Option<f32>>,
    taken: Vec<Option<f32>>,
    throttled: Vec<Option<f32>>,
}

#[derive(Debug, Serialize)]
struct Line {
    id: String,
    name: String,
    values: Vec<Option<f32>>,
}

/// Request for a series.
#[derive(Clone, Copy, Debug)]
pub struct SeriesRequest {
    /// Begin of the requested time.
    pub from: SystemTime,
    /// End of the requested time.
    pub to: SystemTime,
    /// Limit on the points.
    pub points: u32,
    /// Container, if only one is requested.
    pub container: Option<u64>,
}

/// Sums of one container, or of all, in one step: CPUs times seconds.
#[derive(Clone, Copy, Default)]
struct Sum {
    cpu: f64,
    caused: f64,
    charged: f64,
    paid: f64,
    taken: f64,
    throttled: f64,
}

impl Sum {
    fn add(&mut self, p: &Point, seconds: f64) {
        self.cpu += f64::from(p.cpu_cpus) * seconds;
        self.caused += f64::from(p.caused_cpus) * seconds;
        self.charged += f64::from(p.charged_cpus) * seconds;
        self.paid += f64::from((p.charged_cpus - p.caused_cpus).max(0.0)) * seconds;
        self.taken += f64::from(p.taken_cpus) * seconds;
        self.throttled += f64::from(p.throttled_cpus) * seconds;
    }
}

struct Steps {
    from: SystemTime,
    step: Duration,
    /// Seconds of each step for which there are figures.
    known_s: Vec<f64>,
    total: Vec<Sum>,
    by_container: HashMap<u64, Vec<(u32, Sum)>>,
    only: Option<u64>,
}

/// Computes the series of `wanted` from `past`.
///
/// # Errors
/// [`PastError`].
pub fn series(past: &mut dyn Past, wanted: &SeriesRequest) -> Result<Series, PastError> {
    let span = wanted.to.duration_since(wanted.from).unwrap_or_default();
    let step = (span / wanted.points.max(1)).max(Duration::from_secs(1));
    let count = usize::try_from(span.as_millis().div_ceil(step.as_millis())).unwrap_or(1);
    let mut steps = Steps {
        from: wanted.from,
        step,
        known_s: vec![0.0; count],
        total: vec![Sum::default(); count],
        by_container: HashMap::new(),
        only: wanted.container,
    };
    past.visit(wanted.from, wanted.to, step, &mut |points| {
        steps.add(points)
    })?;
    Ok(steps.series(past))
}

impl Steps {
    fn add(&mut self, points: Points<'_>) {
        // An interval may be longer than a step: each step gets its part.
        let end = points.time.duration_since(self.from).unwrap_or_default();
        let begin = end.saturating_sub(points.length);
        let mut from = begin;
        while from < end {
            let place = from.as_nanos() / self.step.as_nanos();
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            let to = end.min(self.step.saturating_mul(place.saturating_add(1)));
            self.add_to(place, points.points, (to - from).as_secs_f64());
            if place as usize >= self.known_s.len() {
                return;
            }
            from = to;
        }
    }

    fn add_to(&mut self, number: u32, points: &[Point], seconds: f64) {
        let place = number as usize;
        let Some(known_s) = self.known_s.get_mut(place) else {
            return;
        };
        *known_s += seconds;
        let of = |p: &&Point| self.only.is_none_or(|only| only == p.cgroup_id);
        for point in points.iter().filter(of) {
            self.total[place].add(point, seconds);
            if self.only.is_some() {
                continue;
            }
            let own = self.by_container.entry(point.cgroup_id).or_default();
            match own.last_mut() {
                Some((last, sum)) if *last == number => sum.add(point, seconds),
                _ => {
                    let mut sum = Sum::default();
                    sum.add(point, seconds);
                    own.push((number, sum));
                }
            }
        }
    }

    fn series(self, past: &mut dyn Past) -> Series {
        let column = |of: &dyn Fn(&Sum) -> f64| -> Vec<Option<f32>> {
            let all = self.total.iter().zip(&self.known_s);
            all.map(|(sum, seconds)| average(of(sum), *seconds))
                .collect()
        };
        let mut worst = |of: &dyn Fn(&Sum) -> f64| self.worst(past, of);
        Series {
            time_ms: (1..=self.known_s.len()).map(|n| self.end_ms(n)).collect(),
            step_s: self.step.as_secs_f64(),
            victims: worst(&|s| s.paid),
            offenders: worst(&|s| s.caused),
            losers: worst(&|s| s.taken),
            total: Columns {
                cpu: column(&|s| s.cpu),
                caused: column(&|s| s.caused),
                charged: column(&|s| s.charged),
                paid: column(&|s| s.paid),
                taken: column(&|s| s.taken),
                throttled: column(&|s| s.throttled),
            },
        }
    }

    fn worst(&self, past: &mut dyn Past, of: &dyn Fn(&Sum) -> f64) -> Vec<Line> {
        let sums = self.by_container.iter();
        let mut sums: Vec<(u64, f64)> = sums
            .map(|(id, own)| (*id, own.iter().map(|(_, sum)| of(sum)).sum::<f64>()))
            .filter(|(_, sum)| *sum > 0.0)
            .collect();
        sums.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        sums.truncate(MOST_LINES);
        let line = |(id, _): (u64, f64)| {
            let mut values: Vec<_> = self.known_s.iter().map(|s| average(0.0, *s)).collect();
            for (place, sum) in &self.by_container[&id] {
                let place = *place as usize;
                values[place] = average(of(sum), self.known_s[place]);
            }
            Line {
                id: id.to_string(),
                name: past.name(id).unwrap_or_else(|| id.to_string()),
                values,
            }
        };
        sums.into_iter().map(line).collect()
    }

    fn end_ms(&self, steps: usize) -> u64 {
        let count = u32::try_from(steps).unwrap_or(u32::MAX);
        ms(self.from + self.step * count)
    }
}

fn average(sum: f64, seconds: f64) -> Option<f32> {
    // Four digits: a ten-thousandth of a CPU.
    (seconds > 0.0).then(|| ((sum / seconds * 1e4).round() / 1e4) as f32)
}

/// Milliseconds since 1970.
pub(crate) fn ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
