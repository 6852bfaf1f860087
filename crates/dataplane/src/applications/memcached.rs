//! A small server of memcached's text protocol (see [`Store`]).

use super::backlog::Backlog;
use super::store::Store;
use super::{BACKLOG, refused};
use crate::session::{Application, Connection, Event, ReceivedData, Session};
use std::collections::HashMap;
use std::net::SocketAddr;

/// A memcached-protocol server. Its memory is bounded: a set beyond the limit is refused.
// prose: allow name: the name of a program
pub struct Memcached {
    address: SocketAddr,
    failure: Option<String>,
    /// The cache.
    pub store: Store,
    /// Commands that have not arrived completely.
    partial: HashMap<Connection, Vec<u8>>,
    backlog: Backlog,
}

impl Memcached {
    /// A server at `address` with at most `most_bytes` of keys and values.
    pub fn new(address: SocketAddr, most_bytes: usize) -> Memcached {
        Memcached {
            address,
            failure: None,
            store: Store::new(most_bytes),
            partial: HashMap::new(),
            backlog: Backlog::default(),
        }
    }

    fn received(&mut self, session: &mut Session, connection: Connection, data: ReceivedData) {
        if let Some(data) = self.backlog.admit(session, connection, data) {
            self.serve(session, connection, &data);
        }
    }

    fn serve(&mut self, session: &mut Session, connection: Connection, data: &[u8]) {
        let mut partial = match self.partial.is_empty() {
            true => Vec::new(),
            false => self.partial.remove(&connection).unwrap_or_default(),
        };
        let (answer, goes_on) = self.store.serve(&mut partial, data);
        if !answer.is_empty() {
            self.backlog.send(session, connection, answer);
        }
        if !goes_on {
            self.backlog.end(session, connection);
        } else if !partial.is_empty() {
            self.partial.insert(connection, partial);
        }
    }

    fn send_on(&mut self, session: &mut Session, connection: Connection) {
        while let Some(data) = self.backlog.next(session, connection) {
            self.serve(session, connection, &data);
        }
    }
}

impl Application for Memcached {
    fn start(&mut self, session: &mut Session) {
        session.listen(self.address, BACKLOG);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Knock(knock) => {
                session.accept(&knock);
            }
            Event::Received { connection, data } => self.received(session, connection, data),
            Event::Sent { connection, .. } => self.send_on(session, connection),
            Event::PeerClosed(connection) => self.backlog.close(session, connection),
            Event::Dead { connection, .. } => {
                self.partial.remove(&connection);
                self.backlog.forget(connection);
            }
            Event::Bound {
                result: Err(why), ..
            } => self.failure = Some(refused(self.address, why)),
            Event::Bound { .. }
            | Event::Connected { .. }
            | Event::Info { .. }
            | Event::Datagram { .. }
            | Event::Timer(_) => {}
        }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}
