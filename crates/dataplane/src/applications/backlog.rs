//! What the connections of a server wait with: answers that found no room, and requests that are
//! not looked at until they have. A peer that asks and does not read is thus asked to wait by TCP
//! itself: its data stays where it was received, and the window closes.

use crate::session::{Connection, Received, Session};
use std::collections::{HashMap, VecDeque};

/// Unacknowledged answers of one connection; requests beyond wait.
const MOST_UNSENT: usize = 256 << 10;

#[derive(Default)]
struct Place {
    unsent: Vec<u8>,
    /// How much of it was sent.
    sent: usize,
    unread: VecDeque<Received>,
    /// The connection ends when all is done.
    ends: bool,
}

/// By connection; most have nothing here.
#[derive(Default)]
pub(super) struct Backlog {
    places: HashMap<Connection, Place>,
}

impl Backlog {
    /// Sends an answer; what finds no room is kept and goes out by [`Backlog::next`].
    pub fn send(&mut self, session: &mut Session, connection: Connection, answer: &[u8]) {
        let sent = match self.places.get(&connection) {
            Some(place) if !place.unsent.is_empty() => 0,
            _ => session.send(connection, answer),
        };
        if let Some(rest) = answer.get(sent..).filter(|rest| !rest.is_empty()) {
            let place = self.places.entry(connection).or_default();
            place.unsent.extend_from_slice(rest);
        }
    }

    /// A request, to be looked at now; `None` when it has to wait.
    pub fn admit(
        &mut self,
        session: &mut Session,
        connection: Connection,
        data: Received,
    ) -> Option<Received> {
        let is_full = self.places.contains_key(&connection)
            || session.unsent_bytes(connection) >= MOST_UNSENT;
        if is_full {
            self.keep(connection, data);
            return None;
        }
        Some(data)
    }

    /// Keeps a request for later.
    pub fn keep(&mut self, connection: Connection, data: Received) {
        let place = self.places.entry(connection).or_default();
        place.unread.push_back(data);
    }

    /// Sends what was kept of the answers. True when all of it has found room.
    pub fn flush(&mut self, session: &mut Session, connection: Connection) -> bool {
        let Some(place) = self.places.get_mut(&connection) else {
            return true;
        };
        let rest = place.unsent.get(place.sent..).unwrap_or_default();
        if !rest.is_empty() {
            place.sent += session.send(connection, rest);
        }
        let is_done = place.sent >= place.unsent.len();
        if is_done {
            (place.unsent, place.sent) = (Vec::new(), 0);
        }
        is_done
    }

    /// The next request to look at, when there is room for its answer. When nothing is left the
    /// connection waits no more, and is closed if it was to be.
    pub fn next(&mut self, session: &mut Session, connection: Connection) -> Option<Received> {
        if !self.flush(session, connection) {
            return None;
        }
        let place = self.places.get_mut(&connection)?;
        if place.unread.is_empty() {
            let ends = place.ends;
            self.places.remove(&connection);
            if ends {
                session.close(connection);
            }
            return None;
        }
        if session.unsent_bytes(connection) >= MOST_UNSENT {
            return None;
        }
        place.unread.pop_front()
    }

    /// Something else of the connection is to be done before [`Backlog::next`].
    pub fn wait(&mut self, connection: Connection) {
        self.places.entry(connection).or_default();
    }

    /// Closes the connection after all that waits.
    pub fn close(&mut self, session: &mut Session, connection: Connection) {
        match self.places.get_mut(&connection) {
            Some(place) => place.ends = true,
            None => session.close(connection),
        }
    }

    /// Closes the connection after the answers; requests that wait are not looked at any more.
    pub fn end(&mut self, session: &mut Session, connection: Connection) {
        if let Some(place) = self.places.get_mut(&connection) {
            place.unread.clear();
        }
        self.close(session, connection);
    }

    /// The connection has ended.
    pub fn forget(&mut self, connection: Connection) {
        self.places.remove(&connection);
    }
}
