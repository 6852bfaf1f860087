//! A moment of the past at which nothing was recorded.

use cofferdam_history::{ReadError, Reader};
use std::time::{Duration, SystemTime};

/// Longest time after the last frame of a running agent in which the next one is only not written
/// yet.
const NOT_YET: Duration = Duration::from_secs(3);

/// A moment between two frames, or beyond the last, with the nearest recorded ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    asked: SystemTime,
    /// End of the last frame before it.
    before: Option<SystemTime>,
    /// Begin of the first frame after it.
    after: Option<SystemTime>,
}

impl Unrecorded {
    /// Looks whether something was recorded at `asked`; `None` if so.
    pub fn at(reader: &mut Reader, asked: SystemTime) -> Result<Option<Unrecorded>, ReadError> {
        let before = reader.frame_at(asked)?;
        if let Some(frame) = &before
            && (frame.start..frame.end).contains(&asked)
        {
            return Ok(None);
        }
        let after = reader.after(asked)?;
        let is_gap = match (&before, &after) {
            (Some(before), Some(after)) => before.gap_to(after).is_some(),
            (Some(last), None) => asked > last.end + NOT_YET.max(last.length),
            (None, _) => true,
        };
        Ok(is_gap.then(|| Unrecorded {
            asked,
            before: before.map(|frame| frame.end),
            after: after.map(|frame| frame.start),
        }))
    }

    /// The fact, and the nearest moments that were recorded.
    pub fn sentence(&self) -> String {
        let time = cofferdam_records::time;
        let nearest = match (self.before, self.after) {
            (Some(before), Some(after)) => format!(
                "the nearest moments are {} (shown) and {}",
                time(before),
                time(after)
            ),
            (Some(before), None) => format!("the nearest moment is {} (shown)", time(before)),
            (None, Some(after)) => format!("the nearest moment is {}", time(after)),
            (None, None) => "the history is empty".to_owned(),
        };
        format!("nothing was recorded at {}; {nearest}", time(self.asked))
    }
}
