//! A small HTTP/1.1 server: keep-alive, pipelining, fixed responses.

use super::backlog::Backlog;
use super::{BACKLOG, refused};
use crate::session::{Application, Connection, Event, ReceivedData, Session};
use std::collections::HashMap;
use std::net::SocketAddr;

/// Bytes of the longest request head.
const MOST_HEAD: usize = 8 << 10;

/// A server of `GET /` with a short text, and of `GET /bytes/N` with N bytes (at most 16 MiB). Any
/// other request is answered with 404.
pub struct Http {
    address: SocketAddr,
    failure: Option<String>,
    /// Requests that have not arrived completely.
    partial: HashMap<Connection, Vec<u8>>,
    /// Bytes of bodies that are not sent, and whether the connection ends after them.
    bodies: HashMap<Connection, (usize, bool)>,
    backlog: Backlog,
    /// Requests answered.
    pub requests: u64,
}

const ZEROS: [u8; 16384] = [b'x'; 16384];
/// Bytes of a body passed to the session ahead of the window.
const AHEAD: usize = 256 << 10;

impl Http {
    /// Serves `address`.
    pub fn new(address: SocketAddr) -> Http {
        Http {
            address,
            failure: None,
            partial: HashMap::new(),
            bodies: HashMap::new(),
            backlog: Backlog::default(),
            requests: 0,
        }
    }

    fn received(&mut self, session: &mut Session, connection: Connection, data: ReceivedData) {
        if self.bodies.contains_key(&connection) {
            self.backlog.keep(connection, data);
        } else if let Some(data) = self.backlog.admit(session, connection, data) {
            self.serve(session, connection, &data);
        }
    }

    fn serve(&mut self, session: &mut Session, connection: Connection, data: &[u8]) {
        let mut joined = self.partial.remove(&connection);
        if let Some(joined) = &mut joined {
            joined.extend_from_slice(data);
        }
        let mut rest = joined.as_deref().unwrap_or(data);
        // The next requests wait until the body is sent.
        while !self.bodies.contains_key(&connection) {
            let Some(end) = rest.windows(4).position(|w| w == b"\r\n\r\n") else {
                break;
            };
            let (head, next) = rest.split_at(end + 4);
            rest = next;
            if !self.answer(session, connection, head) {
                return;
            }
        }
        let waits = self.bodies.contains_key(&connection);
        if rest.len() > MOST_HEAD && !waits {
            self.backlog.send(
                session,
                connection,
                b"HTTP/1.1 431 Request Header Fields Too \
                Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
            self.backlog.end(session, connection);
        } else if !rest.is_empty() {
            let rest = rest.to_vec();
            self.partial.insert(connection, rest);
        }
    }

    /// Answers one request. Returns false if the connection ends with it.
    fn answer(&mut self, session: &mut Session, connection: Connection, head: &[u8]) -> bool {
        self.requests += 1;
        let text = String::from_utf8_lossy(head);
        let mut lines = text.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (method, path) = (
            first.next().unwrap_or_default(),
            first.next().unwrap_or_default(),
        );
        let version = first.next().unwrap_or_default();
        let mut keep = version == "HTTP/1.1";
        for line in lines {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            if name.eq_ignore_ascii_case("connection") {
                keep = !value.trim().eq_ignore_ascii_case("close")
                    && (keep || value.trim().eq_ignore_ascii_case("keep-alive"));
            }
        }
        let connection_is = if keep { "keep-alive" } else { "close" };
        let length = path
            .strip_prefix("/bytes/")
            .and_then(|n| n.parse::<usize>().ok());
        match (method, path, length) {
            ("GET", "/", _) => {
                let text = "Served by the dataplane.\n";
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
                        Connection: {connection_is}\r\n\r\n{text}",
                    text.len()
                );
                self.backlog.send(session, connection, answer.as_bytes());
            }
            ("GET", _, Some(length)) if length <= 16 << 20 => {
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
                        Content-Length: {length}\r\nConnection: {connection_is}\r\n\r\n"
                );
                self.backlog.send(session, connection, answer.as_bytes());
                self.bodies.insert(connection, (length, !keep));
                self.body(session, connection);
                return keep;
            }
            ("GET", _, _) => {
                let answer = format!(
                    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: {connection_is}\r\n\
                        \r\n"
                );
                self.backlog.send(session, connection, answer.as_bytes());
            }
            _ => {
                self.backlog.send(
                    session,
                    connection,
                    b"HTTP/1.1 501 Not Implemented\r\n\
                    Content-Length: 0\r\nConnection: close\r\n\r\n",
                );
                self.backlog.end(session, connection);
                return false;
            }
        }
        if !keep {
            self.backlog.end(session, connection);
        }
        keep
    }

    /// Sends more of a body. Returns true if none is left.
    fn body(&mut self, session: &mut Session, connection: Connection) -> bool {
        let Some((left, ends)) = self.bodies.get_mut(&connection) else {
            return true;
        };
        if !self.backlog.flush(session, connection) {
            return false;
        }
        while *left > 0 && session.unsent_bytes(connection) < AHEAD {
            let part = &ZEROS[..(*left).min(ZEROS.len())];
            let sent = session.send(connection, part);
            *left -= sent;
            if sent < part.len() {
                return false;
            }
        }
        if *left > 0 {
            return false;
        }
        if *ends {
            self.backlog.end(session, connection);
        }
        self.bodies.remove(&connection);
        true
    }

    /// Continues when there is memory: with the body, with further requests in the same piece of
    /// data, and with requests that arrived later.
    fn send_on(&mut self, session: &mut Session, connection: Connection) {
        if !self.body(session, connection) {
            return;
        }
        if self.partial.contains_key(&connection) {
            self.serve(session, connection, &[]);
        }
        while !self.bodies.contains_key(&connection)
            && let Some(data) = self.backlog.next(session, connection)
        {
            self.serve(session, connection, &data);
        }
    }
}

impl Application for Http {
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
            Event::PeerClosed(connection) => {
                if self.bodies.contains_key(&connection) {
                    self.backlog.wait(connection);
                }
                self.backlog.close(session, connection);
            }
            Event::Dead { connection, .. } => {
                self.partial.remove(&connection);
                self.bodies.remove(&connection);
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
