//! Source of the readings on the screen, and their place in time.

use super::replay::UnrecordedMoment;
use crate::units;
use cofferdam_types::quantity::SHORTEST_INTERVAL;
use std::time::Duration;

/// Longest interval that keys reach.
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// Source of the readings. Their own times are in their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Readings measured now.
    Live {
        /// Time between two readings.
        interval: Duration,
    },
    /// Recorded readings of the past.
    Replay {
        /// Time that one reading covers.
        resolution: Duration,
        /// Time without recording before the reading.
        gap: Option<Duration>,
        /// Requested moment, if nothing was recorded then.
        unrecorded: Option<UnrecordedMoment>,
        /// Whether the next reading follows automatically.
        playing: bool,
    },
}

impl Clock {
    /// Time that one reading covers.
    pub fn interval(self) -> Duration {
        match self {
            Clock::Live { interval } => interval,
            Clock::Replay { resolution, .. } => resolution,
        }
    }

    /// Clock with double the interval, or half of it; `None` in a replay, whose interval is fixed.
    pub fn changed(self, longer: bool) -> Option<Clock> {
        let Clock::Live { interval } = self else {
            return None;
        };
        let next = if longer { interval * 2 } else { interval / 2 };
        Some(Clock::Live {
            interval: next.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL.max(interval)),
        })
    }

    /// End of a reading for the title, from its `time` in RFC 3339. A live reading has only the
    /// time of day.
    pub fn moment(self, time: &str) -> String {
        let day = time.get(..10).zip(time.get(11..19));
        match (self, day) {
            (Clock::Live { .. }, Some((_, clock))) => format!("{clock} UTC"),
            (Clock::Replay { .. }, Some((date, clock))) => format!("{date} {clock} UTC"),
            (_, None) => crate::exit::one_line(time),
        }
    }

    /// Interval of the readings in words.
    pub fn words(self) -> String {
        match self {
            Clock::Live { interval } => format!("every {}", units::duration(interval)),
            Clock::Replay {
                resolution,
                gap,
                playing,
                ..
            } => {
                let word = if playing { "playing" } else { "replay of" };
                let gap = gap.map_or(String::new(), |gap| {
                    let gap = Duration::from_secs(gap.as_secs());
                    format!(" after {} without recording", units::duration(gap))
                });
                format!("{word} {}{gap}", units::duration(resolution))
            }
        }
    }

    /// Reason why the reading is not of the requested moment, if so.
    pub fn note(self) -> Option<String> {
        match self {
            Clock::Live { .. } => None,
            Clock::Replay { unrecorded, .. } => unrecorded.map(|moment| moment.sentence()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_has_a_date_and_a_fixed_interval() {
        let live = Clock::Live {
            interval: Duration::from_secs(1),
        };
        let replay = Clock::Replay {
            resolution: Duration::from_secs(10),
            gap: None,
            unrecorded: None,
            playing: false,
        };
        let after_gap = Clock::Replay {
            resolution: Duration::from_secs(1),
            gap: Some(Duration::from_millis(7_200_400)),
            unrecorded: None,
            playing: true,
        };
        assert_eq!(after_gap.words(), "playing 1s after 2h without recording");
        let time = "2026-11-24T03:00:10.000Z";
        assert_eq!(live.moment(time), "03:00:10 UTC");
        assert_eq!(replay.moment(time), "2026-11-24 03:00:10 UTC");
        assert_eq!(replay.moment("\u{1b}"), "\\x1b");
        assert_eq!(
            (live.words(), replay.words()),
            ("every 1s".into(), "replay of 10s".into())
        );
        assert_eq!(replay.changed(true), None);
        assert_eq!(
            live.changed(true).map(Clock::interval),
            Some(Duration::from_secs(2))
        );
    }
}
