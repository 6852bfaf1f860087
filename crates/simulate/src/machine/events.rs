//! Queue of events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// Timer tick of all CPUs.
    Tick,
    /// End of the running thread's run; stale if the CPU has switched since.
    RunDone { cpu: usize, switches: u64 },
    /// End of a thread's sleep.
    Wake { thread: usize },
    /// Start of a quota's period.
    Period { group: usize },
    /// Distribution of returned runtime to throttled CPUs.
    Slack { group: usize },
    /// The agent's check of its reservations.
    Step,
    /// End of a window of the diagnosis.
    Window,
    /// End of the warm-up.
    WarmUpDone,
}

/// Events ordered by time; events of one moment in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    added: u64,
}

impl Events {
    /// Adds an event.
    pub fn push_at(&mut self, time_ns: u64, event: Event) {
        self.added += 1;
        self.heap.push(Reverse((time_ns, self.added, event)));
    }

    /// Next event, unless it is later than `end_ns`.
    pub fn next(&mut self, end_ns: u64) -> Option<(u64, Event)> {
        let Reverse((time, ..)) = self.heap.peek()?;
        if *time > end_ns {
            return None;
        }
        self.heap
            .pop()
            .map(|Reverse((time, _, event))| (time, event))
    }
}
