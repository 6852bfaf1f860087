//! Interactive target: wakes at a fixed rate, records its delay, works a little.

use super::victim::cpu;
use super::{Args, Control, Failure, control};
use crate::data::Latency;
use hdrhistogram::Histogram;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Last line of the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WakerReport {
    /// Length of the measurement, seconds.
    pub elapsed_s: f64,
    /// CPU time charged during the measurement, seconds.
    pub cpu_s: f64,
    /// Delay of its wake-ups. `lost` counts wake-ups that it missed because it was still late.
    pub latency: Latency,
}

/// Wakes at the period. Arguments: `--period-us P --work-us W --seconds S`.
pub(crate) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let period = Duration::from_micros(args.need("period-us")?);
    let work = Duration::from_micros(args.need("work-us")?);
    let length = Duration::from_secs_f64(args.need("seconds")?);
    args.finish()?;
    // Otherwise the kernel may wake it up to 50 µs late.
    nix::sys::prctl::set_timerslack(1).map_err(|e| format!("cannot set the timer slack: {e}"))?;
    let mut late = histogram()?;
    control.start()?;
    let (start, cpu_start) = (Instant::now(), super::victim::cpu_time());
    let mut next = now()?;
    let mut lost = 0;
    let mut state = 1;
    while start.elapsed() < length && !control.done() {
        next += period;
        sleep_until(next)?;
        let woken = now()?;
        late.saturating_record(u64::try_from((woken - next).as_nanos()).unwrap_or(u64::MAX));
        while now()? - woken < work {
            state = cpu::mix(state, 500);
        }
        // Missed wake-ups are skipped.
        while now()? > next + period {
            next += period;
            lost += 1;
        }
    }
    std::hint::black_box(state);
    control::say_json(&WakerReport {
        elapsed_s: start.elapsed().as_secs_f64(),
        cpu_s: super::victim::cpu_time()
            .saturating_sub(cpu_start)
            .as_secs_f64(),
        latency: latency(&late, lost),
    })
}

/// Histogram of nanoseconds, up to a minute.
pub(crate) fn histogram() -> Result<Histogram<u64>, Failure> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(|e| e.to_string())
}

/// Percentiles of a histogram of nanoseconds.
pub(crate) fn latency(late: &Histogram<u64>, lost: u64) -> Latency {
    let us = |q: f64| late.value_at_quantile(q) as f64 / 1000.0;
    Latency {
        requests: late.len(),
        lost,
        p50_us: us(0.5),
        p90_us: us(0.9),
        p99_us: us(0.99),
        p999_us: us(0.999),
        max_us: late.max() as f64 / 1000.0,
    }
}

/// Sleeps until the monotonic clock shows `time`; returns at once if that time has passed.
pub(crate) fn sleep_until(time: Duration) -> Result<(), Failure> {
    let until = TimeSpec::from_duration(time);
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &until)
        .map(drop)
        .map_err(|e| format!("cannot sleep: {e}"))
}

/// Reads the monotonic clock.
pub(crate) fn now() -> Result<Duration, Failure> {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(Duration::from)
        .map_err(|e| format!("cannot read the clock: {e}"))
}
