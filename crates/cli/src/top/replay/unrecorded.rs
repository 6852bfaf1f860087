//! Requested moments of the past at which nothing was recorded.

use cofferdam_history::{ReadError, Reader};
use std::time::{Duration, SystemTime};

/// Longest time after the last frame of a running agent in which the next frame may not be written
/// yet.
const NOT_YET: Duration = Duration::from_secs(3);

/// Requested moment between two frames, or after the last one, with the nearest recorded moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnrecordedMoment {
    asked: SystemTime,
    /// End of the last frame before it.
    before: Option<SystemTime>,
    /// Begin of the first frame after it.
    after: Option<SystemTime>,
}

impl UnrecordedMoment {
    /// Checks whether something was recorded at `asked`; returns `None` if so.
    pub fn at(
        reader: &mut Reader,
        asked: SystemTime,
    ) -> Result<Option<UnrecordedMoment>, ReadError> {
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
        Ok(is_gap.then(|| UnrecordedMoment {
            asked,
            before: before.map(|frame| frame.end),
            after: after.map(|frame| frame.start),
        }))
    }

    /// Sentence that states the fact and the nearest recorded moments.
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
