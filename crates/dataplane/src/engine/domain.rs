//! An application as the loop sees it: what it holds and what it may do.

use super::account::Account;
use super::calls::Unfinished;
use super::held::{Held, Holding};
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
    /// Its place among the applications of the configuration.
    client: u8,
    name: String,
    inside: Inside,
    rights: Rights,
    life: Arc<Life>,
    offence: Option<Offence>,
    /// What its fault was, in words.
    fault: Option<String>,
    protection: Protection,
    pub(super) held: Held,
    overflow: VecDeque<Entry>,
    pub(super) account: Account,
    seat: Seat,
    /// Units of work that may still be done for it in this turn.
    pub(super) units: u32,
    /// A call that the next turn goes on with, before those behind it.
    pub(super) unfinished: Option<Unfinished>,
    /// How far its end is.
    pub(super) ending: EndingStep,
}

/// How far the end of an application is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EndingStep {
    /// Addresses, timers and frames are still its own.
    #[default]
    Begins,
    /// Of the connections' table the places up to this one were looked through.
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
            held: Held::new(numbers, own_frames.unwrap_or(share.frames)),
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
            unfinished: None,
            ending: EndingStep::default(),
        }
    }

    /// Work was done for it.
    #[inline]
    pub(super) fn spend(&mut self, units: u32) {
        self.units = self.units.saturating_sub(units);
    }

    /// Its place among the applications of the configuration.
    pub fn client(&self) -> u8 {
        self.client
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its place in every core's table.
    #[inline]
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// What it may do.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Whether it lives, on all cores.
    pub fn life(&self) -> &Life {
        &self.life
    }

    /// What it is ended for on this core, if for anything.
    pub fn offence(&self) -> Option<Offence> {
        self.offence
    }

    /// Whether it is being cleaned up.
    pub fn is_leaving(&self) -> bool {
        self.offence.is_some()
    }

    /// Marks it for clean-up; the first reason stays.
    pub fn terminate(&mut self, offence: Offence) {
        self.offence.get_or_insert(offence);
        if offence != Offence::Gone {
            self.life.accuse(offence);
        }
    }

    /// Marks it for clean-up for a fault; the first reason stays.
    pub fn terminate_faulty(&mut self, fault: String) {
        if self.offence.is_none() {
            self.fault = Some(fault);
        }
        self.terminate(Offence::Fault);
    }

    /// Why it is ended, in words.
    pub fn reason(&self) -> Option<String> {
        let offence = self.offence?;
        Some(self.fault.clone().unwrap_or_else(|| offence.to_string()))
    }

    /// How it is kept apart from the dataplane.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Whether it runs behind protection keys, on the loop's thread.
    pub fn is_guest(&self) -> bool {
        self.protection == Protection::Pkey
    }

    /// It is kept apart like this.
    pub fn set_protection(&mut self, protection: Protection) {
        self.protection = protection;
    }

    /// The dataplane's end of its rings.
    pub fn end(&mut self) -> &mut DataplaneEnd {
        &mut self.inside.end
    }

    /// Starts what keeps the loop from paying for its bell; see [`crate::ringer::Bell::start`].
    pub fn start_bell(&self, offend: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        self.inside.bell.start(offend)
    }

    /// See [`Inside::discard_at_end`].
    pub fn discard_at_end(&self) {
        self.inside.discard_at_end();
    }

    /// Says that the loop sleeps, or not; true when no call waits.
    pub fn sleep(&self, sleeps: bool) -> bool {
        self.inside.end.sleep(sleeps) && self.unfinished.is_none()
    }

    /// Whether it has conditions still to read.
    pub fn is_behind(&self) -> bool {
        self.inside.end.unread() > 0
    }

    /// Hands a condition over; it waits when the ring is full.
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

    /// Shows it the conditions delivered so far, and wakes it when it sleeps. True when it was
    /// woken.
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
        if self.held.is_full() {
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
        self.held.hold(place.0.0, what)?;
        let frame_bytes = u64::from(memory.frame_bytes());
        Some((place.0, u64::from(place.0.0) * frame_bytes + place.1 as u64))
    }

    /// Takes a frame back; what it held, `Nothing` when the application did not have it.
    pub fn release(&mut self, memory: &mut Memory, frame: u32) -> Holding {
        let held = self.held.release(frame);
        if held != Holding::Nothing {
            let own = self.inside.frames.as_mut();
            own.unwrap_or(memory).give(Frame(frame));
        }
        held
    }

    /// Takes all frames back.
    pub fn release_all(&mut self, memory: &mut Memory) {
        if self.held.count() > 0 {
            for frame in 0..self.held.frames() {
                self.release(memory, frame);
            }
            self.overflow.clear();
        }
    }
}

/// What of the dataplane's tables one application may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub frames: u32,
    pub ranges: u32,
    /// Datagrams that wait to be sent, of all applications.
    pub datagrams: u32,
}
