//! Cache load: dependent loads over a set of a given size, in an order that no prefetcher predicts.
//! Their rate shows whether the set is in a cache or in memory.

use crate::Failure;
use crate::meter::Meter;
use crate::params::Params;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Size of a cache line on all CPUs in use, bytes; each line is read at its first word.
const LINE: usize = 64;
/// Words of a line.
const WORDS: usize = LINE / size_of::<u64>();
/// Loads between two readings of the clock: some 100 µs from memory.
const BURST: u64 = 1_000;

/// `bytes=N threads=T`: size of each thread's set.
pub struct Cache {
    /// Ring through all lines: the first word of each line is the index of the next line's.
    ring: Arc<Vec<u64>>,
    threads: u32,
}

impl Cache {
    pub fn prepare(mut params: Params) -> Result<Cache, Failure> {
        let bytes: usize = params.need("bytes")?;
        let threads = params.need("threads")?;
        params.finish()?;
        if bytes < 2 * LINE {
            return Err(format!("bytes={bytes} is less than two lines"));
        }
        Ok(Cache {
            ring: Arc::new(ring(bytes / LINE)),
            threads,
        })
    }

    pub fn start(&self, meter: &Arc<Meter>) -> Vec<JoinHandle<()>> {
        let lines = self.ring.len() / WORDS;
        (0..self.threads as usize)
            .map(|i| {
                let (ring, meter) = (self.ring.clone(), meter.clone());
                // The threads start apart on the ring, so that none loads the lines of another.
                let from = lines * i / self.threads as usize * WORDS;
                std::thread::spawn(move || chase(&ring, from, &meter))
            })
            .collect()
    }
}

fn chase(ring: &[u64], from: usize, meter: &Meter) {
    let mut at = from;
    while !meter.ended() {
        let began = meter.elapsed();
        for _ in 0..BURST {
            at = ring[at] as usize;
        }
        meter.count(BURST, BURST * LINE as u64);
        meter.latency(meter.elapsed().saturating_sub(began));
    }
    std::hint::black_box(at);
}

/// Random cycle through `lines` lines (Sattolo's shuffle), the same in every run.
fn ring(lines: usize) -> Vec<u64> {
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for i in (1..lines).rev() {
        // xorshift64 (Marsaglia, 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(i, (state % i as u64) as usize);
    }
    let mut ring = vec![0_u64; lines * WORDS];
    for (line, next) in order.iter().enumerate() {
        ring[line * WORDS] = u64::from(*next) * WORDS as u64;
    }
    ring
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 46.
    #[test]
    fn the_ring_goes_through_every_line() {
        for lines in [2, 3, 64, 1_000] {
            let ring = ring(lines);
            let mut seen = vec![false; lines];
            let mut at = 0;
            for _ in 0..lines {
                assert_eq!(at % WORDS, 0);
                assert!(!std::mem::replace(&mut seen[at / WORDS], true), "{at}");
                at = ring[at] as usize;
            }
            assert_eq!(at, 0, "it ends where it began");
            assert!(seen.into_iter().all(|line| line));
        }
    }
}
