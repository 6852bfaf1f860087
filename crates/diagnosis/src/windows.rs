//! Windows: context switches are counted for a part of the time only.

use std::time::Duration;

/// Length of a window: four scheduling periods. In three of them the programs compare waits with
/// the time that others left idle.
pub const WINDOW: Duration = Duration::from_millis(400);
/// Average time from one window's start to the next.
pub const PERIOD: Duration = Duration::from_secs(2);

/// Pause between two windows, for a random number in 0..1. The randomness keeps periodic tasks from
/// staying in step with the windows.
pub fn pause(random: f64) -> Duration {
    (PERIOD - WINDOW).mul_f64(0.5 + random)
}
