//! Namespaces that asked to be measured, each with its samples.

use super::buffer::Buffer;
use super::{Every, VANISHED};
use crate::error::MeasureError;
use crate::sample::Sample;
use cofferdam_bpf::latency::{Counts, Direction, Filter, Miss};
use cofferdam_types::NetnsId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Reason why a namespace is not measured. The container gets the text. The source is for the host
/// only, since it may reveal other containers.
#[derive(Debug, thiserror::Error)]
pub enum NotMeasured {
    /// The namespace is not a container's.
    #[error("this is the host's own network namespace: connect from inside a container")]
    Host,
    /// The measurement could not be started.
    #[error("the measurement cannot be enabled now; ask the host's administrator")]
    NotNow(#[source] MeasureError),
}

/// Source of measurements. A trait, so that tests need no kernel.
pub trait Source {
    /// Measures `netns`.
    fn on(&mut self, netns: NetnsId, filter: &Filter) -> Result<(), NotMeasured>;
    /// Stops measuring `netns`.
    fn off(&mut self, netns: NetnsId);
    /// Passes on all waiting samples.
    fn take(&mut self, sink: &mut dyn FnMut(Sample));
    /// Returns the counts of `netns`.
    fn counts(&self, netns: NetnsId) -> Counts;
    /// Returns the namespaces that have a process.
    fn living(&self) -> BTreeSet<NetnsId>;
}

struct Space {
    on: bool,
    buffer: Buffer,
    /// Counts at the time when it was switched off.
    last: Counts,
}

pub(super) struct Spaces<S> {
    source: S,
    spaces: BTreeMap<NetnsId, Space>,
    capacity: usize,
    look: Every,
}

impl<S: Source> Spaces<S> {
    pub fn new(source: S, capacity: usize) -> Spaces<S> {
        Spaces {
            source,
            spaces: BTreeMap::new(),
            capacity,
            look: Every::new(VANISHED),
        }
    }

    /// Makes the next [`Spaces::take`] look for namespaces that have ended.
    #[cfg(test)]
    pub fn look_now(&mut self) {
        self.look = Every::new(std::time::Duration::ZERO);
    }

    /// Takes new samples, and forgets namespaces that have ended.
    pub fn take(&mut self) {
        let spaces = &mut self.spaces;
        self.source.take(&mut |sample| {
            if let Some(space) = spaces.get_mut(&sample.report.netns)
                && space.on
            {
                space.buffer.push(sample);
            }
        });
        if self.look.due() && !self.spaces.is_empty() {
            let living = self.source.living();
            let source = &mut self.source;
            self.spaces.retain(|netns, space| {
                let lives = living.contains(netns);
                if !lives && space.on {
                    source.off(*netns);
                }
                lives
            });
        }
    }

    pub fn on(&mut self, netns: NetnsId, filter: &Filter) -> Result<(), NotMeasured> {
        // A new measurement, with its own counts.
        self.source.off(netns);
        self.source.on(netns, filter)?;
        let capacity = self.capacity;
        let space = self.spaces.entry(netns).or_insert_with(|| Space {
            on: true,
            buffer: Buffer::new(capacity),
            last: Counts::default(),
        });
        space.on = true;
        space.buffer.clear();
        Ok(())
    }

    pub fn off(&mut self, netns: NetnsId) {
        self.take();
        if let Some(space) = self.spaces.get_mut(&netns)
            && space.on
        {
            space.on = false;
            space.last = self.source.counts(netns);
            self.source.off(netns);
        }
    }

    pub fn first(&self, netns: NetnsId) -> u64 {
        self.spaces.get(&netns).map_or(0, |s| s.buffer.first())
    }

    pub fn end(&self, netns: NetnsId) -> u64 {
        self.spaces.get(&netns).map_or(0, |s| s.buffer.end())
    }

    pub fn sample(&self, netns: NetnsId, number: u64) -> Option<&Sample> {
        self.spaces.get(&netns)?.buffer.get(number)
    }

    /// Formats the answer to `status`.
    pub fn status(&self, netns: NetnsId) -> String {
        let Some(space) = self.spaces.get(&netns) else {
            return "ok off\n".to_owned();
        };
        let counts = match space.on {
            true => self.source.counts(netns),
            false => space.last,
        };
        let mut text = format!("ok {}", if space.on { "on" } else { "off" });
        for direction in Direction::ALL {
            let (d, name) = (direction as usize, direction.label());
            let packets: u64 = counts.packets[d].iter().sum();
            let reports: u64 = counts.reports[d].iter().sum();
            // Writing to a String cannot fail.
            let _ = write!(text, " {name}_packets={packets} {name}_reports={reports}");
            for (miss, count) in Miss::ALL.iter().zip(counts.misses[d]) {
                if count > 0 {
                    let _ = write!(text, " {name}_{}={count}", miss.label());
                }
            }
        }
        text.push('\n');
        text
    }
}
