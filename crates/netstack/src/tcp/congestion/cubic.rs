//! CUBIC (RFC 9438): the window grows with the cube of the time since the last loss. The code
//! counts in segments, in floating point, once per acknowledgement.

use crate::api::Time;
use std::time::Duration;

/// Scaling constant C (RFC 9438, 5.1).
const C: f64 = 0.4;
/// Multiplicative decrease factor of the window (4.6).
const BETA: f64 = 0.7;

/// State between two losses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cubic {
    /// Window before the last reduction, in segments.
    w_max: f64,
    /// Start of the current stage of congestion avoidance.
    epoch: Option<Time>,
    /// Time until the window reaches `w_max` again, in seconds.
    k: f64,
    /// Window of Reno in the same conditions (4.3), in segments.
    w_est: f64,
    /// Fraction of a segment by which the window has grown and that `cwnd` does not contain yet.
    part: f64,
    /// Window at the last reduction, for the Reno-friendly increase (4.3).
    cwnd_prior: f64,
}

impl Cubic {
    /// Window after `bytes` were acknowledged in congestion avoidance (4.2 to 4.5).
    pub fn acknowledged(
        &mut self,
        cwnd: u32,
        bytes: u32,
        mss: u32,
        now: Time,
        srtt: Option<Duration>,
    ) -> u32 {
        let segment = f64::from(mss);
        let window = f64::from(cwnd) / segment;
        let acked = f64::from(bytes) / segment;
        let epoch = *self.epoch.get_or_insert_with(|| {
            if self.w_max <= window {
                // Before the first loss, or above the old window, the curve starts here (4.8,
                // 4.10).
                self.w_max = window;
            }
            self.k = ((self.w_max - window) / C).cbrt();
            self.w_est = window;
            self.part = 0.0;
            now
        });
        let rtt = srtt.unwrap_or_default().as_secs_f64();
        let at = now.since(epoch).as_secs_f64() + rtt;
        let target = (C * (at - self.k).powi(3) + self.w_max).clamp(window, 1.5 * window);
        // α makes the average window equal to Reno's for this β (4.3); it is one above
        // `cwnd_prior`.
        let alpha = if self.w_est >= self.cwnd_prior {
            1.0
        } else {
            3.0 * (1.0 - BETA) / (1.0 + BETA)
        };
        self.w_est += alpha * acked / window;
        self.part += if self.w_est > target {
            (self.w_est - window).max(0.0)
        } else {
            (target - window) / window * acked
        };
        let whole = (self.part * segment).floor().clamp(0.0, f64::from(bytes));
        self.part = (self.part - whole / segment).clamp(0.0, 1.0);
        cwnd.saturating_add(whole as u32)
    }

    /// New `ssthresh` in bytes after a loss (4.6), with fast convergence (4.7).
    pub fn lost(&mut self, cwnd: u32, flight: u32, mss: u32, _now: Time) -> u32 {
        let window = f64::from(cwnd) / f64::from(mss);
        self.w_max = if window < self.w_max {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        };
        self.cwnd_prior = window;
        self.epoch = None;
        ((f64::from(flight) * BETA) as u32).max(2 * mss)
    }

    /// Starts a new stage with the next acknowledgement, after a timeout or an idle period (4.8).
    pub fn timed_out(&mut self) {
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    /// Acknowledges one window per round trip. Returns the window after each, in segments.
    fn grow(cubic: &mut Cubic, mut cwnd: u32, rtt: Duration, rounds: usize) -> Vec<f64> {
        let mut now = Time::from_nanos(1);
        (0..rounds)
            .map(|_| {
                for _ in 0..cwnd / MSS {
                    cwnd = cubic.acknowledged(cwnd, MSS, MSS, now, Some(rtt));
                }
                now = now + rtt;
                f64::from(cwnd) / f64::from(MSS)
            })
            .collect()
    }

    /// RFC 9438, figure 1: concave up to the old window, a plateau there, then convex.
    /// Promise 58.
    #[test]
    fn the_window_reaches_its_old_maximum_after_k_seconds() {
        let mut cubic = Cubic::default();
        let before = 400;
        let ssthresh = cubic.lost(before * MSS, before * MSS, MSS, Time::ZERO);
        assert_eq!(ssthresh, 280 * MSS);
        let k = (400.0f64 * 0.3 / 0.4).cbrt();
        let windows = grow(&mut cubic, ssthresh, Duration::from_millis(100), 150);
        let at = |seconds: f64| windows[(seconds * 10.0) as usize - 1];
        assert!((at(k) - 400.0).abs() < 8.0, "{} after K = {k} s", at(k));
        assert!(
            at(k / 2.0) > 370.0 && at(k / 2.0) < 396.0,
            "{}",
            at(k / 2.0)
        );
        let beyond = 400.0 + 0.4 * (14.0 - k).powi(3);
        assert!(
            (at(14.0) - beyond).abs() / beyond < 0.1,
            "{} against {beyond}",
            at(14.0)
        );
    }

    /// RFC 9438, 4.3: with a small window and a short round trip the window is at least Reno's.
    /// Promise 58.
    #[test]
    fn cubic_is_no_slower_than_reno_where_reno_is_fast() {
        let mut cubic = Cubic::default();
        let ssthresh = cubic.lost(20 * MSS, 20 * MSS, MSS, Time::ZERO);
        let windows = grow(&mut cubic, ssthresh, Duration::from_millis(2), 40);
        let reno = 14.0 + 40.0 * 3.0 * 0.3 / 1.7;
        assert!(windows[39] > reno * 0.9, "{} against {reno}", windows[39]);
        assert!(windows[39] < 14.0 + 45.0, "{}", windows[39]);
    }

    /// RFC 9438, 4.7: a flow that loses below its old window leaves more capacity to new flows.
    /// Promise 58.
    #[test]
    fn a_loss_below_the_old_window_frees_capacity() {
        let mut cubic = Cubic::default();
        cubic.lost(100 * MSS, 100 * MSS, MSS, Time::ZERO);
        cubic.lost(80 * MSS, 80 * MSS, MSS, Time::ZERO);
        assert!((cubic.w_max - 68.0).abs() < 0.01);
    }
}
