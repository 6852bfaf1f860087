//! Where the readings on the screen come from in time.

use super::replay::Unrecorded;
use crate::units;
use cofferdam_types::quantity::SHORTEST_INTERVAL;
use std::time::Duration;

/// Longest interval that keys reach.
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// Where the readings come from. Their own time is in their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Measured now.
    Live {
        /// Time between two.
        interval: Duration,
    },
    /// Kept since some moment of the past.
    Replay {
        /// Time that one of them covers.
        resolution: Duration,
        /// Time before it for which there is none.
        gap: Option<Duration>,
        /// The moment that was asked for, if nothing was recorded then.
        unrecorded: Option<Unrecorded>,
        /// The next one follows by itself.
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

    /// With double the interval, or with half of it; `None` where what was kept has but one.
    pub fn changed(self, longer: bool) -> Option<Clock> {
        let Clock::Live { interval } = self else {
            return None;
        };
        let next = if longer { interval * 2 } else { interval / 2 };
        Some(Clock::Live {
            interval: next.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL.max(interval)),
        })
    }

    /// The end of a reading as the title says it, from its `time` in RFC 3339: of a live one the time
    /// of day, the date being of no use.
    pub fn moment(self, time: &str) -> String {
        let day = time.get(..10).zip(time.get(11..19));
        match (self, day) {
            (Clock::Live { .. }, Some((_, clock))) => format!("{clock} UTC"),
            (Clock::Replay { .. }, Some((date, clock))) => format!("{date} {clock} UTC"),
            (_, None) => crate::exit::one_line(time),
        }
    }

    /// How often there is a reading.
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

    /// Reason why the reading is not of the moment that was asked for, if it is not.
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
    fn a_replay_has_a_date_and_no_other_interval() {
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
