//! Reports inside the container: a Unix socket that can be bind-mounted into it. A client is
//! identified by its network namespace. It gets that namespace's reports only, and does not even
//! learn whether another namespace is measured.
//!
//! One thread serves all clients. It reads the kernel's rings without delaying the data path,
//! buffers the newest samples of each namespace, and writes to each client only the bytes that it
//! takes.

mod buffer;
mod client;
mod format;
mod listen;
mod live;
mod peer;
mod protocol;
mod spaces;

pub use listen::bind;
pub use live::{Live, OnDemand};
pub use peer::{Peer, peer_of};
pub use protocol::{Form, MAX_LINE_BYTES, Refusal, Request, parse};
pub use spaces::{NotMeasured, Source};

use client::{Client, Mode};
use cofferdam_types::NetnsId;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use spaces::Spaces;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Most connections at the same time, by default.
const CLIENTS: usize = 512;
/// Most connections of one namespace.
const CLIENTS_A_NAMESPACE: usize = 16;

/// Limits for clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at the same time.
    pub clients: usize,
    /// Most connections of one namespace at the same time.
    pub clients_per_netns: usize,
    /// Samples buffered for one namespace.
    pub samples_per_netns: usize,
    /// Time without a byte after which a connection is closed.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            clients: CLIENTS,
            clients_per_netns: CLIENTS_A_NAMESPACE,
            samples_per_netns: 65_536,
            idle: Duration::from_secs(300),
        }
    }
}

/// Time between two readings of the rings.
const READ_EVERY: Duration = Duration::from_millis(20);
/// Most requests of one client before the next client's turn.
const TURN: usize = 16;
/// Answer to a connection that gets no place, or loses its place.
const TOO_MANY: &str = "error too many connections; close one\n";
/// Most new connections before the clients' turn.
const ACCEPT: usize = 64;

/// Function that identifies the peer of a connection.
pub type Identify = dyn Fn(&UnixStream) -> io::Result<Peer>;

/// The server.
pub struct Server<S> {
    listener: UnixListener,
    identify: Box<Identify>,
    spaces: Spaces<S>,
    clients: Vec<Client>,
    limits: Limits,
}

impl<S: Source> Server<S> {
    /// Makes a server on `listener` for the measurements of `source`.
    pub fn new(
        listener: UnixListener,
        source: S,
        limits: Limits,
        identify: Box<Identify>,
    ) -> io::Result<Server<S>> {
        listener.set_nonblocking(true)?;
        Ok(Server {
            listener,
            identify,
            spaces: Spaces::new(source, limits.samples_per_netns),
            clients: Vec::new(),
            limits,
        })
    }

    /// Serves until `wake` is readable.
    pub fn run(&mut self, wake: BorrowedFd<'_>) -> io::Result<()> {
        while !self.turn(wake, READ_EVERY)? {}
        Ok(())
    }

    /// Waits at most `wait` for events and handles them. Returns true once `wake` is readable.
    pub fn turn(&mut self, wake: BorrowedFd<'_>, wait: Duration) -> io::Result<bool> {
        let timeout = PollTimeout::from(wait.as_millis().min(1000) as u16);
        let (woken, knocks, ready) = {
            let mut fds = vec![
                PollFd::new(wake, PollFlags::POLLIN),
                PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
            ];
            for client in &self.clients {
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::POLLIN, client.wants_to_read());
                flags.set(PollFlags::POLLOUT, client.wants_to_write());
                fds.push(PollFd::new(client.stream().as_fd(), flags));
            }
            match poll(&mut fds, timeout) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
            let events = |i: usize| fds[i].revents().unwrap_or(PollFlags::empty());
            let ready: Vec<PollFlags> = (2..fds.len()).map(events).collect();
            (!events(0).is_empty(), !events(1).is_empty(), ready)
        };
        if woken {
            return Ok(true);
        }
        self.spaces.take();
        for (client, events) in self.clients.iter_mut().zip(ready) {
            if events.intersects(PollFlags::POLLIN) && client.wants_to_read() {
                client.fill();
            } else if events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP)
                && !client.wants_to_read()
            {
                client.is_gone = true;
            }
            serve(&mut self.spaces, client);
            client.flush();
        }
        let idle = self.limits.idle;
        self.clients
            .retain(|c| !c.is_done() && c.active.elapsed() < idle);
        if knocks {
            self.accept();
        }
        Ok(false)
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPT {
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            // A client that cannot be identified gets nothing.
            let Ok(peer) = (self.identify)(&stream) else {
                continue;
            };
            let Ok(mut client) = Client::new(stream, peer) else {
                continue;
            };
            match self.makes_room_for(peer) {
                true => self.clients.push(client),
                false => {
                    client.push_text(TOO_MANY);
                    client.flush();
                }
            }
        }
    }

    /// Whether there is room for one more connection of `peer`. Closes another one if that makes
    /// room.
    fn makes_room_for(&mut self, peer: Peer) -> bool {
        let mut counts: HashMap<NetnsId, usize> = HashMap::new();
        for client in &self.clients {
            *counts.entry(client.peer.netns).or_default() += 1;
        }
        let theirs = counts.get(&peer.netns).copied().unwrap_or_default();
        // Namespace and user of the connection to close; any user if it is `None`.
        let (netns, uid) = if theirs >= self.limits.clients_per_netns {
            (peer.netns, (peer.uid != 0).then_some(peer.uid))
        } else if self.clients.len() >= self.limits.clients {
            match counts.into_iter().max_by_key(|(_, count)| *count) {
                Some((netns, most)) if most > theirs + 1 => (netns, None),
                _ => return false,
            }
        } else {
            return true;
        };
        let may_go = |c: &Client| c.peer.netns == netns && uid.is_none_or(|uid| c.peer.uid == uid);
        let candidates = self.clients.iter().enumerate().filter(|(_, c)| may_go(c));
        let silent_longest = candidates.min_by_key(|(_, c)| c.active);
        let Some(place) = silent_longest.map(|(place, _)| place) else {
            return false;
        };
        let mut goes = self.clients.swap_remove(place);
        goes.push_text(TOO_MANY);
        goes.flush();
        true
    }
}

/// Takes a client's requests, and continues its pending answers.
fn serve<S: Source>(spaces: &mut Spaces<S>, client: &mut Client) {
    for _ in 0..TURN {
        continue_answer(spaces, client);
        if client.room() == 0 || matches!(client.mode, Mode::Reading { .. }) {
            return;
        }
        match client.line() {
            None => return,
            Some(Err(())) => {
                client.push_text("error the line is too long\n");
                client.closing = true;
                return;
            }
            Some(Ok(line)) => {
                client.mode = Mode::Idle;
                match parse(&line) {
                    Ok(request) => answer(spaces, client, request),
                    Err(refusal) => client.push_text(&format!("error {refusal}\n")),
                }
            }
        }
    }
}

fn answer<S: Source>(spaces: &mut Spaces<S>, client: &mut Client, request: Request) {
    match request {
        Request::On(filter) => match spaces.on(client.peer.netns, &filter) {
            Ok(()) => client.push_text("ok on\n"),
            Err(why) => client.push_text(&format!("error {why}\n")),
        },
        Request::Off => {
            spaces.off(client.peer.netns);
            client.push_text("ok off\n");
        }
        Request::Status => client.push_text(&spaces.status(client.peer.netns)),
        Request::Read(form) => {
            client.mode = Mode::Reading {
                form,
                end: spaces.end(client.peer.netns),
                returned: 0,
                lost: 0,
            };
            continue_answer(spaces, client);
        }
        Request::Follow(form) => {
            client.cursor = client.cursor.max(spaces.end(client.peer.netns));
            client.mode = Mode::Following { form };
        }
        Request::Help => client.push_text(protocol::HELP),
        Request::Quit => client.closing = true,
    }
}

/// Writes as many samples as there is room for.
fn continue_answer<S: Source>(spaces: &Spaces<S>, client: &mut Client) {
    let (form, end) = match client.mode {
        Mode::Idle => return,
        Mode::Reading { form, end, .. } => (form, end),
        Mode::Following { form } => (form, spaces.end(client.peer.netns)),
    };
    let forgotten = spaces
        .first(client.peer.netns)
        .min(end)
        .saturating_sub(client.cursor);
    client.cursor += forgotten;
    if let Mode::Reading { lost, .. } = &mut client.mode {
        *lost += forgotten;
    } else if forgotten > 0 && form == Form::Full {
        client.push_text(&format!("lost {forgotten}\n"));
    }
    while client.cursor < end && client.room() > 0 {
        let Some(sample) = spaces.sample(client.peer.netns, client.cursor) else {
            break;
        };
        client.push_text(&format::line(sample, form));
        client.cursor += 1;
        if let Mode::Reading { returned, .. } = &mut client.mode {
            *returned += 1;
        }
    }
    if let Mode::Reading {
        form,
        returned,
        lost,
        ..
    } = client.mode
        && client.cursor >= end
    {
        client.mode = Mode::Idle;
        match form {
            Form::Full => client.push_text(&format!("ok {returned} reports, {lost} lost\n")),
            Form::Mace => client.push_text("\n"),
        }
    }
}

/// Time without any process after which a namespace is no longer measured.
pub(crate) const VANISHED: Duration = Duration::from_secs(10);

/// Timer with the moment of its last action.
#[derive(Debug)]
pub(crate) struct Every(Instant, Duration);

impl Every {
    pub(crate) fn new(length: Duration) -> Every {
        Every(Instant::now(), length)
    }

    /// Returns true once each `length`.
    pub(crate) fn due(&mut self) -> bool {
        let due = self.0.elapsed() >= self.1;
        if due {
            self.0 = Instant::now();
        }
        due
    }
}

#[cfg(test)]
mod tests;
