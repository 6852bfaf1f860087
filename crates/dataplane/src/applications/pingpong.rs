//! The client of a ping-pong in NetPIPE's manner: one message out and the same back, of many sizes
//! in turn.

use crate::session::{Application, Connection, Event, Session};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A client of [`super::Echo`].
pub struct PingPong {
    remote: SocketAddr,
    sizes: Vec<usize>,
    rounds: u32,
    message: Vec<u8>,
    done: u32,
    received: usize,
    handed: usize,
    started: Option<Instant>,
    /// Bytes of each size, and the mean time for one direction.
    pub results: Vec<(usize, Duration)>,
    /// Reason of an early end.
    pub failed: Option<String>,
}

impl PingPong {
    /// A client that sends messages of each of `sizes`, `rounds` times, to the echo server at
    /// `remote`.
    pub fn new(remote: SocketAddr, sizes: Vec<usize>, rounds: u32) -> PingPong {
        PingPong {
            remote,
            sizes,
            rounds: rounds.max(1),
            message: Vec::new(),
            done: 0,
            received: 0,
            handed: 0,
            started: None,
            results: Vec::new(),
            failed: None,
        }
    }

    /// Whether all sizes are measured, or the client has failed.
    pub fn is_done(&self) -> bool {
        self.failed.is_some() || self.results.len() == self.sizes.len()
    }

    fn next_size(&mut self, session: &mut Session, connection: Connection) {
        match self.sizes.get(self.results.len()) {
            None => session.close(connection),
            Some(size) => {
                self.message = vec![0x5a; *size];
                self.done = 0;
                self.started = Some(Instant::now());
                self.ask(session, connection);
            }
        }
    }

    fn ask(&mut self, session: &mut Session, connection: Connection) {
        (self.received, self.handed) = (0, 0);
        self.send_on(session, connection);
    }

    fn send_on(&mut self, session: &mut Session, connection: Connection) {
        let rest = self.message.get(self.handed..).unwrap_or_default();
        if !rest.is_empty() {
            self.handed += session.send(connection, rest);
        }
    }

    fn answered(&mut self, session: &mut Session, connection: Connection, bytes: usize) {
        self.received += bytes;
        if self.received < self.message.len() {
            return;
        }
        self.done += 1;
        if self.done < self.rounds {
            return self.ask(session, connection);
        }
        if let Some(started) = self.started {
            let one_way = started.elapsed() / self.rounds / 2;
            self.results.push((self.message.len(), one_way));
        }
        self.next_size(session, connection);
    }
}

impl Application for PingPong {
    fn start(&mut self, session: &mut Session) {
        session.connect(self.remote);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Connected { connection, .. } => self.next_size(session, connection),
            Event::Received { connection, data } => self.answered(session, connection, data.len()),
            Event::Sent { connection, .. } => self.send_on(session, connection),
            Event::PeerClosed(connection) => session.close(connection),
            Event::Dead { reason, .. } if !self.is_done() => {
                self.failed = Some(format!(
                    "the connection to {} ended: {reason:?}",
                    self.remote
                ));
            }
            _ => {}
        }
    }
}
