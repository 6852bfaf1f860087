//! A server that returns what it receives, over TCP and UDP.

use super::backlog::Backlog;
use super::{BACKLOG, refused};
use crate::abi::Refusal;
use crate::session::{Application, Connection, Event, ReceivedData, Session};
use std::net::SocketAddr;

/// An echo server. A peer that never reads keeps at most its window of data here: unsent data stays
/// in the received memory, and the window closes.
pub struct Echo {
    address: SocketAddr,
    /// Number of transports that the configuration does not grant.
    forbidden: u8,
    failure: Option<String>,
    backlog: Backlog,
    /// Bytes sent back, or to be sent.
    pub bytes: u64,
}

impl Echo {
    /// Serves `address` over TCP and UDP.
    pub fn new(address: SocketAddr) -> Echo {
        Echo {
            address,
            forbidden: 0,
            failure: None,
            backlog: Backlog::default(),
            bytes: 0,
        }
    }

    fn answer(&mut self, session: &mut Session, connection: Connection, data: &ReceivedData) {
        self.backlog.send(session, connection, data);
        self.bytes += data.len() as u64;
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
            Event::Received { connection, data } => {
                if let Some(data) = self.backlog.admit(session, connection, data) {
                    self.answer(session, connection, &data);
                }
            }
            Event::Sent { connection, .. } => {
                while let Some(data) = self.backlog.next(session, connection) {
                    self.answer(session, connection, &data);
                }
            }
            Event::PeerClosed(connection) => self.backlog.close(session, connection),
            Event::Dead { connection, .. } => self.backlog.forget(connection),
            Event::Datagram {
                bound,
                data,
                remote,
                ..
            } => {
                // A datagram that does not fit is lost, as on any network.
                session.send_datagram(bound, remote, &data);
                self.bytes += data.len() as u64;
            }
            Event::Bound {
                result: Err(why), ..
            } => {
                // A configuration may grant one transport only.
                self.forbidden += u8::from(why == Refusal::Forbidden);
                if why != Refusal::Forbidden || self.forbidden == 2 {
                    self.failure = Some(refused(self.address, why));
                }
            }
            Event::Bound { .. }
            | Event::Connected { .. }
            | Event::Info { .. }
            | Event::Timer(_) => {}
        }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}
