//! Batch target: threads that work in phases and meet at a barrier after each. All wait for the
//! slowest thread.

use super::victim::cpu;
use super::{Args, Control, Failure, VictimReport, control};
use std::sync::Barrier;
use std::time::Instant;

/// Working set of each thread of a memory-heavy job, bytes: larger than the private caches.
const MEMORY_BYTES: usize = 8 << 20;
/// Rounds of integer work in one unit: some tens of microseconds.
const ROUNDS: u64 = 10_000;
/// Cache lines that one unit touches: about the same time.
const LINES: usize = 1_500;
const LINE_WORDS: usize = 8;

/// Runs P phases of U units, which the threads divide. Arguments: `--threads N --phases P --units U
/// [--memory 1]`.
pub(crate) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let threads: usize = args.need("threads")?;
    let phases: u64 = args.need("phases")?;
    let units: u64 = args.need("units")?;
    let memory = args.take::<u32>("memory")? == Some(1);
    args.finish()?;
    if threads == 0 {
        return Err("--threads 0 measures nothing".to_owned());
    }
    let mut areas: Vec<Vec<u64>> = (0..threads).map(|_| area(memory)).collect();
    control.start()?;
    let (start, cpu_start) = (Instant::now(), super::victim::cpu_time());
    let barrier = Barrier::new(threads);
    let sum = std::thread::scope(|scope| {
        let barrier = &barrier;
        let workers: Vec<_> = areas
            .iter_mut()
            .enumerate()
            .map(|(i, area)| {
                scope.spawn(move || {
                    let mut sum = 0u64;
                    for phase in 0..phases {
                        for unit in (i as u64..units).step_by(threads) {
                            sum = sum.wrapping_add(work(area, phase * units + unit));
                        }
                        barrier.wait();
                    }
                    sum
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|w| w.join().map_err(|_| "a thread panicked".to_owned()))
            .try_fold(0u64, |all, one| one.map(|sum| all.wrapping_add(sum)))
    })?;
    control::say_json(&VictimReport {
        elapsed_s: start.elapsed().as_secs_f64(),
        cpu_s: super::victim::cpu_time()
            .saturating_sub(cpu_start)
            .as_secs_f64(),
        units: phases * units,
        checksum: format!("{sum:016x}"),
    })
}

/// Memory to walk through; empty for integer work.
pub(crate) fn area(memory: bool) -> Vec<u64> {
    let words = if memory { MEMORY_BYTES / 8 } else { 0 };
    // Written, so that it is allocated: untouched memory is one page of zeroes.
    (0..words as u64).map(|i| i & 1).collect()
}

/// Does one unit. The answer depends only on the seed, whichever thread does it.
pub(crate) fn work(area: &mut [u64], seed: u64) -> u64 {
    if area.is_empty() {
        return cpu::mix(seed, ROUNDS);
    }
    let lines = area.len() / LINE_WORDS;
    let mut at = seed;
    let mut sum = seed;
    for _ in 0..LINES {
        at = at.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let word = (at >> 33) as usize % lines * LINE_WORDS;
        area[word] ^= 2;
        sum = sum.wrapping_add(area[word] & 1);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_depends_on_its_seed_only() {
        for memory in [false, true] {
            let (mut one, mut other) = (area(memory), area(memory));
            let first = work(&mut one, 7);
            work(&mut other, 1);
            assert_eq!(work(&mut other, 7), first);
        }
        assert_ne!(work(&mut [], 1), work(&mut [], 2));
    }
}
