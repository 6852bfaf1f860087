//! Wire that loses, reorders, duplicates, corrupts and delays frames, and has a limited queue.

use cofferdam_netstack::Time;
use std::time::Duration;

/// Faults of a wire, in per cent of the frames.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    pub loss_pct: u32,
    pub duplicate_pct: u32,
    pub corrupt_pct: u32,
    pub reorder_pct: u32,
    /// Delay in one direction.
    pub delay: Duration,
    /// Largest additional delay of a reordered frame.
    pub jitter: Duration,
    /// Bytes per second; `None` is unlimited.
    pub bytes_per_s: Option<u64>,
    /// Length of the queue in bytes; further frames are dropped.
    pub queue_bytes: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            loss_pct: 0,
            duplicate_pct: 0,
            corrupt_pct: 0,
            reorder_pct: 0,
            delay: Duration::from_micros(50),
            jitter: Duration::from_millis(1),
            bytes_per_s: None,
            queue_bytes: u64::MAX,
        }
    }
}

/// Random numbers that are reproducible by their seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Random number below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20) % most.max(1)
    }

    pub fn percent(&mut self, pct: u32) -> bool {
        self.below(100) < u64::from(pct)
    }
}

/// One direction of a wire.
#[derive(Debug, Clone)]
pub struct Wire {
    pub faults: Faults,
    random: Random,
    /// Time at which the last frame has left.
    busy_until: Time,
    pub dropped: u64,
}

impl Wire {
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            random: Random::new(seed),
            busy_until: Time::ZERO,
            dropped: 0,
        }
    }

    /// Arrival times of the copies of `frame`, with their contents.
    pub fn send(&mut self, now: Time, mut frame: Vec<u8>) -> Vec<(Time, Vec<u8>)> {
        let mut faults = self.faults;
        // Neighbour discovery is not disturbed: three lost questions would correctly end a
        // connection attempt.
        if frame[12..14] == [8, 6] || (frame[12..14] == [0x86, 0xdd] && frame[20] == 58) {
            (faults.loss_pct, faults.corrupt_pct, faults.duplicate_pct) = (0, 0, 0);
        }
        let mut leaves = now.max(self.busy_until);
        if let Some(rate) = faults.bytes_per_s {
            let queued = leaves.since(now).as_nanos() as u64 * rate / 1_000_000_000;
            if queued > faults.queue_bytes {
                self.dropped += 1;
                return Vec::new();
            }
            leaves = leaves + Duration::from_nanos(frame.len() as u64 * 1_000_000_000 / rate);
            self.busy_until = leaves;
        }
        if self.random.percent(faults.loss_pct) {
            self.dropped += 1;
            return Vec::new();
        }
        if self.random.percent(faults.corrupt_pct) {
            let bit = self.random.below(frame.len() as u64 * 8);
            frame[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        let copies = 1 + usize::from(self.random.percent(faults.duplicate_pct));
        let mut arrivals = Vec::new();
        for _ in 0..copies {
            let late = if self.random.percent(faults.reorder_pct) {
                Duration::from_nanos(self.random.below(faults.jitter.as_nanos() as u64))
            } else {
                Duration::ZERO
            };
            arrivals.push((leaves + faults.delay + late, frame.clone()));
        }
        arrivals
    }
}
