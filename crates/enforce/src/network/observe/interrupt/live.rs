//! Cost of an interrupt, measured in place: a thread reads the clock on a CPU that receives
//! packets, for some milliseconds. Its lost time, minus the softirqs and device interrupts that
//! tracepoints show, is the time to enter and leave the kernel, plus the accounting's own overhead
//! outside its brackets.

use crate::tuning::interrupt::{
    AWAY_TIME, CHECK, LEAST_MEASURED_TIME, LEAST_SAMPLES, MEASURED_TIME, MEASUREMENT_TIMEOUT,
    MOST_COSTS, MOST_LOST_TIME, MOST_MEASURED_TIME,
};
use cofferdam_affinity::run_on;
use cofferdam_bpf::{Interruptions, LoadError, SeenInterruptions};
use cofferdam_types::CpuId;
use nix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// Request for one measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasureOrder {
    pub cpu: CpuId,
    /// Whether earlier losses are discarded because packets now arrive differently.
    pub discard_earlier: bool,
}

/// Cost if enough interrupts were seen, or the reason why it can never be measured.
type Answer = Result<Option<Duration>, String>;

/// Owner of the measuring thread, which starts with the first request and ends with this value.
#[derive(Debug)]
pub(super) struct Watcher {
    load: fn() -> Result<Interruptions, LoadError>,
    thread: Option<(Sender<MeasureOrder>, Receiver<Answer>)>,
    is_pending: bool,
    /// Reason why nothing can be measured.
    failure: Option<String>,
}

impl Default for Watcher {
    fn default() -> Watcher {
        Watcher::loading(Interruptions::load)
    }
}

impl Watcher {
    /// Creates a watcher whose thread measures with the programs that `load` loads.
    pub fn loading(load: fn() -> Result<Interruptions, LoadError>) -> Watcher {
        Watcher {
            load,
            thread: None,
            is_pending: false,
            failure: None,
        }
    }

    /// Requests a measurement; returns false while an earlier one is pending.
    pub fn ask(&mut self, order: MeasureOrder) -> bool {
        if self.is_pending || (self.failure.is_some() && self.thread.is_some()) {
            return false;
        }
        if self.thread.is_none() {
            // Without a thread the next request tries again.
            let started = start(self.load);
            self.failure = started
                .as_ref()
                .err()
                .map(|e| format!("no thread for it: {e}"));
            self.thread = started.ok();
        }
        let sent = self.thread.as_ref().map(|(orders, _)| orders.send(order));
        self.is_pending = matches!(sent, Some(Ok(())));
        self.is_pending
    }

    /// Whether a measurement is pending, or was at the last check for its result.
    pub fn is_measuring(&self) -> bool {
        self.is_pending
    }

    /// Reason why nothing can be measured, as far as known.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Cost of one interrupt, once for each conclusive result.
    pub fn answer(&mut self) -> Option<Duration> {
        let (_, answers) = self.thread.as_ref().filter(|_| self.failure.is_none())?;
        let answer = match answers.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("the thread that measures has ended".to_owned()),
        };
        self.is_pending = false;
        // Programs that cannot be loaded now cannot be loaded later.
        self.failure = answer.as_ref().err().cloned();
        answer.ok().flatten()
    }
}

fn start(
    load: fn() -> Result<Interruptions, LoadError>,
) -> io::Result<(Sender<MeasureOrder>, Receiver<Answer>)> {
    let (orders, inbox) = mpsc::channel();
    let (outbox, answers) = mpsc::channel();
    let work = move || {
        let mut programs = match load() {
            Ok(programs) => programs,
            Err(why) => {
                let _ = outbox.send(Err(why.to_string()));
                return;
            }
        };
        let mut lost_on: HashMap<CpuId, Vec<LostTime>> = HashMap::new();
        for MeasureOrder {
            cpu,
            discard_earlier,
        } in inbox
        {
            let lost = lost_on.entry(cpu).or_default();
            if discard_earlier {
                lost.clear();
            }
            if outbox.send(Ok(measure(&mut programs, cpu, lost))).is_err() {
                return;
            }
        }
    };
    let builder = std::thread::Builder::new().name("interrupt-cost".into());
    builder.spawn(work).map(|_| (orders, answers))
}

/// Time that a task lost between two reads of the clock beyond the traced time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LostTime {
    time: Duration,
    /// Number of network softirqs in it, without softirqs that directly followed another: after an
    /// interrupt the kernel handles all pending ones, up to ten times.
    interruptions: u32,
}

/// Cost of an interruption beyond the softirqs' own time, from a measurement on `cpu` and the
/// losses `lost` of earlier ones. `None` if too few were seen, or this thread may not run there.
fn measure(programs: &mut Interruptions, cpu: CpuId, lost: &mut Vec<LostTime>) -> Option<Duration> {
    run_on(cpu).ok()?;
    let mut lost_now = Vec::with_capacity(MOST_COSTS);
    programs
        .watch(|seen| record_gaps(seen, &mut lost_now))
        .ok()?;
    lost.extend(lost_now);
    let old = lost.len().saturating_sub(MOST_COSTS);
    lost.drain(..old);
    average(lost)
}

/// Average cost, if enough samples are plausible. The average, because a task loses the sum, and
/// some interruptions take half as long again as the median. Samples in which the hypervisor took
/// part do not count.
fn average(lost: &[LostTime]) -> Option<Duration> {
    let plausible = lost.iter().filter(|lost| lost.time <= MOST_LOST_TIME);
    if plausible.clone().count() < LEAST_SAMPLES {
        return None;
    }
    let interruptions = plausible.clone().map(|lost| lost.interruptions).sum();
    let time: Duration = plausible.map(|lost| lost.time).sum();
    time.checked_div(interruptions)
}

/// Reads the clock for a while, and records each gap in which packets were handled, without the
/// time that `seen` shows. The clock is read in user space. Reading the thread's clock enters the
/// kernel with interrupts disabled, and an interrupt that arrives then costs a virtual machine one
/// more exit. That clock is therefore read only after a gap, to leave out the time of other tasks.
fn record_gaps(seen: &dyn Fn() -> SeenInterruptions, lost: &mut Vec<LostTime>) {
    let begin = Clocks::read();
    let (mut checked, mut last) = (begin, begin.wall);
    let (mut usual, mut before) = (Duration::MAX, seen());
    while !is_over(checked.thread - begin.thread, lost.len())
        && checked.wall - begin.wall < MEASUREMENT_TIMEOUT
        && lost.len() < MOST_COSTS
    {
        let now = Instant::now();
        let gap = now - last;
        last = now;
        usual = usual.min(gap.max(Duration::from_nanos(10)));
        let after = seen();
        if after == before && now - checked.wall < CHECK {
            continue;
        }
        let clocks = Clocks::read();
        if clocks.away_since(&checked) < AWAY_TIME {
            lost.extend(lost_in(gap.saturating_sub(usual), &before, &after));
        }
        checked = clocks;
        before = seen();
        last = Instant::now();
    }
}

/// Whether a measurement that took this CPU time has seen enough, or will not see it. A stream
/// pauses while its receiver waits for this thread, and a longer measurement would take the CPU
/// from its users.
fn is_over(measured: Duration, seen: usize) -> bool {
    let pace = LEAST_SAMPLES as f64 * measured.as_secs_f64() / MOST_MEASURED_TIME.as_secs_f64();
    let is_enough = seen >= LEAST_SAMPLES && measured >= MEASURED_TIME;
    is_enough
        || measured >= MOST_MEASURED_TIME
        || (measured >= LEAST_MEASURED_TIME && seen < pace as usize)
}

#[derive(Clone, Copy, Debug)]
struct Clocks {
    wall: Instant,
    thread: Duration,
}

impl Clocks {
    fn read() -> Clocks {
        let thread = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
        Clocks {
            wall: Instant::now(),
            thread: thread.map_or(Duration::ZERO, Duration::from),
        }
    }

    /// Time in which other tasks had the CPU.
    fn away_since(&self, earlier: &Clocks) -> Duration {
        (self.wall - earlier.wall).saturating_sub(self.thread.saturating_sub(earlier.thread))
    }
}

/// Time lost in a `gap` between two reads; `None` if no packets were handled.
fn lost_in(
    gap: Duration,
    before: &SeenInterruptions,
    after: &SeenInterruptions,
) -> Option<LostTime> {
    let interruptions = u32::try_from(after.interruptions - before.interruptions).ok()?;
    // The gap is shorter than the traced time: the scheduler deducts interrupts itself
    // (IRQ_TIME_ACCOUNTING).
    let time = gap.checked_sub(after.time - before.time)?;
    (interruptions > 0).then_some(LostTime {
        time,
        interruptions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loader on a kernel that accepts no program of ours.
    fn no_programs() -> Result<Interruptions, LoadError> {
        Err(LoadError::NoBtf)
    }

    /// Promise 35.
    #[test]
    fn unloadable_programs_are_reported_with_the_reason() {
        let mut watcher = Watcher::loading(no_programs);
        assert_eq!(watcher.failure(), None);
        let order = MeasureOrder {
            cpu: CpuId(0),
            discard_earlier: false,
        };
        // The thread may have ended before it gets the order.
        let _ = watcher.ask(order);
        let until = Instant::now() + Duration::from_secs(20);
        while watcher.failure().is_none() && Instant::now() < until {
            assert_eq!(watcher.answer(), None);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(
            watcher
                .failure()
                .is_some_and(|why| why.contains("type information"))
        );
        assert!(
            !watcher.is_measuring() && !watcher.ask(order),
            "no second attempt"
        );
    }

    fn seen(us: u64, interruptions: u64) -> SeenInterruptions {
        SeenInterruptions {
            time: Duration::from_micros(us),
            interruptions,
        }
    }

    fn lost(us: u64, interruptions: u32) -> LostTime {
        LostTime {
            time: Duration::from_micros(us),
            interruptions,
        }
    }

    /// Promise 35.
    #[test]
    fn traced_time_is_not_part_of_the_cost() {
        let in_gap = |us: u64, after| lost_in(Duration::from_micros(us), &seen(100, 7), &after);
        assert_eq!(in_gap(9, seen(103, 8)), Some(lost(6, 1)));
        assert_eq!(in_gap(18, seen(108, 9)), Some(lost(10, 2)));
        assert_eq!(in_gap(9, seen(103, 7)), None, "a timer");
        assert_eq!(in_gap(2, seen(103, 8)), None, "deducted by the scheduler");
    }

    /// Promise 35.
    #[test]
    fn implausible_samples_do_not_count() {
        let mut some = vec![lost(6, 1); LEAST_SAMPLES - 1];
        some.push(lost(MOST_LOST_TIME.as_micros() as u64 + 1, 1));
        assert_eq!(average(&some), None, "one too few");
        some.extend([lost(12, 1); LEAST_SAMPLES - 1]);
        assert_eq!(average(&some), Some(Duration::from_micros(9)));
    }

    /// Between two reads there were one or three interruptions.
    /// Promise 35.
    #[test]
    fn the_average_is_per_interruption() {
        let some: Vec<LostTime> = (0..20).map(|i| lost(6, 1 + i % 2 * 2)).collect();
        assert_eq!(average(&some), Some(Duration::from_micros(3)));
    }

    /// Promise 35.
    #[test]
    fn a_measurement_that_sees_too_little_is_short() {
        let over_after = |each_ms: f64| {
            let ms = (1..=30).find(|ms| {
                let seen = (each_ms * f64::from(*ms)) as usize;
                is_over(Duration::from_millis((*ms).into()), seen)
            });
            Duration::from_millis(ms.unwrap_or(u32::MAX).into())
        };
        assert_eq!(over_after(0.0), LEAST_MEASURED_TIME);
        assert_eq!(
            over_after(1.0),
            MOST_MEASURED_TIME,
            "at a pace that will do"
        );
        assert_eq!(over_after(3.0), MEASURED_TIME);
    }

    #[test]
    fn nothing_is_recorded_without_packets() {
        let mut lost = Vec::new();
        record_gaps(&|| seen(1, 1), &mut lost);
        assert_eq!(lost, []);
    }
}
