//! State of an application in the loop: its resources and its rights.

use super::account::Account;
use super::calls::PendingConnect;
use super::inbox_frames::{FrameContent, InboxFrames};
use super::life::Life;
use super::offence::Offence;
use super::protection::Protection;
use super::seats::Seat;
use crate::abi::{Condition, Entry};
use crate::channel::Inside;
use crate::policy::Rights;
use crate::ring::DataplaneEnd;
use crate::tuning::turns::MOST_UNREAD;
use cofferdam_xsk::{Frame, Memory};
use std::collections::VecDeque;
use std::sync::Arc;

/// One attached application.
///
/// [`Bell::start`]: crate::ringer::Bell::start
pub(crate) struct Domain {
    /// Index of the application in the configuration.
    client: u8,
    name: String,
    inside: Inside,
    rights: Rights,
    life: Arc<Life>,
    offence: Option<Offence>,
    /// Description of its fault.
    fault: Option<String>,
    protection: Protection,
    pub(super) inbox: InboxFrames,
    overflow: VecDeque<Entry>,
    pub(super) account: Account,
    seat: Seat,
    /// Units of work that may still be done for it in this turn.
    pub(super) units: u32,
    /// A call that the next turn continues, before the calls behind it.
    pub(super) pending_connect: Option<PendingConnect>,
    /// Progress of its end.
    pub(super) ending: EndingStep,
}

/// Progress of an application's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EndingStep {
    /// The application still has its addresses, timers and frames.
    #[default]
    Begins,
    /// Connections in the places before this one are reset.
    Resets(usize),
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
            inbox: InboxFrames::new(numbers, own_frames.unwrap_or(share.frames)),
            inside,
            rights,
            life,
            offence: None,
            fault: None,
            protection: Protection::Process,
            overflow: VecDeque::with_capacity(256),
            account: Account::new(share.ranges),
            seat,
            units: 0,
            pending_connect: None,
            ending: EndingStep::default(),
        }
    }

    /// Counts units of work.
    #[inline]
    pub(super) fn spend(&mut self, units: u32) {
        self.units = self.units.saturating_sub(units);
    }

    /// Index of the application in the configuration.
    pub fn client(&self) -> u8 {
        self.client
    }

    /// Name of the application in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Place of the application in every core's table.
    #[inline]
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Rights of the application.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// State that its domains on all cores share.
    pub fn life(&self) -> &Life {
        &self.life
    }

    /// Offence for which it is ended on this core.
    pub fn offence(&self) -> Option<Offence> {
        self.offence
    }

    /// Whether the application is being cleaned up.
    pub fn is_leaving(&self) -> bool {
        self.offence.is_some()
    }

    /// Ends the application for an offence. The first offence stays.
    pub fn terminate(&mut self, offence: Offence) {
        self.offence.get_or_insert(offence);
        if offence != Offence::Gone {
            self.life.accuse(offence);
        }
    }

    /// Ends the application for a fault. The first offence stays.
    pub fn terminate_faulty(&mut self, fault: String) {
        if self.offence.is_none() {
            self.fault = Some(fault);
        }
        self.terminate(Offence::Fault);
    }

    /// Reason of the end, as text.
    pub fn reason(&self) -> Option<String> {
        let offence = self.offence?;
        Some(self.fault.clone().unwrap_or_else(|| offence.to_string()))
    }

    /// Separation of the application from the dataplane.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Whether the application runs behind protection keys, on the loop's thread.
    pub fn is_guest(&self) -> bool {
        self.protection == Protection::Pkey
    }

    /// Sets the separation of the application.
    pub fn set_protection(&mut self, protection: Protection) {
        self.protection = protection;
    }

    /// The dataplane's end of its rings.
    pub fn end(&mut self) -> &mut DataplaneEnd {
        &mut self.inside.end
    }

    /// Starts the thread that rings costly bells; see [`crate::ringer::Bell::start`].
    pub fn start_bell(&self, offend: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        self.inside.bell.start(offend)
    }

    /// Bell of the application.
    #[cfg(test)]
    pub fn bell(&self) -> &crate::ringer::Bell {
        &self.inside.bell
    }

    /// See [`Inside::discard_at_end`].
    pub fn discard_at_end(&self) {
        self.inside.discard_at_end();
    }

    /// Publishes whether the loop sleeps. Returns true if no call is pending.
    pub fn sleep(&self, sleeps: bool) -> bool {
        self.inside.end.sleep(sleeps) && self.pending_connect.is_none()
    }

    /// Whether the application has unread conditions.
    pub fn is_behind(&self) -> bool {
        self.inside.end.unread() > 0
    }

    /// Delivers a condition. If the ring is full, the condition is buffered.
    #[inline(always)]
    pub fn deliver(&mut self, condition: Condition) {
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
                Err(_) => return self.terminate(Offence::Ring),
            }
        }
        if self.overflow.len() >= MOST_UNREAD {
            return self.terminate(Offence::Deaf);
        }
        self.overflow.push_back(*entry);
    }

    /// Publishes the conditions so far, and wakes the application if it sleeps. Returns whether it
    /// was woken.
    pub fn publish(&mut self) -> bool {
        while !self.overflow.is_empty() && !self.is_leaving() {
            match self.inside.end.room() {
                Ok(0) => break,
                Ok(_) => {
                    if let Some(entry) = self.overflow.pop_front() {
                        self.inside.end.push(entry);
                    }
                }
                Err(_) => self.terminate(Offence::Ring),
            }
        }
        let woken = self.inside.end.publish();
        if woken {
            self.inside.bell.ring();
        }
        woken
    }

    /// Address of a range of the application's memory; `None` if it lies outside.
    pub fn range(&self, offset: u64, len: u32) -> Option<*const u8> {
        let end = offset.checked_add(u64::from(len))?;
        if end > self.inside.area.len() as u64 {
            return None;
        }
        // SAFETY: the range lies inside the mapping.
        Some(unsafe { self.inside.area.base().as_ptr().add(offset as usize) })
    }

    /// Makes received bytes of `frame` readable for the application, in place or in a frame of its
    /// own. `None` if it has all the frames it may: the caller keeps the frame.
    pub fn hold(
        &mut self,
        memory: &mut Memory,
        frame: Frame,
        start: usize,
        len: usize,
        what: FrameContent,
    ) -> Option<(Frame, u64)> {
        if self.inbox.is_full() {
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
        self.inbox.insert(place.0.0, what)?;
        let frame_bytes = u64::from(memory.frame_bytes());
        Some((place.0, u64::from(place.0.0) * frame_bytes + place.1 as u64))
    }

    /// Takes a frame from the application. Returns its content; `Nothing` if the application did
    /// not have it.
    pub fn release(&mut self, memory: &mut Memory, frame: u32) -> FrameContent {
        let content = self.inbox.release(frame);
        if content != FrameContent::Nothing {
            let own = self.inside.frames.as_mut();
            own.unwrap_or(memory).give(Frame(frame));
        }
        content
    }

    /// Takes all frames from the application.
    pub fn release_all(&mut self, memory: &mut Memory) {
        if self.inbox.count() > 0 {
            for frame in 0..self.inbox.frames() {
                self.release(memory, frame);
            }
            self.overflow.clear();
        }
    }
}

/// Share of one application in the dataplane's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub frames: u32,
    pub ranges: u32,
    /// Datagrams of all applications that may be pending.
    pub datagrams: u32,
}
