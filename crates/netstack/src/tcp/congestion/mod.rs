//! Congestion control (RFC 5681): the congestion window and the algorithms that grow it.

pub mod cubic;
pub mod hystart;
pub mod newreno;

use super::seq;
use crate::api::{Congestion, HyStart, TcpConfig, Time};
use crate::tuning::loss::SLOW_START_SEGMENTS;
use std::time::Duration;

/// Congestion window and its state. All sizes are bytes.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    cwnd: u32,
    ssthresh: u32,
    /// Bytes acknowledged since `cwnd` last grew (congestion avoidance, RFC 5681, 3.1).
    acked: u32,
    usage: Use,
    cubic: Option<cubic::Cubic>,
    rounds: hystart::Rounds,
}

/// Use of the window in the current round trip (RFC 7661, 3). A window that is not used says
/// nothing about the path. When the acknowledgements arrive, less is in flight than the window
/// allowed, so the use is recorded at sending.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    /// The round trip ends when the peer has acknowledged everything up to this number.
    end: u32,
    /// Most bytes in flight during the round trip.
    flight: u32,
    /// Whether less than one more segment would have fitted.
    filled: bool,
}

/// `ssthresh` before the first loss (RFC 5681, 3.1: arbitrarily high).
const NO_SSTHRESH: u32 = u32::MAX >> 1;

/// Initial window (RFC 6928, 2): ten segments, but at most 14,600 bytes or two segments.
pub fn initial_window(mss: u32) -> u32 {
    (10 * mss).min((2 * mss).max(14_600))
}

impl Window {
    /// The window before the first acknowledgement.
    pub fn new(config: &TcpConfig, mss: u32) -> Self {
        let is_cubic = config.congestion == Congestion::Cubic;
        let hystart = if is_cubic {
            config.hystart
        } else {
            HyStart::Off
        };
        Self {
            cwnd: initial_window(mss),
            ssthresh: NO_SSTHRESH,
            acked: 0,
            usage: Use::default(),
            cubic: is_cubic.then(cubic::Cubic::default),
            rounds: hystart::Rounds::new(hystart),
        }
    }

    /// Congestion window.
    pub const fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// Slow start threshold; `None` before the first loss.
    pub fn ssthresh(&self) -> Option<u32> {
        (self.ssthresh != NO_SSTHRESH).then_some(self.ssthresh)
    }

    const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows the window after `bytes` new bytes were acknowledged outside of recovery while the
    /// window was used.
    pub fn acknowledged(&mut self, bytes: u32, mss: u32, now: Time, srtt: Option<Duration>) {
        let mut bytes = bytes;
        if self.in_slow_start() {
            let most = (SLOW_START_SEGMENTS * mss).min(self.ssthresh - self.cwnd);
            let growth = bytes.min(most);
            self.cwnd += self.rounds.growth(growth);
            // The rest of the bytes counts for congestion avoidance.
            if self.in_slow_start() || bytes == growth {
                return;
            }
            bytes -= growth;
        }
        match &mut self.cubic {
            Some(cubic) => self.cwnd = cubic.acknowledged(self.cwnd, bytes, mss, now, srtt),
            None => {
                (self.cwnd, self.acked) = newreno::acknowledged(self.cwnd, self.acked, bytes, mss)
            }
        }
    }

    /// Records a round trip: everything up to `una` is acknowledged, everything up to `max` was
    /// sent. May end slow start before the first loss (RFC 9406, 4.3).
    pub fn measured(&mut self, round_trip: Duration, una: u32, max: u32, mss: u32) {
        if self.ssthresh == NO_SSTHRESH {
            let round_trip_us = round_trip.as_micros().min(u128::from(u32::MAX)) as u32;
            let segments = self.cwnd / mss;
            if self.rounds.measured(round_trip_us, una, max, segments) {
                self.ssthresh = self.cwnd;
            }
        }
    }

    /// Sets the initial sequence number.
    pub fn start(&mut self, iss: u32) {
        self.usage.end = iss;
        self.rounds.start(iss);
    }

    /// Records that new data up to `end` was sent; `una` is the first unacknowledged byte.
    pub fn sent(&mut self, una: u32, end: u32, mss: u32) {
        let flight = end.wrapping_sub(una);
        let filled = flight + mss > self.cwnd;
        let is_over = seq::le(self.usage.end, una);
        if is_over || filled || !self.usage.filled && flight > self.usage.flight {
            self.usage = Use {
                end,
                flight,
                filled,
            };
        }
    }

    /// Whether this round trip used the whole window or, in slow start, half of it.
    pub const fn is_used(&self) -> bool {
        self.usage.filled || self.in_slow_start() && self.usage.flight > self.cwnd / 2
    }

    /// Enters recovery after a loss with `flight` bytes in flight: the window is the new `ssthresh`
    /// plus the `inflation` bytes that have left the network.
    pub fn begin_recovery(&mut self, flight: u32, inflation: u32, mss: u32, now: Time) {
        self.lost(flight, mss, now);
        self.cwnd = self.ssthresh + inflation;
    }

    /// Sets the window that proportional rate reduction has computed (RFC 9937).
    pub fn set_in_recovery(&mut self, cwnd: u32) {
        self.cwnd = cwnd;
    }

    /// Adds a segment that has left the network (RFC 5681, 3.2, step 4).
    pub fn inflate(&mut self, mss: u32) {
        self.cwnd = self.cwnd.saturating_add(mss);
    }

    /// Deflates the window by a partial acknowledgement of `bytes` (RFC 6582, 3.2, step 3).
    pub fn deflate(&mut self, bytes: u32, mss: u32) {
        self.cwnd = self.cwnd.saturating_sub(bytes);
        if bytes >= mss {
            self.cwnd += mss;
        }
        self.cwnd = self.cwnd.max(mss);
    }

    /// Leaves recovery with `flight` bytes in flight. A small flight limits the window, to prevent
    /// a burst (RFC 6582, 3.2, step 3).
    pub fn end_recovery(&mut self, flight: u32, mss: u32) {
        self.cwnd = self.ssthresh.min(flight.max(mss) + mss).max(mss);
    }

    /// Leaves SACK recovery, during which the number of bytes in flight was known.
    pub fn end_sack_recovery(&mut self) {
        self.cwnd = self.ssthresh;
    }

    /// Sets `ssthresh` after a loss with `flight` bytes in flight.
    fn lost(&mut self, flight: u32, mss: u32, now: Time) {
        self.ssthresh = match &mut self.cubic {
            Some(cubic) => cubic.lost(self.cwnd, flight, mss, now),
            None => newreno::ssthresh(flight, mss),
        };
        self.acked = 0;
    }

    /// Reduces the window to one segment after a retransmission timeout (RFC 5681, 3.1). `first` is
    /// `false` if the same data timed out before: `ssthresh` stays.
    pub fn timed_out(&mut self, flight: u32, mss: u32, first: bool, now: Time) {
        if first {
            self.lost(flight, mss, now);
        }
        if let Some(cubic) = &mut self.cubic {
            cubic.timed_out();
        }
        self.cwnd = mss;
        self.acked = 0;
    }

    /// Reduces the window after an idle period longer than the timeout, as its value is out of date
    /// (RFC 5681, 4.1).
    pub fn idle(&mut self, mss: u32) {
        self.cwnd = self.cwnd.min(initial_window(mss));
        if let Some(cubic) = &mut self.cubic {
            cubic.timed_out();
        }
    }
}
