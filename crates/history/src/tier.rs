//! Resolutions of the store, and the time for which each is stored.

use std::time::Duration;

/// One resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Length of a frame. Frames of the finest tier are cut by the agent and have about this
    /// length.
    pub resolution: Duration,
    /// Recorded time that is stored.
    pub retention: Duration,
    pub(crate) table: &'static str,
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Tiers, finest first: each resolution is a multiple of the one before it. The last tier keeps a
/// chart of a month to 1,440 frames.
pub const TIERS: [Tier; 4] = [
    tier(1, HOUR, "frame_1s"),
    tier(10, DAY, "frame_10s"),
    tier(60, 30 * DAY, "frame_1m"),
    tier(1800, 30 * DAY, "frame_30m"),
];

const fn tier(resolution_s: u64, retention_s: u64, table: &'static str) -> Tier {
    Tier {
        resolution: Duration::from_secs(resolution_s),
        retention: Duration::from_secs(retention_s),
        table,
    }
}

impl Tier {
    /// Number, since the epoch, of the interval of this resolution that contains `middle_ms`.
    pub(crate) fn bucket(&self, middle_ms: i64) -> i64 {
        middle_ms.div_euclid(self.resolution.as_millis() as i64)
    }

    pub(crate) fn retention_ns(&self) -> i64 {
        self.retention.as_nanos() as i64
    }
}
