//! End of slow start before a loss, when round trips get longer: HyStart++ (RFC 9406), and the rule
//! of Linux's CUBIC (HYSTART_DELAY).
//!
//! ```text
//! phase         smallest round trip of eight samples in this round          next phase
//! slow start    an eighth (4 to 16 ms) above the last round's               conservative
//!               Linux: the same above the smallest of all                   over
//! conservative  below that at its start                                     slow start
//! conservative  not below it for five rounds                                over
//! ```

use crate::api::HyStart;
use crate::tcp::seq;

/// Samples of a round before a decision (RFC 9406, 4.3: N_RTT_SAMPLE).
const SAMPLES: u8 = 8;
/// Divisor of the round trip for the growth that ends slow start, and the bounds of that growth in
/// µs (MIN_RTT_DIVISOR, MIN_RTT_THRESH, MAX_RTT_THRESH).
const DIVISOR: u32 = 8;
const LEAST_GROWTH_US: u32 = 4_000;
const MOST_GROWTH_US: u32 = 16_000;
/// Divisor of the window's growth in conservative slow start, and number of its rounds
/// (CSS_GROWTH_DIVISOR, CSS_ROUNDS).
const SLOWER: u32 = 4;
const ROUNDS: u8 = 5;
/// Window in segments below which Linux takes no decision (hystart_low_window).
const LOW_WINDOW: u32 = 16;

/// State of conservative slow start.
#[derive(Debug, Clone, Copy)]
struct Conservative {
    /// Smallest round trip of the round in which it began, in µs.
    baseline_us: u32,
    /// Rounds so far, including the one in which it began.
    rounds: u8,
}

/// Rounds of slow start and their smallest round trips in µs; `u32::MAX` is none.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    kind: HyStart,
    /// The round ends when the peer has acknowledged everything up to this number.
    end: u32,
    last_us: u32,
    current_us: u32,
    least_us: u32,
    samples: u8,
    conservative: Option<Conservative>,
}

impl Rounds {
    pub const fn new(kind: HyStart) -> Self {
        Self {
            kind,
            end: 0,
            last_us: u32::MAX,
            current_us: u32::MAX,
            least_us: u32::MAX,
            samples: 0,
            conservative: None,
        }
    }

    /// Sets the initial sequence number.
    pub const fn start(&mut self, iss: u32) {
        self.end = iss;
    }

    /// Bytes by which `bytes` acknowledged bytes grow the window.
    pub const fn growth(&self, bytes: u32) -> u32 {
        if self.conservative.is_some() {
            bytes / SLOWER
        } else {
            bytes
        }
    }

    /// Records a round trip: everything up to `una` is acknowledged, everything up to `max` was
    /// sent, and the window is `segments` long. Returns whether slow start is over.
    pub fn measured(&mut self, round_trip_us: u32, una: u32, max: u32, segments: u32) -> bool {
        self.least_us = self.least_us.min(round_trip_us);
        if self.kind == HyStart::Off {
            return false;
        }
        let is_linux = self.kind == HyStart::Linux;
        let is_over = seq::lt(self.end, una) || !is_linux && self.end == una;
        if is_over && self.next_round(max) {
            return true;
        }
        if is_linux && segments < LOW_WINDOW {
            return false;
        }
        self.current_us = self.current_us.min(round_trip_us);
        if is_linux && self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        self.samples = self.samples.saturating_add(1);
        if self.samples < SAMPLES {
            return false;
        }
        if let Some(conservative) = &self.conservative {
            // The round trip is short again, so its growth was not this connection's queue.
            if self.current_us < conservative.baseline_us {
                self.conservative = None;
            }
            return false;
        }
        let before_us = if is_linux {
            self.least_us
        } else {
            self.last_us
        };
        let growth_us = (before_us / DIVISOR).clamp(LEAST_GROWTH_US, MOST_GROWTH_US);
        let is_longer = if is_linux {
            self.current_us > before_us.saturating_add(growth_us)
        } else {
            self.current_us >= before_us.saturating_add(growth_us)
        };
        if is_longer && !is_linux {
            self.conservative = Some(Conservative {
                baseline_us: self.current_us,
                rounds: 1,
            });
        }
        is_longer && is_linux
    }

    /// Starts a round. Returns whether conservative slow start is complete.
    fn next_round(&mut self, end: u32) -> bool {
        (self.last_us, self.current_us) = (self.current_us, u32::MAX);
        (self.end, self.samples) = (end, 0);
        match &mut self.conservative {
            Some(conservative) => {
                conservative.rounds += 1;
                conservative.rounds > ROUNDS
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u32 = 1000;

    /// Runs a round of ten acknowledgements of one segment each, with these round trips in ms.
    /// Returns the acknowledgement at which slow start was over.
    fn round(rounds: &mut Rounds, at: &mut u32, round_trip_ms: [u32; 10]) -> Option<usize> {
        let mut over = None;
        for (index, ms) in round_trip_ms.into_iter().enumerate() {
            *at += 1;
            if rounds.measured(ms * MS, *at, *at + 10, 20) {
                over.get_or_insert(index);
            }
        }
        over
    }

    fn rounds(kind: HyStart) -> Rounds {
        let mut rounds = Rounds::new(kind);
        rounds.start(0);
        rounds
    }

    /// RFC 9406, 4.2: eight longer samples start the conservative phase, which ends after five
    /// rounds.
    /// Promise 58.
    #[test]
    fn longer_round_trips_end_slow_start_after_five_slow_rounds() {
        let (mut rounds, mut at) = (rounds(HyStart::PlusPlus), 0);
        assert_eq!(round(&mut rounds, &mut at, [100; 10]), None);
        assert_eq!(rounds.growth(4000), 4000);
        assert_eq!(round(&mut rounds, &mut at, [112; 10]), None);
        assert_eq!(rounds.growth(4000), 4000, "12 ms are less than an eighth");
        assert_eq!(round(&mut rounds, &mut at, [126; 10]), None);
        assert_eq!(rounds.growth(4000), 1000, "14 ms are an eighth of 112");
        let more: Vec<_> = (0..5)
            .map(|_| round(&mut rounds, &mut at, [130; 10]))
            .collect();
        assert_eq!(more, [None, None, None, None, Some(0)]);
    }

    /// RFC 9406, 4.2: one short round trip in eight is enough to continue slow start.
    /// Promise 58.
    #[test]
    fn one_short_round_trip_keeps_slow_start() {
        let (mut rounds, mut at) = (rounds(HyStart::PlusPlus), 0);
        round(&mut rounds, &mut at, [100; 10]);
        round(
            &mut rounds,
            &mut at,
            [150, 150, 150, 101, 150, 150, 150, 150, 150, 150],
        );
        assert_eq!(rounds.growth(4000), 4000);
    }

    /// RFC 9406, 4.2: conservative slow start ends when round trips are shorter again.
    /// Promise 58.
    #[test]
    fn shorter_round_trips_resume_slow_start() {
        let (mut rounds, mut at) = (rounds(HyStart::PlusPlus), 0);
        round(&mut rounds, &mut at, [100; 10]);
        round(&mut rounds, &mut at, [150; 10]);
        assert_eq!(rounds.growth(4000), 1000);
        round(&mut rounds, &mut at, [120; 10]);
        assert_eq!(rounds.growth(4000), 4000);
    }

    /// RFC 9406, 4.3: the growth is bounded by 4 and 16 ms.
    /// Promise 58.
    #[test]
    fn growth_is_judged_between_4_and_16_ms() {
        for (before, after, slows) in [
            (1, 4, false),
            (1, 5, true),
            (800, 815, false),
            (800, 816, true),
        ] {
            let (mut rounds, mut at) = (rounds(HyStart::PlusPlus), 0);
            round(&mut rounds, &mut at, [before; 10]);
            round(&mut rounds, &mut at, [after; 10]);
            let growth = if slows { 1000 } else { 4000 };
            assert_eq!(rounds.growth(4000), growth, "{before} {after}");
        }
    }

    /// Linux compares with the smallest round trip of all, at the ninth sample, and ends slow start
    /// at once.
    /// Promise 58.
    #[test]
    fn the_linux_rule_ends_slow_start_at_the_ninth_sample() {
        let (mut rounds, mut at) = (rounds(HyStart::Linux), 0);
        assert_eq!(round(&mut rounds, &mut at, [100; 10]), None);
        assert_eq!(round(&mut rounds, &mut at, [120; 10]), Some(9));
        let (mut off, mut at) = (self::rounds(HyStart::Off), 0);
        for ms in [10, 100, 1000] {
            assert_eq!(round(&mut off, &mut at, [ms; 10]), None);
        }
        assert_eq!(off.growth(4000), 4000);
    }
}
