//! Counters that the load's threads write and the driver's thread reads; without locks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Buckets a doubling: a quantile is exact to 1/16.
const STEPS: u64 = 16;
/// Doublings above `STEPS` microseconds: up to 16 s and more.
const DOUBLINGS: u64 = 21;
const BUCKETS: usize = (STEPS * (DOUBLINGS + 1)) as usize;

/// Counters of a load.
pub struct Meter {
    started: Instant,
    /// Finished operations.
    ops: AtomicU64,
    /// Moved bytes.
    bytes: AtomicU64,
    /// Operations given up as too late, or never received.
    lost: AtomicU64,
    /// Restarts of the load after a kill.
    restarts: AtomicU64,
    recording: AtomicBool,
    stop: AtomicBool,
    buckets: Vec<AtomicU64>,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub at: Duration,
    pub ops: u64,
    pub bytes: u64,
    pub lost: u64,
    pub restarts: u64,
}

impl Meter {
    pub fn new() -> Meter {
        Meter {
            started: Instant::now(),
            ops: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            recording: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Time since the start of the load.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn count(&self, ops: u64, bytes: u64) {
        self.ops.fetch_add(ops, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub fn lose(&self, ops: u64) {
        self.lost.fetch_add(ops, Relaxed);
    }

    pub fn restart(&self) {
        self.restarts.fetch_add(1, Relaxed);
    }

    /// Records the time from an operation's due time to its end.
    pub fn latency(&self, took: Duration) {
        if self.recording.load(Relaxed) {
            self.buckets[bucket(took.as_micros() as u64)].fetch_add(1, Relaxed);
        }
    }

    /// Starts or stops recording latencies.
    pub fn record(&self, on: bool) {
        self.recording.store(on, Relaxed);
    }

    pub fn end(&self) {
        self.stop.store(true, Relaxed);
    }

    pub fn ended(&self) -> bool {
        self.stop.load(Relaxed)
    }

    pub fn counts(&self) -> Counts {
        Counts {
            at: self.elapsed(),
            ops: self.ops.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            lost: self.lost.load(Relaxed),
            restarts: self.restarts.load(Relaxed),
        }
    }

    /// Quantile `q` of the recorded latencies, microseconds: the upper end of its bucket. `None`
    /// without a latency.
    pub fn quantile_us(&self, q: f64) -> Option<u64> {
        let counts: Vec<u64> = self.buckets.iter().map(|b| b.load(Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return None;
        }
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        for (i, count) in counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(upper(i as u64));
            }
        }
        None
    }
}

/// Bucket of a latency: linear below `STEPS`, then `STEPS` buckets a doubling.
fn bucket(us: u64) -> usize {
    if us < STEPS {
        return us as usize;
    }
    let doubling = u64::from(us.ilog2() - STEPS.ilog2());
    let index = STEPS * (doubling + 1) + (us >> doubling) - STEPS;
    (index as usize).min(BUCKETS - 1)
}

fn upper(index: u64) -> u64 {
    if index < STEPS {
        return index;
    }
    let doubling = index / STEPS - 1;
    ((index % STEPS + STEPS + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_belongs_to_them() {
        for us in (0..5_000).chain([65_535, 65_536, 1_000_000, 15_999_999]) {
            let index = bucket(us);
            assert!(upper(index as u64) >= us, "{us}");
            assert!(index == 0 || upper(index as u64 - 1) < us, "{us}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_known_latencies() {
        let meter = Meter::new();
        meter.latency(Duration::from_micros(9));
        assert_eq!(
            meter.quantile_us(0.5),
            None,
            "nothing is recorded before it is due"
        );
        meter.record(true);
        for us in 1..=1000 {
            meter.latency(Duration::from_micros(us));
        }
        let p50 = meter.quantile_us(0.5).unwrap();
        let p99 = meter.quantile_us(0.99).unwrap();
        assert!((500..=532).contains(&p50), "{p50}");
        assert!((990..=1053).contains(&p99), "{p99}");
    }
}
