//! What happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The timer tick of all CPUs.
    Tick,
    /// The running thread has done its run; stale when the CPU has switched since.
    RunDone { cpu: usize, switches: u64 },
    /// A thread's sleep is over.
    Wake { thread: usize },
    /// A quota's period begins.
    Period { group: usize },
    /// Runtime that idle CPUs returned is given to throttled ones.
    Slack { group: usize },
    /// The agent looks at its reservations.
    Step,
    /// A window of the diagnosis ends.
    Window,
    /// The warm-up is over.
    Begin,
}

/// Events in the order of their times; those of one moment in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    added: u64,
}

impl Events {
    pub fn at(&mut self, time_ns: u64, event: Event) {
        self.added += 1;
        self.heap.push(Reverse((time_ns, self.added, event)));
    }

    /// The next one, unless it is later than `end_ns`.
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
