//! Linux's pacing of a connection: the round trip time by which it sizes bursts, and where they
//! ended.
//!
//! Linux measures on every acknowledgement, and the stack once per round trip (RFC 6298 permits
//! both). Burst sizes follow Linux's measurement.

use cofferdam_netstack::Time;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Unacknowledged segments of a stream and Linux's round trip time.
#[derive(Debug, Default)]
pub struct Pace {
    /// Stream offsets of segment ends, with the time of the first transmission. A retransmitted
    /// segment measures nothing (Karn's algorithm).
    sent: VecDeque<(u64, Option<Time>)>,
    /// Eight times the smoothed round trip time, in nanoseconds, as in Linux.
    srtt8_ns: u64,
    /// Stream offsets of burst ends; a retransmission does not cross them.
    burst_ends: BTreeSet<u64>,
}

impl Pace {
    /// Records a segment sent that ends at `end`; `again` marks a retransmission.
    pub fn sent(&mut self, end: u64, again: bool, now: Time) {
        if !again {
            self.sent.push_back((end, Some(now)));
            return;
        }
        let found = (self.sent.iter_mut()).find(|(at, _)| *at >= end);
        if let Some((_, at)) = found {
            *at = None;
        }
    }

    /// Records the end of a burst of new data.
    pub fn burst_ended(&mut self, end: u64) {
        self.burst_ends.insert(end);
    }

    /// Whether a burst ended there at the first transmission.
    pub fn ends_burst(&self, end: u64) -> bool {
        self.burst_ends.contains(&end)
    }

    /// Records that everything up to `end` is acknowledged. `handshake` is the round trip time of
    /// the handshake.
    pub fn acknowledged(&mut self, end: u64, now: Time, handshake: Option<Duration>) {
        if self.srtt8_ns == 0
            && let Some(first) = handshake
        {
            self.srtt8_ns = first.as_nanos() as u64 * 8;
        }
        let mut oldest = None;
        while let Some((at, left)) = self.sent.front().copied() {
            if at > end {
                break;
            }
            oldest = oldest.or(left);
            self.sent.pop_front();
        }
        self.burst_ends = self.burst_ends.split_off(&end);
        let Some(left) = oldest else { return };
        let rtt_ns = (now.since(left).as_nanos() as u64).max(1_000);
        self.srtt8_ns = match self.srtt8_ns {
            0 => rtt_ns * 8,
            before => before - before / 8 + rtt_ns,
        };
    }

    /// Smoothed round trip time, once measured.
    pub fn srtt(&self) -> Option<Duration> {
        (self.srtt8_ns > 0).then(|| Duration::from_nanos(self.srtt8_ns / 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_acknowledgement_measures_newly_acknowledged_segments() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let ms = Duration::from_millis;
        let mut pace = Pace::default();
        for segment in 1..=4 {
            pace.sent(segment * 1000, false, at(0));
        }
        pace.acknowledged(0, at(0), Some(ms(10)));
        assert_eq!(pace.srtt(), Some(ms(10)));
        pace.acknowledged(2000, at(18), None);
        assert_eq!(pace.srtt(), Some(ms(11)), "7/8 of 10 and 1/8 of 18");
        pace.sent(3000, true, at(20));
        pace.acknowledged(3000, at(40), None);
        assert_eq!(pace.srtt(), Some(ms(11)), "sent again: nothing is measured");
        pace.acknowledged(4000, at(51), None);
        assert_eq!(pace.srtt(), Some(ms(16)));
    }

    #[test]
    fn burst_ends_are_remembered_until_acknowledged() {
        let mut pace = Pace::default();
        pace.burst_ended(2000);
        assert!(pace.ends_burst(2000) && !pace.ends_burst(1000));
        pace.acknowledged(2001, Time::from_nanos(1), None);
        assert!(!pace.ends_burst(2000));
    }
}
