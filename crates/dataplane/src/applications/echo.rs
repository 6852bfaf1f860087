//! Sends back what it receives, over TCP and UDP.

use super::{BACKLOG, refused};
use crate::session::{Application, Connection, Event, Received, Session};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// An echo server. A peer that never reads keeps at most its window of data here: what cannot be
/// sent stays in the received memory, so the window closes.
pub struct Echo {
    address: SocketAddr,
    /// Received data that found no room to be sent from, by connection, and how much of the first
    /// was sent.
    waiting: HashMap<Connection, (VecDeque<Received>, usize)>,
    closing: Vec<Connection>,
    /// Bytes sent back.
    pub bytes: u64,
}

/// Unsent data of one connection that is taken over; more stays where it was received.
const MOST_UNSENT: usize = 64 << 10;

impl Echo {
    /// Serves `address` over TCP and UDP.
    pub fn new(address: SocketAddr) -> Echo {
        Echo {
            address,
            waiting: HashMap::new(),
            closing: Vec::new(),
            bytes: 0,
        }
    }

    /// Sends data back as far as it goes; what is left is kept.
    fn answer(&mut self, session: &mut Session, connection: Connection, data: Received) {
        let is_first = !self.waiting.contains_key(&connection);
        if is_first && session.unsent_bytes(connection) < MOST_UNSENT {
            let sent = session.send(connection, &data);
            self.bytes += sent as u64;
            if sent == data.len() {
                return;
            }
            self.waiting
                .insert(connection, (VecDeque::from([data]), sent));
            return;
        }
        self.waiting
            .entry(connection)
            .or_default()
            .0
            .push_back(data);
    }

    fn go_on(&mut self, session: &mut Session, connection: Connection) {
        let Some((queue, offset)) = self.waiting.get_mut(&connection) else {
            return;
        };
        while let Some(data) = queue.front() {
            if session.unsent_bytes(connection) >= MOST_UNSENT {
                return;
            }
            let rest = data.get(*offset..).unwrap_or_default();
            let sent = session.send(connection, rest);
            self.bytes += sent as u64;
            if sent < rest.len() {
                *offset += sent;
                return;
            }
            *offset = 0;
            queue.pop_front();
        }
        self.waiting.remove(&connection);
        if let Some(place) = self.closing.iter().position(|c| *c == connection) {
            self.closing.swap_remove(place);
            session.close(connection);
        }
    }
}

impl Application for Echo {
    fn start(&mut self, session: &mut Session) {
        session.listen(self.address, BACKLOG);
        session.udp_bind(self.address);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Knock(knock) => {
                session.accept(&knock);
            }
            Event::Received { connection, data } => self.answer(session, connection, data),
            Event::Sent { connection, .. } => self.go_on(session, connection),
            Event::PeerClosed(connection) => {
                if self.waiting.contains_key(&connection) {
                    self.closing.push(connection);
                } else {
                    session.close(connection);
                }
            }
            Event::Dead { connection, .. } => {
                self.waiting.remove(&connection);
                self.closing.retain(|c| *c != connection);
            }
            Event::Datagram {
                bound,
                data,
                remote,
            } => {
                // As on any network: a datagram that finds no room is lost.
                session.send_datagram(bound, remote, &data);
                self.bytes += data.len() as u64;
            }
            Event::Bound {
                result: Err(why), ..
            } => refused(self.address, why),
            Event::Bound { .. } | Event::Connected(_) | Event::Timer(_) => {}
        }
    }
}
