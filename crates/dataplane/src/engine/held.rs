//! The received frames that an application holds.

use crate::tuning::turns::RESUME_PART;

/// What a frame that an application holds is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    Nothing,
    Segment { handle: u64, len: u32 },
    Datagram { handle: u64 },
}

/// The frames of one application's inbox, and which of them it holds.
pub(super) struct Held {
    /// By frame.
    holdings: Vec<Holding>,
    count: u32,
    most: u32,
    was_full: bool,
}

impl Held {
    /// None of the `frames`; the application may hold `most`.
    pub fn new(frames: u32, most: u32) -> Held {
        Held {
            holdings: vec![Holding::Nothing; frames as usize],
            count: 0,
            most,
            was_full: false,
        }
    }

    /// Frames that it holds.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Frames of the inbox.
    pub fn frames(&self) -> u32 {
        self.holdings.len() as u32
    }

    /// Whether it holds all that it may.
    pub fn is_full(&self) -> bool {
        self.count >= self.most
    }

    /// It holds a frame from now on; `None` when the inbox has no such frame.
    pub fn hold(&mut self, frame: u32, what: Holding) -> Option<()> {
        *self.holdings.get_mut(frame as usize)? = what;
        self.count += 1;
        Some(())
    }

    /// It holds a frame no more; what it was, `Nothing` when the application did not have it.
    pub fn release(&mut self, frame: u32) -> Holding {
        let Some(place) = self.holdings.get_mut(frame as usize) else {
            return Holding::Nothing;
        };
        let held = std::mem::replace(place, Holding::Nothing);
        self.count -= u32::from(held != Holding::Nothing);
        held
    }

    /// Whether it holds all that it may, for the first time since it had room.
    pub fn became_full(&mut self) -> bool {
        self.is_full() && !std::mem::replace(&mut self.was_full, true)
    }

    /// Once it was full: whether it has given enough back to be given more.
    pub fn has_room_again(&mut self) -> bool {
        let has = self.was_full && self.count <= self.most / RESUME_PART.1 * RESUME_PART.0;
        self.was_full &= !has;
        has
    }
}
