//! Windows: switches are counted for a part of the time only.

use std::time::Duration;

/// Length of a window: four scheduling periods, in three of which the programs compare waits with what
/// others left idle.
pub const WINDOW: Duration = Duration::from_millis(400);
/// From one window to the next, on average.
pub const PERIOD: Duration = Duration::from_secs(2);

/// From the end of a window to the next one, for a random number in 0..1: so that nothing keeps step with
/// them.
pub fn pause(random: f64) -> Duration {
    (PERIOD - WINDOW).mul_f64(0.5 + random)
}
