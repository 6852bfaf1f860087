//! Congestion control (RFC 5681): the window, and whose rules open it.

pub mod cubic;
pub mod hystart;
pub mod newreno;

use super::seq;
use crate::api::{Congestion, HyStart, TcpConfig, Time};
use crate::tuning::loss::SLOW_START_SEGMENTS;
use std::time::Duration;

/// The window and what moves it. Bytes throughout.
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

/// How much of the window was used in the current round trip (RFC 7661, 3): a window that is not
/// used says nothing about the path, and one that was must not be judged by what is left of it when
/// the acknowledgements come.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    /// The round trip ends when all up to here is acknowledged.
    end: u32,
    /// Most bytes that were under way in it.
    flight: u32,
    /// There was no room for a segment more.
    filled: bool,
}

/// Before the first loss (RFC 5681, 3.1: arbitrarily high).
const NO_SSTHRESH: u32 = u32::MAX >> 1;

/// Initial window (RFC 6928): ten segments, at most 14,600 bytes or two segments.
pub fn initial_window(mss: u32) -> u32 {
    (10 * mss).min((2 * mss).max(14_600))
}

impl Window {
    /// Before the first acknowledgement.
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

    /// The window.
    pub const fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// Where slow start ends; `None` before the first loss.
    pub fn ssthresh(&self) -> Option<u32> {
        (self.ssthresh != NO_SSTHRESH).then_some(self.ssthresh)
    }

    const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// `bytes` new bytes were acknowledged outside of recovery, while the window was in use.
    pub fn acknowledged(&mut self, bytes: u32, mss: u32, now: Time, srtt: Option<Duration>) {
        let mut bytes = bytes;
        if self.in_slow_start() {
            let most = (SLOW_START_SEGMENTS * mss).min(self.ssthresh - self.cwnd);
            let growth = bytes.min(most);
            self.cwnd += self.rounds.growth(growth);
            // What is left belongs to congestion avoidance.
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

    /// All up to `una` was acknowledged, a round trip after what was sent last of it; up to `max`
    /// was sent. Slow start may be over, where there was no loss yet (RFC 9406, 4.3).
    pub fn measured(&mut self, round_trip: Duration, una: u32, max: u32, mss: u32) {
        if self.ssthresh == NO_SSTHRESH {
            let round_trip_us = round_trip.as_micros().min(u128::from(u32::MAX)) as u32;
            let segments = self.cwnd / mss;
            if self.rounds.measured(round_trip_us, una, max, segments) {
                self.ssthresh = self.cwnd;
            }
        }
    }

    /// Sending starts at `iss`.
    pub fn start(&mut self, iss: u32) {
        self.usage.end = iss;
        self.rounds.start(iss);
    }

    /// New data up to `end` was sent; `una` is the first byte not acknowledged.
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

    /// Whether the window was used in this round trip: all of it, in slow start half of it.
    pub const fn is_used(&self) -> bool {
        self.usage.filled || self.in_slow_start() && self.usage.flight > self.cwnd / 2
    }

    /// A loss was seen with `flight` bytes under way: recovery sends with the new `ssthresh`, and
    /// `inflation` bytes that have left the network.
    pub fn begin_recovery(&mut self, flight: u32, inflation: u32, mss: u32, now: Time) {
        self.lost(flight, mss, now);
        self.cwnd = self.ssthresh + inflation;
    }

    /// What an acknowledgement leaves of the window during recovery (RFC 9937).
    pub fn set_in_recovery(&mut self, cwnd: u32) {
        self.cwnd = cwnd;
    }

    /// A segment more has left the network (RFC 5681, 3.2, step 4).
    pub fn inflate(&mut self, mss: u32) {
        self.cwnd = self.cwnd.saturating_add(mss);
    }

    /// A partial acknowledgement of `bytes` (RFC 6582, 3.2, step 3).
    pub fn deflate(&mut self, bytes: u32, mss: u32) {
        self.cwnd = self.cwnd.saturating_sub(bytes);
        if bytes >= mss {
            self.cwnd += mss;
        }
        self.cwnd = self.cwnd.max(mss);
    }

    /// All is repaired, and `flight` bytes are under way: no burst when that is little (RFC 6582, 3.2,
    /// step 3).
    pub fn end_recovery(&mut self, flight: u32, mss: u32) {
        self.cwnd = self.ssthresh.min(flight.max(mss) + mss).max(mss);
    }

    /// As [`Self::end_recovery`] with SACK, where what is under way was known all the time.
    pub fn end_sack_recovery(&mut self) {
        self.cwnd = self.ssthresh;
    }

    /// Loss was seen with `flight` bytes under way: the new `ssthresh`.
    fn lost(&mut self, flight: u32, mss: u32, now: Time) {
        self.ssthresh = match &mut self.cubic {
            Some(cubic) => cubic.lost(self.cwnd, flight, mss, now),
            None => newreno::ssthresh(flight, mss),
        };
        self.acked = 0;
    }

    /// The retransmission timer ran out (RFC 5681, 3.1): one segment. `first`: not again for the
    /// same data, where `ssthresh` stays.
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

    /// Nothing was sent for longer than the timeout: what the window said is out of date
    /// (RFC 5681, 4.1).
    pub fn idle(&mut self, mss: u32) {
        self.cwnd = self.cwnd.min(initial_window(mss));
        if let Some(cubic) = &mut self.cubic {
            cubic.timed_out();
        }
    }
}
