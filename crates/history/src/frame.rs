//! What happened in one interval.

use crate::error::BadTime;
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::status::ConditionRecord;
use std::time::{Duration, SystemTime};

/// What happened in one interval, as the agent cut it or summed over several.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// When it begins, by the wall clock of that time.
    pub start: SystemTime,
    /// When it ends; `record.time`.
    pub end: SystemTime,
    /// Time in it that was recorded: less than from `start` to `end` if it has gaps, more if the
    /// clock was set back. `record.interval_s`.
    pub length: Duration,
    /// The length of frames where it comes from: that of its tier, or of its sum.
    pub resolution: Duration,
    /// The ledger, with the diagnosis in it. What is counted since a start is as it was at the end.
    pub record: AccountingRecord,
    /// Containers that suffered from others at the end, and those that did before within the frame.
    pub conditions: Vec<ConditionRecord>,
}

impl Frame {
    /// The frame of one interval that ends at `record.time`.
    ///
    /// # Errors
    /// When its time is not RFC 3339, or its length not a time.
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

    /// Time without recording between two frames, `None` if the second continues the first.
    pub fn gap_to(&self, later: &Frame) -> Option<Duration> {
        let gap = later.start.duration_since(self.end).ok()?;
        (gap > crate::sum::CONTIGUOUS).then_some(gap)
    }
}
