//! Start times of the cumulative streams.
//!
//! A stream is one metric with its attributes, of the host or of one container. Its start is set
//! when it is first pushed, and never moves. A stream that restarts (its count fell, it was absent,
//! or another container has the path) starts at the last push without it: its count covers the time
//! since then. That is no earlier than any point before, so no consumer sees a negative rate.

use super::clock::{Moment, PushClock, nanoseconds};
use crate::metrics::Buckets;
use crate::view::View;
use cofferdam_types::CgroupId;
use std::collections::{HashMap, HashSet};

/// Container, or `None` for the host.
pub(super) type SourceId = Option<CgroupId>;

/// Stem of a metric, and the values of the labels that do not name the container: its name may
/// change.
pub(super) type StreamId = (&'static str, Vec<String>);

/// Count of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Count {
    Sum(f64),
    Histogram(Buckets),
}

impl Count {
    /// Whether `earlier` cannot have grown to `self`.
    fn has_fallen_from(&self, earlier: &Count) -> bool {
        match (self, earlier) {
            (Count::Sum(now), Count::Sum(before)) => now < before,
            (Count::Histogram(now), Count::Histogram(before)) => {
                let mut buckets = now.counts.iter().zip(&before.counts);
                now.sum_ns < before.sum_ns || buckets.any(|(now, before)| now < before)
            }
            _ => true,
        }
    }
}

/// Streams that the agent has pushed.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    clock: PushClock,
    sources: HashMap<SourceId, Source>,
}

/// Streams of one container, or of the host.
#[derive(Debug)]
struct Source {
    /// Start of a stream that `pushed` lacks, nanoseconds since 1970: the last push with this
    /// source, or the last one before it existed.
    since_unix_ns: u64,
    /// Start and count in the last push with this source.
    pushed: HashMap<StreamId, (u64, Count)>,
    /// Start and count in the current push.
    current: HashMap<StreamId, (u64, Count)>,
}

/// Push that is being built.
#[derive(Debug)]
pub(super) struct Push<'a> {
    /// Time of its points, nanoseconds since 1970.
    pub unix_ns: u64,
    sources: &'a mut HashMap<SourceId, Source>,
}

impl Streams {
    /// Begins a push of `view`. `None` if a later one was begun.
    pub(super) fn begin(&mut self, view: &View, moment: Moment) -> Option<Push<'_>> {
        let previous = self.clock.last();
        let unix_ns = self.clock.advance(moment)?;
        let agents_age = moment.at.saturating_duration_since(view.started);
        let age_ns = nanoseconds(agents_age.max(view.snapshot.uptime)).max(1);
        let since_unix_ns = previous.unwrap_or(unix_ns.saturating_sub(age_ns));
        let containers = view.snapshot.containers.iter();
        let containers: HashSet<CgroupId> = containers.map(|c| c.container.cgroup).collect();
        let is_there = |id: &SourceId| id.is_none_or(|cgroup| containers.contains(&cgroup));
        self.sources.retain(|id, _| is_there(id));
        for id in containers.iter().copied().map(Some).chain([None]) {
            self.sources.entry(id).or_insert_with(|| Source {
                since_unix_ns,
                pushed: HashMap::new(),
                current: HashMap::new(),
            });
        }
        Some(Push {
            unix_ns,
            sources: &mut self.sources,
        })
    }
}

impl Push<'_> {
    /// Start of a stream whose count is `count` now, nanoseconds since 1970.
    pub fn start(&mut self, id: SourceId, stream: StreamId, count: Count) -> u64 {
        let Some(source) = self.sources.get_mut(&id) else {
            return self.unix_ns.saturating_sub(1);
        };
        let start_unix_ns = match source.pushed.get(&stream) {
            Some((start, before)) if !count.has_fallen_from(before) => *start,
            _ => source.since_unix_ns,
        };
        source.current.insert(stream, (start_unix_ns, count));
        start_unix_ns
    }

    /// Ends the push. A source that was left out of it keeps its streams.
    pub fn end(self) {
        for source in self.sources.values_mut() {
            if !source.current.is_empty() {
                source.pushed = std::mem::take(&mut source.current);
                source.since_unix_ns = self.unix_ns;
            }
        }
    }
}
