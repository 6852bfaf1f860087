//! Inbox of an application: the received frames that it may read and has not returned.

use crate::tuning::turns::RESUME_PART;

/// Content of a frame that an application has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameContent {
    Nothing,
    Segment { handle: u64, len: u32 },
    Datagram { handle: u64 },
}

/// Content and number of the frames in one application's inbox.
pub(super) struct InboxFrames {
    /// Content of each frame.
    contents: Vec<FrameContent>,
    count: u32,
    most: u32,
    was_full: bool,
}

impl InboxFrames {
    /// An inbox of `frames` frames, of which the application may have `most`.
    pub fn new(frames: u32, most: u32) -> InboxFrames {
        InboxFrames {
            contents: vec![FrameContent::Nothing; frames as usize],
            count: 0,
            most,
            was_full: false,
        }
    }

    /// Number of frames that the application has.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Number of frames of the inbox.
    pub fn frames(&self) -> u32 {
        self.contents.len() as u32
    }

    /// Whether the application has all the frames that it may.
    pub fn is_full(&self) -> bool {
        self.count >= self.most
    }

    /// Gives the application a frame; `None` if the inbox has no such frame.
    pub fn insert(&mut self, frame: u32, content: FrameContent) -> Option<()> {
        *self.contents.get_mut(frame as usize)? = content;
        self.count += 1;
        Some(())
    }

    /// Takes a frame from the application. Returns its content; `Nothing` if the application did
    /// not have it.
    pub fn release(&mut self, frame: u32) -> FrameContent {
        let Some(place) = self.contents.get_mut(frame as usize) else {
            return FrameContent::Nothing;
        };
        let content = std::mem::replace(place, FrameContent::Nothing);
        self.count -= u32::from(content != FrameContent::Nothing);
        content
    }

    /// Whether the application has all the frames that it may, for the first time since it had
    /// fewer.
    pub fn became_full(&mut self) -> bool {
        self.is_full() && !std::mem::replace(&mut self.was_full, true)
    }

    /// Whether a reader that was full has released enough frames to get more. True only once, until
    /// it is full again.
    pub fn has_room_again(&mut self) -> bool {
        let has = self.was_full && self.count <= self.most / RESUME_PART.1 * RESUME_PART.0;
        self.was_full &= !has;
        has
    }
}
