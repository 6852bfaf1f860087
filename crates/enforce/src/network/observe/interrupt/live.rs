//! What an interrupt costs where it happens: a thread looks at its own clock on a CPU that receives
//! packets, for some milliseconds. What it loses of its time, less what the tracepoints show of the
//! softirqs and device interrupts in it, is the way into the kernel and out again, with what the
//! accounting itself adds outside its own brackets.

use crate::tuning::interrupt::{ENOUGH_SEEN, LOOK, LOOK_AT_MOST, MOST, MOST_COSTS};
use cofferdam_affinity::run_on;
use cofferdam_bpf::{Interruptions, SeenInterruptions};
use cofferdam_types::CpuId;
use nix::time::{ClockId, clock_gettime};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// Asks a thread of its own, which is started with the first question and ends with this.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    thread: Option<(Sender<CpuId>, Receiver<Option<Duration>>)>,
    asked: bool,
    ended: bool,
}

impl Watcher {
    /// Has the cost measured on `cpu`; false while the last question has no answer.
    pub fn ask(&mut self, cpu: CpuId) -> bool {
        if self.asked {
            return false;
        }
        if self.thread.is_none() {
            self.thread = start();
        }
        let sent = self.thread.as_ref().map(|(orders, _)| orders.send(cpu));
        self.asked = matches!(sent, Some(Ok(())));
        self.asked
    }

    /// Whether it measures now, or did when it was last asked for the answer.
    pub fn looks(&self) -> bool {
        self.asked && !self.ended
    }

    /// The cost of one interrupt, once for each answer that says something.
    pub fn answer(&mut self) -> Option<Duration> {
        let (_, answers) = self.thread.as_ref()?;
        match answers.try_recv() {
            Ok(answer) => {
                self.asked = false;
                answer
            }
            Err(TryRecvError::Empty) => None,
            // Programs that cannot be loaded now cannot be loaded later. `asked` stays.
            Err(TryRecvError::Disconnected) => {
                self.ended = true;
                None
            }
        }
    }
}

fn start() -> Option<(Sender<CpuId>, Receiver<Option<Duration>>)> {
    let (orders, inbox) = mpsc::channel();
    let (outbox, answers) = mpsc::channel();
    let work = move || {
        let Ok(mut programs) = Interruptions::load() else {
            return;
        };
        let mut costs = Vec::new();
        for cpu in inbox {
            if outbox
                .send(measure(&mut programs, cpu, &mut costs))
                .is_err()
            {
                return;
            }
        }
    };
    let builder = std::thread::Builder::new().name("interrupt-cost".into());
    builder.spawn(work).ok().map(|_| (orders, answers))
}

/// What one interrupt takes from a task, by a look at `cpu` and what `costs` are left of those before; `None` where too few
/// came so far, or this thread may not run there.
fn measure(
    programs: &mut Interruptions,
    cpu: CpuId,
    costs: &mut Vec<Duration>,
) -> Option<Duration> {
    run_on(cpu).ok()?;
    let mut seen_now = Vec::with_capacity(MOST_COSTS);
    programs.watch(|seen| look(seen, &mut seen_now)).ok()?;
    costs.extend(seen_now);
    let old = costs.len().saturating_sub(MOST_COSTS);
    costs.drain(..old);
    average(costs)
}

/// What each took on average, if those to be believed are enough to tell. The average, as what a task loses is their sum: some
/// cost half as much again as the middle one. Neither a timer's nor the hypervisor's part in one of them counts.
fn average(costs: &[Duration]) -> Option<Duration> {
    let believed = costs.iter().filter(|cost| **cost <= MOST);
    let count = believed.clone().count();
    if count < ENOUGH_SEEN {
        return None;
    }
    believed
        .sum::<Duration>()
        .checked_div(u32::try_from(count).ok()?)
}

/// Looks at this thread's clock for a while. Where it went on by more than a look takes because packets
/// were received, what that took is noted for each receive softirq, without what `seen` saw of it. Time
/// in which another task ran is none of this thread's.
fn look(seen: &dyn Fn() -> SeenInterruptions, costs: &mut Vec<Duration>) {
    let (begin, first) = (Instant::now(), thread_time());
    let mut usual = Duration::MAX;
    let (mut last, mut before) = (first, seen());
    while last - first < LOOK && begin.elapsed() < LOOK_AT_MOST && costs.len() < MOST_COSTS {
        let now = thread_time();
        let gap = now.saturating_sub(last);
        last = now;
        usual = usual.min(gap.max(Duration::from_nanos(10)));
        let after = seen();
        if after != before {
            costs.extend(cost(gap.saturating_sub(usual), &before, &after));
            before = after;
        }
    }
}

/// What each receive softirq between two looks took beyond what was seen of it, of `gap` in all.
fn cost(gap: Duration, before: &SeenInterruptions, after: &SeenInterruptions) -> Option<Duration> {
    let softirqs = u32::try_from(after.receive_softirqs - before.receive_softirqs).ok()?;
    // Less than was seen: the scheduler deducts interrupts itself (IRQ_TIME_ACCOUNTING).
    gap.checked_sub(after.time - before.time)?
        .checked_div(softirqs)
}

fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(us: u64, receive_softirqs: u64) -> SeenInterruptions {
        SeenInterruptions {
            time: Duration::from_micros(us),
            receive_softirqs,
        }
    }

    #[test]
    fn what_the_tracepoints_show_is_not_the_way_in_and_out() {
        let us = Duration::from_micros;
        let before = seen(100, 7);
        assert_eq!(cost(us(9), &before, &seen(103, 8)), Some(us(6)));
        assert_eq!(
            cost(us(18), &before, &seen(108, 9)),
            Some(us(5)),
            "two in one gap"
        );
        assert_eq!(cost(us(9), &before, &seen(103, 7)), None, "a timer");
        assert_eq!(
            cost(us(2), &before, &seen(103, 8)),
            None,
            "deducted by the scheduler"
        );
    }

    #[test]
    fn the_average_is_of_what_can_be_believed() {
        let us = Duration::from_micros;
        let mut costs = vec![us(6); ENOUGH_SEEN - 1];
        costs.push(MOST + us(1));
        assert_eq!(average(&costs), None, "one too few");
        costs.extend([us(12); ENOUGH_SEEN - 1]);
        assert_eq!(average(&costs), Some(us(9)));
    }

    #[test]
    fn nothing_is_noted_while_nothing_is_received() {
        let mut costs = Vec::new();
        look(&|| seen(1, 1), &mut costs);
        assert_eq!(costs, []);
    }
}
