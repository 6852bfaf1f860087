//! State of an application's life, shared by its domains on all cores and the control plane.

use super::offence::Offence;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Life of one application.
#[derive(Debug, Default)]
pub(crate) struct Life {
    gone: AtomicBool,
    /// Position of the first offence in [`Offence::ALL`], plus one; 0 without an offence.
    offence: AtomicU8,
}

impl Life {
    /// Ends the application on all cores. Returns true for the first call.
    pub fn end(&self) -> bool {
        !self.gone.swap(true, Ordering::AcqRel)
    }

    #[inline(always)]
    pub fn has_ended(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Records an offence. The first one stays.
    pub fn accuse(&self, offence: Offence) {
        let place = Offence::ALL.iter().position(|o| *o == offence);
        let number = place.map_or(0, |place| place as u8 + 1);
        let _ = self
            .offence
            .compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Offence for which the application is ended.
    pub fn offence(&self) -> Option<Offence> {
        let number = self.offence.load(Ordering::Acquire);
        let place = usize::from(number).checked_sub(1)?;
        Offence::ALL.get(place).copied()
    }
}
