//! Threads that run and sleep in turns.

use super::victim::cpu;
use super::{Args, Control, Failure};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs threads that each compute for R of their CPU time, then sleep for S. Arguments: `--threads
/// N --run-us R --sleep-us S`.
pub(crate) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let threads: usize = args.need("threads")?;
    let work = Duration::from_micros(args.need("run-us")?);
    let sleep = TimeSpec::from_duration(Duration::from_micros(args.need("sleep-us")?));
    args.finish()?;
    control.start()?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // Otherwise the kernel may wake the thread up to 50 µs late.
                let _late = nix::sys::prctl::set_timerslack(1);
                let mut state = 1;
                while !stop.load(Ordering::Relaxed) {
                    let Ok(begin) = used_cpu_time() else { return };
                    while used_cpu_time().is_ok_and(|now| now - begin < work) {
                        state = cpu::mix(state, 500);
                    }
                    // A signal ends the sleep early, which shortens only one round.
                    let _early = clock_nanosleep(
                        ClockId::CLOCK_MONOTONIC,
                        ClockNanosleepFlags::empty(),
                        &sleep,
                    );
                }
                std::hint::black_box(state);
            });
        }
        while !control.done() {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    control.report()
}

/// CPU time of this thread.
fn used_cpu_time() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}
