//! The metrics of a daemon over HTTP. It has no thread and never blocks: its owner polls its
//! descriptors together with its own.
//!
//! Connections are bounded in number, bytes and time. Where there are too many, the one that has
//! been silent longest goes for the newest: a scraper, which asks at once, is served however many
//! others say nothing.

#![forbid(unsafe_code)]

mod client;
mod http;
mod negotiate;
#[cfg(test)]
mod tests;

use client::Client;
use nix::poll::{PollFd, PollFlags};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

pub use http::{Answer, Format, Request};
pub use negotiate::Exposition;

/// Connections at the same time, at most.
pub const MOST_CLIENTS: usize = 64;
/// Bytes of answers that are not yet taken, of all connections: beyond it the slowest readers go. One answer may be
/// larger.
pub const MOST_PENDING_BYTES: usize = 32 << 20;
/// Connections taken in one round, at most: those that are open have their turn first.
const ACCEPT_AT_ONCE: usize = 32;
/// Accepting rests so long after it failed (no descriptor left).
const REST: Duration = Duration::from_millis(200);

/// What the clients did, cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests answered.
    pub scrapes: u64,
    /// Connections that went for a newer one.
    pub evicted: u64,
    /// Connections that took too long.
    pub timeouts: u64,
}

/// A listening address and its clients.
#[derive(Debug)]
pub struct Exporter {
    listener: TcpListener,
    format: Format,
    /// The oldest first.
    clients: Vec<Client>,
    resting: Option<Instant>,
    traffic: Traffic,
}

impl Exporter {
    /// Listens on an address.
    ///
    /// # Errors
    /// The kernel's: the address is taken, or not of this host.
    pub fn bind(address: SocketAddr, format: Format) -> io::Result<Exporter> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Exporter {
            listener,
            format,
            clients: Vec::new(),
            resting: None,
            traffic: Traffic::default(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// What the clients did.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// What to poll, in the order in which [`Exporter::serve`] expects the results.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let accepts = match self.resting {
            Some(until) if Instant::now() < until => PollFlags::empty(),
            _ => PollFlags::POLLIN,
        };
        let listener = PollFd::new(self.listener.as_fd(), accepts);
        let clients = self.clients.iter();
        std::iter::once(listener).chain(clients.map(|c| PollFd::new(c.fd(), c.interest())))
    }

    /// When [`Exporter::serve`] has something to do though nothing is ready.
    pub fn deadline(&self) -> Option<Instant> {
        let clients = self.clients.iter().map(|client| client.deadline);
        clients.chain(self.resting).min()
    }

    /// Serves the connections that are ready, and accepts waiting ones. `metrics` makes the text;
    /// it receives what the clients did, including this request.
    pub fn serve(&mut self, ready: &[bool], mut metrics: impl FnMut(Traffic) -> String) {
        let format = self.format;
        self.turns(ready, |head, traffic| {
            http::answer(head, &format, || metrics(traffic))
        });
    }

    /// As [`Exporter::serve`] for an owner that has more than metrics: `handle` answers every GET and
    /// HEAD.
    pub fn route<'a>(&mut self, ready: &[bool], handle: impl Fn(&Request<'_>) -> Answer<'a>) {
        self.turns(ready, |head, _| http::route(head, &handle));
    }

    fn turns(&mut self, ready: &[bool], mut answer: impl FnMut(&[u8], Traffic) -> Vec<u8>) {
        let mut ready = ready.iter().copied();
        let newcomers = ready.next().unwrap_or(false);
        let now = Instant::now();
        let traffic = &mut self.traffic;
        let mut pending: usize = self.clients.iter().map(Client::pending_bytes).sum();
        self.clients.retain_mut(|client| {
            let before = client.pending_bytes();
            let goes_on = match ready.next() {
                // Where too much waits already a new request has its turn in the next round.
                Some(true) if before > 0 || pending <= MOST_PENDING_BYTES => client.turn(|head| {
                    traffic.scrapes += 1;
                    answer(head, *traffic)
                }),
                _ => true,
            };
            pending = pending - before + if goes_on { client.pending_bytes() } else { 0 };
            let is_late = now >= client.deadline;
            traffic.timeouts += u64::from(goes_on && is_late);
            goes_on && !is_late
        });
        self.evict_slow_readers();
        if self.resting.is_some_and(|until| now >= until) {
            self.resting = None;
        }
        if newcomers {
            self.accept();
        }
    }

    /// Closes those that have not taken their answers for longest, until the rest is within bounds. The
    /// newest answer stays, whatever its size.
    fn evict_slow_readers(&mut self) {
        let mut pending: usize = self.clients.iter().map(Client::pending_bytes).sum();
        while pending > MOST_PENDING_BYTES {
            let reading = |c: &(usize, &Client)| c.1.is_answered();
            let mut readers = self.clients.iter().enumerate().filter(reading);
            let slowest = readers.clone().min_by_key(|(_, c)| c.deadline);
            let (Some((at, client)), Some(_)) = (slowest, readers.nth(1)) else {
                return;
            };
            pending -= client.pending_bytes();
            self.clients.remove(at);
            self.traffic.evicted += 1;
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPT_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => return self.resting = Some(Instant::now() + REST),
            }
        }
    }

    fn admit(&mut self, stream: std::net::TcpStream) {
        let Ok(client) = Client::new(stream) else {
            return;
        };
        if self.clients.len() >= MOST_CLIENTS {
            // A connection that reads its answer has sent a request: it is closed last.
            let silent = self.clients.iter().position(|c| !c.is_answered());
            self.clients.remove(silent.unwrap_or(0));
            self.traffic.evicted += 1;
        }
        self.clients.push(client);
    }
}
