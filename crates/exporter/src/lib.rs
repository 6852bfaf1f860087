//! Metrics of a daemon over HTTP. The exporter has no thread and never blocks: its owner polls its
//! descriptors together with its own.
//!
//! Connections are bounded in number, bytes and time. If there are too many, the connection that
//! has been silent longest is closed for the newest. A scraper sends its request at once, so it is
//! served however many others are silent.

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

/// Limit on simultaneous connections.
pub const MOST_CLIENTS: usize = 64;
/// Limit on the unread bytes of answers, over all connections. Beyond it the slowest readers are
/// disconnected. One answer may be larger.
pub const MOST_PENDING_BYTES: usize = 32 << 20;
/// Limit on the connections accepted in one round, so that open connections have their turn first.
const ACCEPT_AT_ONCE: usize = 32;
/// Pause after a failed accept (no descriptor left).
const REST: Duration = Duration::from_millis(200);

/// Cumulative counts of the clients' requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests answered.
    pub scrapes: u64,
    /// Connections closed for a newer one.
    pub evicted: u64,
    /// Connections that took too long.
    pub timeouts: u64,
}

/// Listening address and its clients.
#[derive(Debug)]
pub struct Exporter {
    listener: TcpListener,
    format: Format,
    /// Clients, oldest first.
    clients: Vec<Client>,
    resting: Option<Instant>,
    traffic: Traffic,
}

impl Exporter {
    /// Listens on an address.
    ///
    /// # Errors
    /// The kernel's: the address is in use, or does not belong to this host.
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

    /// Address on which it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Counts of the clients' requests.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Descriptors to poll, in the order in which [`Exporter::serve`] expects the results.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let accepts = match self.resting {
            Some(until) if Instant::now() < until => PollFlags::empty(),
            _ => PollFlags::POLLIN,
        };
        let listener = PollFd::new(self.listener.as_fd(), accepts);
        let clients = self.clients.iter();
        std::iter::once(listener).chain(clients.map(|c| PollFd::new(c.fd(), c.interest())))
    }

    /// Time at which [`Exporter::serve`] has work even if nothing is ready.
    pub fn deadline(&self) -> Option<Instant> {
        let clients = self.clients.iter().map(|client| client.deadline);
        clients.chain(self.resting).min()
    }

    /// Serves the connections that are ready, and accepts waiting ones. `metrics` builds the text
    /// from the counts, which include this request.
    pub fn serve(&mut self, ready: &[bool], mut metrics: impl FnMut(Traffic) -> String) {
        let format = self.format;
        self.serve_ready(ready, |head, traffic| {
            http::answer(head, &format, || metrics(traffic))
        });
    }

    /// Serves like [`Exporter::serve`], for an owner that has more than metrics: `handle` answers
    /// every GET and HEAD.
    pub fn route<'a>(&mut self, ready: &[bool], handle: impl Fn(&Request<'_>) -> Answer<'a>) {
        self.serve_ready(ready, |head, _| http::route(head, &handle));
    }

    fn serve_ready(&mut self, ready: &[bool], mut answer: impl FnMut(&[u8], Traffic) -> Vec<u8>) {
        let mut ready = ready.iter().copied();
        let newcomers = ready.next().unwrap_or(false);
        let now = Instant::now();
        let traffic = &mut self.traffic;
        let mut pending: usize = self.clients.iter().map(Client::pending_bytes).sum();
        self.clients.retain_mut(|client| {
            let before = client.pending_bytes();
            let goes_on = match ready.next() {
                // While too many bytes are pending, a new request waits for the next round.
                Some(true) if before > 0 || pending <= MOST_PENDING_BYTES => client.serve(|head| {
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

    /// Closes the connections that have not read their answers for longest, until the rest is
    /// within the limit. The newest answer stays, whatever its size.
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
