//! First estimate of an interrupt's cost, before there is traffic: a thread that only reads the
//! clock is interrupted from another CPU, and the gaps are its lost time.

use crate::tuning::interrupt::{LEAST_GAPS, MOST, ROUNDS, SEND_PAUSE};
use cofferdam_affinity::run_on;
use cofferdam_host::parse;
use cofferdam_types::CpuId;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MEMBARRIER_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Cost of one interrupt to the running task. `None` if this host cannot measure it: one CPU, a
/// cpuset without the first two CPUs, or no `membarrier` (Linux 4.14). A busy host may defeat one
/// attempt, hardly three; each takes some 30 ms.
pub(in crate::network::observe) fn measure() -> Option<Duration> {
    (0..3).find_map(|_| attempt())
}

fn attempt() -> Option<Duration> {
    // All online CPUs: this thread may be bound to a few of them.
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let cpus = parse::cpu_list(online.trim())?;
    let mut cpus = cpus.into_iter();
    let (here, there) = (cpus.next()?, cpus.next()?);
    membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED)?;
    let over = AtomicBool::new(false);
    let mut gaps = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(here, &over));
        let sender = scope.spawn(|| {
            let sent = run_on(there).ok().and_then(|()| send());
            over.store(true, Ordering::Relaxed);
            sent
        });
        sender.join().ok()??;
        watcher.join().ok()?
    })?;
    // A gap in which another task ran is among the longest.
    middle(&mut gaps)
}

/// Median gap, if there are enough gaps and it is plausible.
fn middle(gaps: &mut [Duration]) -> Option<Duration> {
    if gaps.len() < LEAST_GAPS {
        return None;
    }
    let middle = gaps.len() / 2;
    let (_, cost, _) = gaps.select_nth_unstable(middle);
    Some(*cost).filter(|cost| *cost <= MOST)
}

/// Gaps between two reads of the clock that are longer than usual, without the duration of a read.
fn watch(cpu: CpuId, over: &AtomicBool) -> Option<Vec<Duration>> {
    run_on(cpu).ok()?;
    let mut usual = Duration::from_micros(1);
    let mut gaps = Vec::with_capacity(2 * ROUNDS as usize);
    let mut last = Instant::now();
    while !over.load(Ordering::Relaxed) && gaps.len() < gaps.capacity() {
        let now = Instant::now();
        let gap = now - last;
        usual = usual.min(gap.max(Duration::from_nanos(10)));
        if gap > usual * 8 {
            gaps.push(gap - usual);
            last = Instant::now();
        } else {
            last = now;
        }
    }
    Some(gaps)
}

fn send() -> Option<()> {
    for _ in 0..ROUNDS {
        membarrier(MEMBARRIER_PRIVATE_EXPEDITED)?;
        let begin = Instant::now();
        while begin.elapsed() < SEND_PAUSE {
            std::hint::spin_loop();
        }
    }
    Some(())
}

/// Issues a barrier on the CPUs where this process runs: the kernel interrupts them for it.
fn membarrier(command: libc::c_int) -> Option<()> {
    // SAFETY: membarrier takes three integers and touches no memory of ours.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    (done == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a disturbed machine there is either no result or a plausible one.
    #[test]
    fn an_interrupt_costs_more_than_nothing() {
        if let Some(cost) = measure() {
            assert!(cost > Duration::from_nanos(50) && cost <= MOST, "{cost:?}");
        }
    }

    /// Promise 35.
    #[test]
    fn few_or_implausible_costs_yield_no_result() {
        let us = Duration::from_micros;
        assert_eq!(middle(&mut vec![us(6); LEAST_GAPS - 1]), None);
        assert_eq!(middle(&mut vec![MOST + us(1); LEAST_GAPS]), None);
        let mut some: Vec<Duration> = (0..2 * LEAST_GAPS as u64).map(|i| us(i % 10)).collect();
        assert_eq!(middle(&mut some), Some(us(5)));
    }
}
