//! Decaying averages: the past counts half after 32 ms (the kernel's per-entity load tracking).

/// Half-life, nanoseconds. Source: kernel/sched/pelt.c, 32 periods of 1024 µs.
const HALF_LIFE_NS: f64 = 32.0 * 1_024_000.0;

/// Decaying average of a value over time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average {
    pub value: f64,
    updated_ns: u64,
}

impl Average {
    pub fn new(value: f64, now_ns: u64) -> Average {
        Average {
            value,
            updated_ns: now_ns,
        }
    }

    /// Adds the time since the last update, in which the value was `was`.
    pub fn update(&mut self, now_ns: u64, was: f64) {
        let passed = now_ns - self.updated_ns;
        if passed == 0 {
            return;
        }
        self.updated_ns = now_ns;
        let decay = (-(passed as f64) / HALF_LIFE_NS).exp2();
        self.value = self.value * decay + was * (1.0 - decay);
    }

    /// Adds or removes an entity with its own past.
    pub fn shift(&mut self, by: f64) {
        self.value = (self.value + by).max(0.0);
    }
}
