//! An application as the loop sees it: what it holds, what it may do, what it did wrong.

use super::Life;
use super::cores::Seat;
use crate::abi::{Condition, Entry};
use crate::channel::Inside;
use crate::policy::Rights;
use cofferdam_xsk::{Frame, Memory};
use std::collections::VecDeque;
use std::sync::Arc;

/// Conditions that wait for room in the ring, at most: a longer queue is an application that
/// does not read.
const OVERFLOW: usize = 32768;

/// Why an application was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Offence {
    /// It ended itself, or closed its socket.
    #[error("it is gone")]
    Gone,
    /// An index of its rings cannot be.
    #[error("it wrote an impossible index into its rings")]
    Ring,
    /// An entry is no call.
    #[error("it wrote an entry into its ring that is not a call")]
    Call,
    /// A range outside its memory.
    #[error("it referred to memory that is not its own")]
    Memory,
    /// A frame that it does not hold.
    #[error("it returned a frame that it did not hold")]
    Frame,
    /// A connection of another application.
    #[error("it referred to a connection of another application")]
    Connection,
    /// It does not read its conditions.
    #[error("it left {OVERFLOW} conditions unread")]
    Deaf,
}

impl Offence {
    /// All that an application can be ended for.
    pub(super) const ALL: [Offence; 6] = [
        Offence::Ring,
        Offence::Call,
        Offence::Memory,
        Offence::Frame,
        Offence::Connection,
        Offence::Deaf,
    ];
}

/// What a frame that an application holds is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    Nothing,
    Segment { handle: u64, len: u32 },
    Datagram { handle: u64 },
}

/// One attached application.
pub(crate) struct Domain {
    /// Its place among the applications of the configuration.
    pub(super) client: u8,
    pub name: String,
    pub(super) inside: Inside,
    pub(super) rights: Rights,
    pub(super) life: Arc<Life>,
    pub(super) offence: Option<Offence>,
    /// By frame of its inbox.
    pub(super) holdings: Vec<Holding>,
    pub(super) held_frames: u32,
    pub(super) most_frames: u32,
    was_full: bool,
    overflow: VecDeque<Entry>,
    /// Ranges of its memory that the stack refers to.
    pub(super) ranges: u32,
    pub(super) most_ranges: u32,
    pub(super) datagrams: u32,
    pub(super) connections: u32,
    /// Its place in every core's table.
    pub(super) seat: Seat,
}

impl Domain {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        client: u8,
        name: String,
        inside: Inside,
        rights: Rights,
        life: Arc<Life>,
        seat: Seat,
        share: Share,
    ) -> Domain {
        let own_frames = inside.frames.as_ref().map(Memory::own_frames);
        let numbers = inside.inbox_frames;
        Domain {
            client,
            name,
            holdings: vec![Holding::Nothing; numbers as usize],
            held_frames: 0,
            was_full: false,
            most_frames: own_frames.unwrap_or(share.frames),
            inside,
            rights,
            life,
            offence: None,
            overflow: VecDeque::with_capacity(256),
            ranges: 0,
            most_ranges: share.ranges,
            datagrams: 0,
            connections: 0,
            seat,
        }
    }

    /// Whether it is being cleaned up.
    pub fn is_leaving(&self) -> bool {
        self.offence.is_some()
    }

    /// Marks it for clean-up; the first reason stays.
    pub fn end(&mut self, offence: Offence) {
        self.offence.get_or_insert(offence);
        if offence != Offence::Gone {
            self.life.accuse(offence);
        }
    }

    /// Whether the stack may still refer to its memory.
    pub fn is_referred_to(&self) -> bool {
        self.connections > 0 || self.datagrams > 0
    }

    /// Hands a condition over; it waits when the ring is full.
    #[inline(always)]
    pub fn tell(&mut self, condition: Condition) {
        self.hand_over(&Entry::from(condition));
    }

    fn hand_over(&mut self, entry: &Entry) {
        if self.is_leaving() {
            return;
        }
        if self.overflow.is_empty() {
            match self.inside.end.room() {
                Ok(0) => {}
                Ok(_) => return self.inside.end.push(*entry),
                Err(_) => return self.end(Offence::Ring),
            }
        }
        if self.overflow.len() >= OVERFLOW {
            return self.end(Offence::Deaf);
        }
        self.overflow.push_back(*entry);
    }

    /// Shows it what was told, and wakes it when it sleeps. True when it was woken.
    pub fn publish(&mut self) -> bool {
        while !self.overflow.is_empty() && !self.is_leaving() {
            match self.inside.end.room() {
                Ok(0) => break,
                Ok(_) => {
                    if let Some(entry) = self.overflow.pop_front() {
                        self.inside.end.push(entry);
                    }
                }
                Err(_) => self.end(Offence::Ring),
            }
        }
        let woken = self.inside.end.publish();
        if woken {
            self.inside.bell.ring();
        }
        woken
    }

    /// The address of a range of the application's memory; `None` when it lies outside.
    pub fn range(&self, offset: u64, len: u32) -> Option<*const u8> {
        let end = offset.checked_add(u64::from(len))?;
        if end > self.inside.area.len() as u64 {
            return None;
        }
        // SAFETY: the range lies inside the mapping.
        Some(unsafe { self.inside.area.base().as_ptr().add(offset as usize) })
    }

    /// Puts received bytes of `frame` where the application can read them: in place, or in a
    /// frame of its own. `None` when it holds all it may: then the frame is still the caller's.
    pub fn hold(
        &mut self,
        memory: &mut Memory,
        frame: Frame,
        start: usize,
        len: usize,
        what: Holding,
    ) -> Option<(Frame, u64)> {
        if self.held_frames >= self.most_frames {
            return None;
        }
        let place = match &mut self.inside.frames {
            None => (frame, start),
            Some(own) => {
                let bytes = memory.bytes(frame).get(start..start + len)?;
                let into = own.store(bytes)?;
                memory.give(frame);
                (into, 0)
            }
        };
        *self.holdings.get_mut(place.0.0 as usize)? = what;
        self.held_frames += 1;
        let frame_bytes = u64::from(memory.frame_bytes());
        Some((place.0, u64::from(place.0.0) * frame_bytes + place.1 as u64))
    }

    /// Takes a frame back; what it held, `Nothing` when the application did not have it.
    pub fn release(&mut self, memory: &mut Memory, frame: u32) -> Holding {
        let Some(place) = self.holdings.get_mut(frame as usize) else {
            return Holding::Nothing;
        };
        let held = std::mem::replace(place, Holding::Nothing);
        if held != Holding::Nothing {
            self.held_frames -= 1;
            self.inside
                .frames
                .as_mut()
                .unwrap_or(memory)
                .give(Frame(frame));
        }
        held
    }

    /// Whether it holds all that it may, for the first time since it had room.
    pub fn became_full(&mut self) -> bool {
        self.held_frames >= self.most_frames && !std::mem::replace(&mut self.was_full, true)
    }

    /// Once it was full: whether it has given enough back to be given more.
    pub fn has_room_again(&mut self) -> bool {
        let has = self.was_full && self.held_frames <= self.most_frames / 4 * 3;
        self.was_full &= !has;
        has
    }

    /// Takes all frames back.
    pub fn release_all(&mut self, memory: &mut Memory) {
        for frame in 0..self.holdings.len() as u32 {
            self.release(memory, frame);
        }
        self.overflow.clear();
    }
}

/// What of the dataplane's tables one application may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub frames: u32,
    pub ranges: u32,
}
