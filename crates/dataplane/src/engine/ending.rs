//! Clean-up after an application.

use super::Engine;
use super::buffers::unmark;
use super::domain::{Domain, EndingStep};
use super::offence::Offence;
use crate::tuning::turns::ENDED_AT_ONCE;
use cofferdam_netstack::Time;
use cofferdam_xsk::Port;

impl<P: Port> Engine<P> {
    fn cancel_timers(&mut self, place: u8, domain: &Domain) {
        let owner = (place, domain.seat().generation);
        let is_theirs = |cookie| {
            let (place, generation, _) = unmark(cookie);
            (place, generation) == owner
        };
        (0..self.stack.cancel_timers(is_theirs))
            .for_each(|_| self.pools.timers.give(domain.client()));
    }

    /// Releases the resources of an application that has ended, a part of its connections in each
    /// turn. Returns true when nothing refers to it any more.
    pub(super) fn clean_up(&mut self, now: Time, place: u8, domain: &mut Domain) -> bool {
        if domain.ending == EndingStep::Begins {
            domain.pending_connect = None;
            for index in self.bounds.numbers() {
                self.unbind(now, place, domain.client(), index);
            }
            self.cancel_timers(place, domain);
            domain.release_all(&mut self.memory);
            self.stack.resume_reader(place);
            domain.ending = EndingStep::Resets(0);
        }
        if let EndingStep::Resets(from) = domain.ending
            && domain.account.connections() > 0
        {
            let (most_places, most) = ENDED_AT_ONCE;
            let (own, next) = self.owners.find_connections(place, from, most_places, most);
            domain.ending = EndingStep::Resets(next);
            for connection in own {
                // Rejecting a connection that knocked reports nothing; other connections end with
                // an event.
                let rejected = self.stack.reject(now, connection).is_ok();
                if rejected || self.stack.abort(now, connection).is_err() {
                    self.forget(domain, connection);
                }
            }
        }
        // The domains of the application on other cores end as well, and the control plane sends it
        // the reason.
        if domain.life().end() {
            self.cores.hub().wake_control();
        }
        if !domain.account.is_empty() {
            return false;
        }
        self.tally.ended += 1;
        if !matches!(domain.offence(), None | Some(Offence::Gone)) {
            self.tally.offences += 1;
            self.tally.offence_number = self.cores.hub().next_offence();
            self.tally.last_offence = domain
                .reason()
                .map(|why| format!("{}: {why}", domain.name()));
        }
        true
    }
}
