//! Backlog of a server's connections: answers that did not fit, and requests that are deferred
//! until they do. A peer that asks and does not read is thus slowed down by TCP: its data stays in
//! the received memory, and the window closes.

use crate::session::{Connection, ReceivedData, Session};
use std::collections::{HashMap, VecDeque};

/// Bytes of unacknowledged answers of one connection. Further requests are deferred.
const MOST_UNSENT: usize = 256 << 10;

#[derive(Default)]
struct Place {
    unsent: Vec<u8>,
    /// Number of its bytes that were sent.
    sent: usize,
    unread: VecDeque<ReceivedData>,
    /// Whether the connection ends when everything is sent.
    ends: bool,
}

/// Backlogs by connection. Most connections have none.
#[derive(Default)]
pub(super) struct Backlog {
    places: HashMap<Connection, Place>,
}

impl Backlog {
    /// Sends an answer. Bytes that do not fit are kept, and [`Backlog::next`] sends them.
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

    /// Returns a request that can be served now; defers it and returns `None` otherwise.
    pub fn admit(
        &mut self,
        session: &mut Session,
        connection: Connection,
        data: ReceivedData,
    ) -> Option<ReceivedData> {
        let is_full = self.places.contains_key(&connection)
            || session.unsent_bytes(connection) >= MOST_UNSENT;
        if is_full {
            self.keep(connection, data);
            return None;
        }
        Some(data)
    }

    /// Defers a request.
    pub fn keep(&mut self, connection: Connection, data: ReceivedData) {
        let place = self.places.entry(connection).or_default();
        place.unread.push_back(data);
    }

    /// Sends the kept answers. Returns true if all of them fit.
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

    /// Takes the next request, if there is memory for its answer. A connection without anything
    /// left leaves the backlog, and is closed if its close is pending.
    pub fn next(&mut self, session: &mut Session, connection: Connection) -> Option<ReceivedData> {
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

    /// Defers [`Backlog::next`] until other work of the connection is done.
    pub fn wait(&mut self, connection: Connection) {
        self.places.entry(connection).or_default();
    }

    /// Closes the connection after the whole backlog.
    pub fn close(&mut self, session: &mut Session, connection: Connection) {
        match self.places.get_mut(&connection) {
            Some(place) => place.ends = true,
            None => session.close(connection),
        }
    }

    /// Closes the connection after the answers. Deferred requests are dropped.
    pub fn end(&mut self, session: &mut Session, connection: Connection) {
        if let Some(place) = self.places.get_mut(&connection) {
            place.unread.clear();
        }
        self.close(session, connection);
    }

    /// Forgets a connection that has ended.
    pub fn forget(&mut self, connection: Connection) {
        self.places.remove(&connection);
    }
}
