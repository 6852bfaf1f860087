//! Thread that serves clients: the control socket and the metrics.
//!
//! One poll loop serves both. It never waits for a client, and the control loop never waits for it.
//! A request for the control loop goes there through a bounded queue, and its answer returns
//! through another. Limits: connections in total and for users other than root, bytes of a request,
//! and a time for each phase of a connection.

mod connection;
mod listen;
#[cfg(test)]
mod tests;

pub use listen::ListenError;
pub(crate) use listen::{ControlSocket, find_group, refuse_taken};

use crate::metrics;
use crate::traffic::Traffic;
use crate::view::View;
use crate::wake::{Sleeper, Waker};
use crate::wire::{Refusal, RefusalCode, Request, WireSnapshot, ok_line, refusal_line};
use cofferdam_exporter::{Exporter, Exposition, Format};
use cofferdam_paths::{Admission, Peer, PeerBudget};
use cofferdam_types::{ContainerLedger, Degradation, Snapshot};
use connection::{Connection, Phase, ReadOutcome};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Limit on the control connections.
const MOST_CONTROL: usize = 64;
/// Limit on the control connections of users other than root. The rest is always reserved for root.
const MOST_UNPRIVILEGED: usize = 48;
/// Limit on the control connections of one user other than root.
const MOST_A_USER: usize = 16;
const BUDGET: PeerBudget = PeerBudget {
    all: MOST_CONTROL,
    unprivileged: MOST_UNPRIVILEGED,
    one_peer: MOST_A_USER,
};
/// Documents on the metrics address.
const FORMAT: Format = Format {
    metrics: Exposition::OpenMetrics,
    index: "<!doctype html><title>cofferdam agent</title><p><a href=\"/metrics\">metrics</a>\n",
};
/// Pause after a failed accept (no descriptor left).
const REST: Duration = Duration::from_millis(200);
/// Limit on the connections accepted in one round, so that open connections have their turn.
const ACCEPT_AT_ONCE: usize = 32;

/// Request of a client to the control loop.
#[derive(Debug)]
pub(crate) struct Command {
    /// Connection that waits for the answer.
    pub client: u64,
    /// Request of the client.
    pub request: Request,
}

/// Messages from the control loop to the server.
#[derive(Debug)]
pub(crate) enum Notice {
    /// Reading requested by a client.
    Reading {
        client: u64,
        snapshot: Arc<Snapshot>,
        ended: Vec<ContainerLedger>,
    },
    /// Answer as a line.
    Answer { client: u64, line: Vec<u8> },
    /// New metrics address; `None` stops serving metrics.
    Metrics(Option<SocketAddr>),
    /// New group of the socket.
    Group(Option<String>),
    /// Finish the answers in progress, and end.
    End,
}

/// Resources with which the server starts.
#[derive(Debug)]
pub(crate) struct Parts {
    pub control: ControlSocket,
    pub metrics: Option<SocketAddr>,
    pub view: Arc<Mutex<Arc<View>>>,
    pub commands: SyncSender<Command>,
    pub wake_control: Waker,
    pub notices: Receiver<Notice>,
    pub sleeper: Sleeper,
}

#[derive(Debug)]
pub(crate) struct Server {
    parts: Parts,
    http: Option<Exporter>,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    resting: Option<Instant>,
    degraded: Vec<Degradation>,
    traffic: Traffic,
    ending: bool,
}

impl Server {
    pub fn new(parts: Parts) -> Server {
        let mut server = Server {
            http: None,
            connections: BTreeMap::new(),
            next: 0,
            resting: None,
            degraded: Vec::new(),
            traffic: Traffic::default(),
            ending: false,
            parts,
        };
        server.open_metrics(server.parts.metrics);
        server
    }

    /// Serves until stopped. Returning removes the socket's file.
    pub fn run(mut self) {
        while !self.ending {
            self.serve_once();
        }
        let until = Instant::now() + Duration::from_millis(500);
        while self
            .connections
            .values()
            .any(|c| c.phase() == Phase::Writing)
            && Instant::now() < until
        {
            self.connections.retain(|_, c| c.phase() == Phase::Writing);
            self.serve_once();
        }
    }

    fn view(&self) -> Arc<View> {
        let view = self.parts.view.lock();
        view.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn serve_once(&mut self) {
        let accepting = !self.ending && self.resting.is_none_or(|until| Instant::now() >= until);
        let listen = if accepting {
            PollFlags::POLLIN
        } else {
            PollFlags::empty()
        };
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        let timeout = self.timeout(accepting);
        let (woken, control, http, ready) = {
            let mut fds = vec![
                self.parts.sleeper.poll_fd(),
                PollFd::new(self.parts.control.listener.as_fd(), listen),
            ];
            let connections = self.connections.values();
            fds.extend(connections.map(|c| PollFd::new(c.fd(), c.interest())));
            fds.extend(self.http.iter().flat_map(Exporter::poll_fds));
            // If the call fails (interrupted, out of memory), the next round retries.
            let _ = poll(&mut fds, timeout);
            let any = |i: usize| fds.get(i).and_then(PollFd::any).unwrap_or(false);
            let ready: Vec<u64> = (2..)
                .zip(&ids)
                .filter(|(i, _)| any(*i))
                .map(|(_, id)| *id)
                .collect();
            let http: Vec<bool> = (2 + ids.len()..fds.len()).map(any).collect();
            (any(0), any(1), http, ready)
        };
        self.serve_metrics(&http);
        if woken {
            self.parts.sleeper.clear();
            self.handle_notices();
        }
        for id in ready {
            self.serve(id);
        }
        if control && accepting {
            self.accept_control();
        }
        self.remove_ended();
    }

    fn timeout(&self, accepting: bool) -> PollTimeout {
        let rest = if accepting { None } else { self.resting };
        let next = self
            .connections
            .values()
            .map(|c| c.deadline)
            .chain(rest)
            .chain(self.http.as_ref().and_then(Exporter::deadline))
            .min();
        let Some(next) = next else {
            return if self.ending {
                PollTimeout::from(50u8)
            } else {
                PollTimeout::NONE
            };
        };
        let left = next.saturating_duration_since(Instant::now());
        let milliseconds = left.as_millis().saturating_add(1).min(60_000);
        PollTimeout::from(u16::try_from(milliseconds).unwrap_or(u16::MAX))
    }

    fn accept_control(&mut self) {
        for _ in 0..ACCEPT_AT_ONCE {
            let stream = match self.parts.control.listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) => return self.pause_accepting(&e),
            };
            let Ok(mut connection) = Connection::new(stream) else {
                continue;
            };
            match self.find_place(connection.uid) {
                Some(None) => self.add_connection(connection),
                Some(Some(silent)) => {
                    self.traffic.refused_connections += 1;
                    self.connections.remove(&silent);
                    self.add_connection(connection);
                }
                None => {
                    self.traffic.refused_connections += 1;
                    let text = "too many connections: close some, or try again later";
                    connection.answer(refusal_line(&Refusal::new(RefusalCode::Busy, text)), true);
                }
            }
        }
    }

    /// Finds a place for a connection of `uid`. `Some(None)`: there is one. `Some(Some(id))`: there
    /// is one if the connection `id` is closed, which has no pending request. `None`: there is
    /// none.
    fn find_place(&self, uid: u32) -> Option<Option<u64>> {
        let mut idle_first: Vec<(&u64, &Connection)> = self.connections.iter().collect();
        idle_first.sort_by_key(|(_, connection)| connection.deadline);
        let is_silent = |connection: &Connection| connection.phase() == Phase::Reading;
        let others: Vec<(Peer, bool)> = idle_first
            .iter()
            .map(|(_, connection)| (Peer::Uid(connection.uid), is_silent(connection)))
            .collect();
        match BUDGET.admit(Peer::Uid(uid), &others) {
            Admission::Free => Some(None),
            Admission::InsteadOf(position) => idle_first.get(position).map(|(id, _)| Some(**id)),
            Admission::Refused => None,
        }
    }

    /// Serves the scrapers that are ready.
    fn serve_metrics(&mut self, ready: &[bool]) {
        let Some(mut http) = self.http.take() else {
            return;
        };
        http.serve(ready, |scrapers| {
            metrics::text(&self.view(), &self.degraded, self.traffic.plus(scrapers))
        });
        self.http = Some(http);
    }

    fn pause_accepting(&mut self, error: &std::io::Error) {
        if error.kind() != std::io::ErrorKind::WouldBlock {
            tracing::debug!("cannot take a connection: {error}");
            self.resting = Some(Instant::now() + REST);
        }
    }

    fn add_connection(&mut self, connection: Connection) {
        self.next += 1;
        self.connections.insert(self.next, connection);
    }

    fn serve(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let outcome = match connection.phase() {
            Phase::Reading => connection.read_input(),
            Phase::Writing => {
                connection.write();
                connection.next_message()
            }
            // The connection is ready without a pending event: the client has hung up.
            Phase::Waiting | Phase::Closed => {
                self.connections.remove(&id);
                return;
            }
        };
        self.handle_messages(id, outcome);
    }

    /// Answers a message and, one by one, the further messages that arrived with it.
    fn handle_messages(&mut self, id: u64, mut outcome: ReadOutcome) {
        loop {
            match outcome {
                ReadOutcome::Nothing => return,
                ReadOutcome::Line(line) => self.handle(id, &line),
                ReadOutcome::TooLong => self.refuse_length(id),
            }
            let Some(connection) = self.connections.get_mut(&id) else {
                return;
            };
            outcome = connection.next_message();
        }
    }

    fn handle(&mut self, id: u64, message: &[u8]) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        self.traffic.requests += 1;
        let request = match Request::parse(message) {
            Ok(request) => request,
            Err(refusal) => return self.refuse(id, &refusal),
        };
        if request.is_change() && connection.uid != 0 {
            let text = "only root may change the agent: use sudo";
            return self.refuse(id, &Refusal::new(RefusalCode::Denied, text));
        }
        if let Request::Status = request {
            let address = self.http.as_ref().and_then(Exporter::address);
            let report = self.view().report(address, &self.degraded);
            return self.answer(id, ok_line(&report), false);
        }
        match self.parts.commands.try_send(Command {
            client: id,
            request,
        }) {
            Ok(()) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.wait();
                }
                self.parts.wake_control.wake();
            }
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                let text = "too many requests are waiting: try again later";
                self.refuse(id, &Refusal::new(RefusalCode::Busy, text));
            }
        }
    }

    fn refuse(&mut self, id: u64, refusal: &Refusal) {
        self.traffic.refused_requests += 1;
        // A client that sends an invalid request may send more of them.
        let last = refusal.code != RefusalCode::Denied && refusal.code != RefusalCode::Busy;
        self.answer(id, refusal_line(refusal), last);
    }

    fn refuse_length(&mut self, id: u64) {
        self.traffic.requests += 1;
        self.traffic.refused_requests += 1;
        let text = "a request may have at most 8192 bytes, including its line end";
        let line = refusal_line(&Refusal::new(RefusalCode::TooLong, text));
        self.answer(id, line, true);
    }

    fn answer(&mut self, id: u64, bytes: Vec<u8>, last: bool) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.answer(bytes, last);
        }
    }

    fn handle_notices(&mut self) {
        while let Ok(notice) = self.parts.notices.try_recv() {
            match notice {
                Notice::Reading {
                    client,
                    snapshot,
                    ended,
                } => self.send_reply(client, ok_line(&WireSnapshot::new(&snapshot, &ended))),
                Notice::Answer { client, line } => self.send_reply(client, line),
                Notice::Metrics(address) => self.open_metrics(address),
                Notice::Group(group) => {
                    if let Err(error) = self.parts.control.set_group(group.as_deref()) {
                        self.add_degradation("socket_group", error.to_string());
                    } else {
                        self.clear_degradation("socket_group");
                    }
                }
                Notice::End => self.ending = true,
            }
        }
    }

    /// Sends an answer of the control loop, if its client still waits.
    fn send_reply(&mut self, id: u64, line: Vec<u8>) {
        let waits = |c: &Connection| c.phase() == Phase::Waiting;
        if self.connections.get(&id).is_some_and(waits) {
            self.answer(id, line, false);
            if let Some(connection) = self.connections.get_mut(&id) {
                let outcome = connection.next_message();
                self.handle_messages(id, outcome);
            }
        }
    }

    fn open_metrics(&mut self, address: Option<SocketAddr>) {
        const NAME: &str = "metrics_address";
        let now = self.http.as_ref().and_then(Exporter::address);
        if now.is_some() && now == address {
            return;
        }
        if let Some(old) = self.http.take() {
            // The counts of the old address stay in the sum.
            self.traffic = self.traffic.plus(old.traffic());
        }
        match address.map(|a| (a, Exporter::bind(a, FORMAT))) {
            None => self.clear_degradation(NAME),
            Some((_, Ok(exporter))) => {
                self.http = Some(exporter);
                self.clear_degradation(NAME);
            }
            Some((address, Err(why))) => self.add_degradation(
                NAME,
                format!(
                    "no metrics are served: cannot listen on {address}: {why}; free it or give \
                     another [metrics] address, then reload"
                ),
            ),
        }
    }

    fn add_degradation(&mut self, name: &str, text: String) {
        tracing::warn!("{text}");
        self.degraded.retain(|d| d.name != name);
        self.degraded.push(Degradation {
            name: name.to_owned(),
            text,
        });
    }

    fn clear_degradation(&mut self, name: &str) {
        self.degraded.retain(|d| d.name != name);
    }

    fn remove_ended(&mut self) {
        let now = Instant::now();
        let traffic = &mut self.traffic;
        self.connections.retain(|_, c| {
            let late = now >= c.deadline;
            traffic.timeouts += u64::from(late && c.phase() != Phase::Closed);
            !late && c.phase() != Phase::Closed
        });
    }
}
