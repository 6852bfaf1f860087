//! Places in the table of applications, which every core has.

use crate::tuning::MOST_APPLICATIONS;
use std::sync::Arc;

/// Place of an application in every core's table, until all cores have forgotten it.
#[derive(Debug)]
pub(crate) struct Seat {
    pub place: u8,
    pub generation: u8,
    _taken: Arc<()>,
}

impl Clone for Seat {
    fn clone(&self) -> Seat {
        Seat {
            _taken: self._taken.clone(),
            ..*self
        }
    }
}

/// Table of the applications' places, common to all cores.
#[derive(Default)]
pub(super) struct Seats([Place; MOST_APPLICATIONS]);

/// State of a place in the table.
#[derive(Default)]
struct Place {
    taken: std::sync::Weak<()>,
    generation: u8,
    client: u8,
}

impl Seats {
    /// Takes a place for an application, one of the `clients` of the configuration. `None` if no
    /// place is free, or if the free ones are guaranteed to others, one for each.
    pub fn take(&mut self, client: u8, clients: u8) -> Option<Seat> {
        let is_free = |place: &&Place| place.taken.strong_count() == 0;
        let has_one = |client: u8| self.0.iter().any(|p| !is_free(&p) && p.client == client);
        if has_one(client) {
            let others = (0..clients).filter(|other| !has_one(*other)).count();
            if self.0.iter().filter(is_free).count() <= others {
                return None;
            }
        }
        let place = self.0.iter().position(|place| is_free(&place))?;
        let taken = Arc::new(());
        let seat = self.0.get_mut(place)?;
        *seat = Place {
            taken: Arc::downgrade(&taken),
            // References to the previous application name none.
            generation: seat.generation.wrapping_add(1),
            client,
        };
        Some(Seat {
            place: place as u8,
            generation: seat.generation,
            _taken: taken,
        })
    }
}
