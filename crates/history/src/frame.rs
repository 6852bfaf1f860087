//! Frames: the events of one interval.

use crate::error::BadTime;
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::status::ConditionRecord;
use std::time::{Duration, SystemTime};

/// Record of one interval, as the agent cut it, or summed over several.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Begin, by the wall clock of that time.
    pub start: SystemTime,
    /// End; `record.time`.
    pub end: SystemTime,
    /// Recorded time in it: less than from `start` to `end` if there are gaps, more if the clock
    /// was set back. `record.interval_s`.
    pub length: Duration,
    /// Nominal length: that of its tier, or of its sum.
    pub resolution: Duration,
    /// Ledger with its diagnosis. Counts since a start have their values at the end.
    pub record: AccountingRecord,
    /// Conditions of containers at the end, and conditions that ended within the frame.
    pub conditions: Vec<ConditionRecord>,
}

impl Frame {
    /// Builds the frame of one interval that ends at `record.time`.
    ///
    /// # Errors
    /// The time is not RFC 3339, or the length is not a duration.
    pub fn new(
        record: AccountingRecord,
        conditions: Vec<ConditionRecord>,
    ) -> Result<Frame, BadTime> {
        let bad = || BadTime {
            time: record.time.clone(),
            interval_s: record.interval_s.to_string(),
        };
        let end = humantime::parse_rfc3339_weak(&record.time).map_err(|_| bad())?;
        let length = Duration::try_from_secs_f64(record.interval_s).map_err(|_| bad())?;
        let start = end.checked_sub(length).ok_or_else(bad)?;
        Ok(Frame {
            start,
            end,
            length,
            resolution: length,
            record,
            conditions,
        })
    }

    /// Time without recording between two frames. `None` if the second continues the first.
    pub fn gap_to(&self, later: &Frame) -> Option<Duration> {
        let gap = later.start.duration_since(self.end).ok()?;
        (gap > crate::sum::CONTIGUOUS).then_some(gap)
    }
}
