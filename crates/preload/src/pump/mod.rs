//! Pump: moves data between the program's sockets and the process' session.
//!
//! The pump's thread sleeps until the dataplane or the program has work for it ([`run`]). Calls of
//! the program that need the session use it under the same lock.

mod attaching;
mod buffered;
mod connection;
mod lead;
mod listener;
mod listening;
mod queries;
mod slots;
mod udp;

pub use lead::{Home, Rest};
pub use listener::Source;
pub use slots::Name;
pub use udp::{BindOutcome, Reuse, SendOutcome};

use crate::accept_message::AcceptMessage;
use crate::errors::of_ending;
use crate::internal::Internal;
use crate::settings::{DATAGRAM_PATIENCE, EXIT_PATIENCE, Settings};
use crate::table::{self, ConnectionState, Kind, Sock, Stage};
use crate::{process, unix};
use attaching::{SessionParts, attach};
use buffered::BufferedData;
use cofferdam_bsd::Result;
use cofferdam_dataplane::{
    BoundAddress, Connection, ConnectionInfo, ConnectionOptions, Event, Knock, Refusal,
    ServedNetwork, Session,
};
use connection::{Conn, State};
use lead::Lead;
use listener::Listener;
use nix::errno::Errno;
use slots::Slots;
use std::collections::HashMap;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use udp::{UDP, UDP_KERNEL, UdpSockets};

/// Subjects of events of the epoll set, in the upper byte.
const SESSION: u64 = 1 << 56;
const CONN: u64 = 2 << 56;
const LISTENER: u64 = 3 << 56;
const WAKE: u64 = 4 << 56;
/// Additional source of a listener.
const SOURCE: u64 = 5 << 56;
const KIND: u64 = 0xff << 56;
/// Events for which the library's end of a connection is always watched.
const EDGES: i32 = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
/// Events of an end whose other end is gone.
const ENDS: i32 = libc::EPOLLHUP | libc::EPOLLRDHUP;
/// Number of events taken at once.
const MOST_EVENTS: usize = 256;
/// Number of bytes moved at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Timer that the ending process sets to know that its earlier calls are done.
const FAREWELL: u64 = 1;

/// Session of the process and its sockets.
pub struct Pump {
    settings: Settings,
    /// Key of the parent with which the process has attached.
    inherited: Option<String>,
    session: Option<Session>,
    /// Descriptors of the session in the library's range.
    numbers: Vec<RawFd>,
    served: ServedNetwork,
    retry_at: Instant,
    epoll: Internal,
    conns: Slots<Conn>,
    listeners: Slots<Listener>,
    udp: UdpSockets,
    /// Connections by their place in the session.
    of_place: Vec<Option<(Connection, Name)>>,
    of_bound: HashMap<BoundAddress, Name>,
    answers: HashMap<BoundAddress, std::result::Result<(), Refusal>>,
    /// States of connections that the dataplane has reported and nobody has read.
    infos: HashMap<Connection, Box<ConnectionInfo>>,
    dirty: Vec<Name>,
    buffered: BufferedData,
    buffer: Box<[u8]>,
    said_farewell: bool,
    lead: Lead,
}

impl Pump {
    /// Attaches, with the parent's key if there is one. If the parent's dataplane has been
    /// restarted, its key is invalid and the user's own right applies.
    pub fn new(
        settings: Settings,
        mut inherited: Option<String>,
    ) -> std::result::Result<Pump, String> {
        let attached = match attach(&settings, inherited.as_deref()) {
            Err(_) if inherited.take().is_some() => attach(&settings, None)?,
            attached => attached?,
        };
        // SAFETY: there are no pointers.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        let epoll = Errno::result(epoll).map_err(|e| format!("no epoll set: {e}"))?;
        // SAFETY: the descriptor is new and has no other owner.
        let epoll = Internal::new(unsafe { OwnedFd::from_raw_fd(epoll) });
        let epoll = epoll.map_err(|e| format!("no descriptor is free: {e}"))?;
        let lead = Lead::new().map_err(|e| format!("no descriptor is free: {e}"))?;
        let mut pump = Pump {
            settings,
            inherited,
            served: attached.0.served().clone(),
            session: None,
            numbers: Vec::new(),
            retry_at: Instant::now(),
            epoll,
            conns: Slots::new(),
            listeners: Slots::new(),
            udp: UdpSockets::new(),
            of_place: Vec::new(),
            of_bound: HashMap::new(),
            answers: HashMap::new(),
            infos: HashMap::new(),
            dirty: Vec::new(),
            buffered: BufferedData::default(),
            buffer: vec![0; BUFFER_BYTES].into(),
            said_farewell: false,
            lead,
        };
        let wake = pump.lead.wake();
        pump.watch(wake, libc::EPOLLIN | libc::EPOLLET, WAKE);
        pump.use_session(attached);
        Ok(pump)
    }

    /// Settings and key with which children of this process attach.
    pub fn for_children(&self) -> (Settings, Option<String>) {
        let session = self.session.as_ref();
        let key = session.map(|session| session.key().to_owned());
        (self.settings.clone(), key)
    }

    fn use_session(&mut self, (session, numbers): SessionParts) {
        for fd in session.descriptors() {
            self.watch(fd.as_raw_fd(), libc::EPOLLIN, SESSION);
        }
        self.lead.give_bell_to_thread();
        self.served = session.served().clone();
        self.udp.set_devices(&self.served.devices);
        self.session = Some(session);
        self.numbers = numbers;
    }

    fn watch(&self, fd: RawFd, events: i32, data: u64) {
        self.control(libc::EPOLL_CTL_ADD, fd, events, data);
    }

    fn control(&self, what: i32, fd: RawFd, events: i32, data: u64) {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: data,
        };
        // SAFETY: the event is a local variable. If the kernel has no memory for it, only the end
        // of the descriptor goes unnoticed.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), what, fd, &raw mut event) };
    }

    /// Addresses and rights at the dataplane; `None` without a session.
    pub fn served(&self) -> Option<&ServedNetwork> {
        self.session.as_ref().map(|_| &self.served)
    }

    /// Addresses and rights of the last session.
    pub fn last_served(&self) -> &ServedNetwork {
        &self.served
    }

    /// Opens a connection for the program's socket.
    pub fn connect(
        &mut self,
        (ours, inode): (OwnedFd, u64),
        shown: Arc<ConnectionState>,
        filler_bytes: usize,
    ) -> Result<()> {
        let end = Internal::new(ours)?;
        let session = self.session.as_mut().ok_or(Errno::ENETDOWN)?;
        let options = shown.options().of_connection();
        let connection = session.connect_with(shown.remote, options);
        session.flush();
        self.add(end, inode, shown, connection, filler_bytes);
        Ok(())
    }

    fn add(
        &mut self,
        end: Internal,
        inode: u64,
        shown: Arc<ConnectionState>,
        connection: Connection,
        filler_bytes: usize,
    ) {
        let fd = end.as_raw_fd();
        let state = shown.clone();
        let conn = Conn::new(end, inode, shown, connection, filler_bytes);
        let name = self.conns.add(|_| conn);
        state.set_name(name);
        if self.of_place.len() <= connection.place() {
            self.of_place.resize(connection.place() + 1, None);
        }
        self.of_place[connection.place()] = Some((connection, name));
        self.watch(fd, EDGES, CONN | name);
    }

    /// Passes the program's data to the session at once, as far as possible. Returns the number of
    /// bytes.
    pub fn send(&mut self, name: Name, inode: u64, parts: &[IoSlice<'_>]) -> usize {
        let (Some(conn), Some(session)) = (self.conns.get_mut(name), &mut self.session) else {
            return 0;
        };
        let sent = conn.send(session, inode, parts);
        if sent > 0 {
            session.flush();
        }
        sent
    }

    fn named(&self, connection: Connection) -> Option<Name> {
        let (found, name) = (*self.of_place.get(connection.place())?)?;
        (found == connection).then_some(name)
    }

    /// Does all pending work.
    pub fn process_all(&mut self) {
        self.process_for(None);
    }

    /// Does all pending work for a thread that waits at `home`.
    fn process_for(&mut self, home: Option<Home>) {
        loop {
            while let Some(event) = self.session.as_mut().and_then(Session::next_event) {
                self.event(event);
            }
            if self.dirty.is_empty() {
                break;
            }
            while let Some(name) = self.dirty.pop() {
                self.serve(name, home);
            }
        }
        self.udp_move_datagrams();
        if let Some(session) = &mut self.session {
            session.flush();
        } else if Instant::now() >= self.retry_at {
            self.attach_again();
        }
    }

    fn serve(&mut self, name: Name, home: Option<Home>) {
        let Some(conn) = self.conns.get_mut(name) else {
            return;
        };
        let (was_full, was_buffered) = (conn.is_full, conn.is_buffered);
        let state = conn.serve(self.session.as_mut(), &mut self.buffer, home);
        if let Some(Home::Set(home)) = home.filter(|_| conn.is_buffered && !was_buffered) {
            self.buffered.add(home, name);
        }
        if state == State::Gone {
            self.conns.remove(name);
        } else if conn.is_full != was_full {
            // The library's end is watched for space only while it is full: each read of the
            // program frees some.
            let (fd, is_full) = (conn.end().as_raw_fd(), conn.is_full);
            let room = if is_full { libc::EPOLLOUT } else { 0 };
            self.control(libc::EPOLL_CTL_MOD, fd, EDGES | room, CONN | name);
        }
    }

    fn with(&mut self, connection: Connection, change: impl FnOnce(&mut Conn)) {
        let Some(name) = self.named(connection) else {
            return;
        };
        if let Some(conn) = self.conns.get_mut(name) {
            change(conn);
            self.dirty.push(name);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Bound { bound, result } => {
                if let Err(refusal) = result
                    && let Some(name) = self.of_bound.remove(&bound)
                    && let Some(listener) = self.listeners.get_mut(name)
                {
                    listener.bounds.retain(|(other, _)| *other != bound);
                    self.answers.insert(bound, Err(refusal));
                } else {
                    if result.is_err() {
                        self.udp_refused(bound);
                    }
                    self.answers.insert(bound, result);
                }
                process::changed();
            }
            Event::Knock(knock) => self.accept_knock(&knock),
            Event::Connected { connection, local } => {
                let mut options = ConnectionOptions::default();
                self.with(connection, |conn| options = conn.opened(local));
                // The dataplane does not know options that were set after the connect call.
                if let Some(session) = &mut self.session
                    && options != ConnectionOptions::default()
                {
                    session.set_options(connection, options);
                }
            }
            Event::Info { connection, info } => {
                if self.named(connection).is_some() {
                    self.infos.insert(connection, info);
                }
                process::changed();
            }
            Event::Received { connection, data } => {
                self.with(connection, |conn| conn.received(data));
            }
            Event::PeerClosed(connection) => self.with(connection, Conn::peer_closed),
            Event::Sent { connection, .. } => self.with(connection, |_| {}),
            Event::Dead { connection, reason } => {
                let error = of_ending(reason);
                self.with(connection, |conn| conn.handle_end(error));
                if let Some(place) = self.of_place.get_mut(connection.place()) {
                    *place = None;
                }
                self.infos.remove(&connection);
                process::changed();
            }
            Event::Timer(FAREWELL) => self.said_farewell = true,
            Event::Datagram {
                bound,
                data,
                remote,
                local,
            } => self.datagram(bound, &data, (remote, local)),
            Event::Timer(_) => {}
        }
    }

    /// Accepts a peer's connection: creates a pair, whose program's end is queued at the listener.
    fn accept_knock(&mut self, knock: &Knock) {
        let Some(session) = &mut self.session else {
            return;
        };
        let name = self.of_bound.get(&knock.listener).copied();
        let listener = name.and_then(|name| self.listeners.get_mut(name));
        let Some(listener) = listener.filter(|listener| listener.has_room()) else {
            return session.reject(knock);
        };
        let at = listener.bounds.iter().find(|(b, _)| *b == knock.listener);
        let Some(local) = at.map(|(_, at)| local(&self.served, *at, knock.remote)) else {
            return session.reject(knock);
        };
        let pair = unix::pair(libc::SOCK_STREAM);
        let pair = pair.and_then(|(theirs, ours, inode)| Ok((theirs, Internal::new(ours)?, inode)));
        let Ok((theirs, ours, inode)) = pair else {
            // No descriptors are left.
            return session.reject(knock);
        };
        let connection = session.accept(knock);
        let options = *listener.shown.options();
        let of_connection = options.of_connection();
        if of_connection != ConnectionOptions::default() {
            session.set_options(connection, of_connection);
        }
        let buffers = listener.shown.buffers_bytes.each_ref();
        let buffers = buffers.map(|bytes| bytes.load(Ordering::Relaxed));
        unix::set_buffers(&theirs, buffers);
        unix::limit_send(&ours, buffers[1]);
        let shown =
            ConnectionState::new(local, knock.remote, Stage::Open, true).with_options(options);
        let shown = Arc::new(shown);
        let kind = Kind::Connection(shown.clone());
        let is_v6 = listener.is_v6;
        table::put(inode, Sock { kind, is_v6 });
        let message = AcceptMessage::Connection {
            local,
            remote: knock.remote,
        };
        listener.put(message, Some(theirs));
        self.add(ours, inode, shown, connection, 0);
    }

    /// Handles the events that woke the pump's thread.
    pub fn handle_events(&mut self, events: &[libc::epoll_event]) {
        self.handle_thread_wake(events.iter().any(|event| event.u64 & KIND == SESSION));
        for event in events {
            let (bits, data) = (event.events as i32, event.u64);
            let name = data & !KIND;
            match data & KIND {
                CONN => {
                    if let Some(conn) = self.conns.get_mut(name) {
                        let reads = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP;
                        let reads = reads | libc::EPOLLERR;
                        conn.polled(bits & reads != 0, bits & libc::EPOLLHUP != 0);
                        self.dirty.push(name);
                    }
                }
                LISTENER if bits & ENDS != 0 => self.drop_listener(name),
                LISTENER | SOURCE => {
                    if let Some(listener) = self.listeners.get_mut(name) {
                        listener.advance();
                        // The process that listened first has ended, and this one still serves.
                        if bits & ENDS != 0
                            && let Some(source) = listener.end_source()
                        {
                            self.control(libc::EPOLL_CTL_DEL, source.fd(), 0, 0);
                        }
                    }
                }
                UDP => self.udp_woken(name, bits & libc::EPOLLHUP != 0),
                UDP_KERNEL => self.udp_kernel_woken(name),
                _ => {}
            }
        }
    }

    /// Waits at the end of the process until the peers have got its data.
    pub fn finish(&mut self) {
        for name in self.listeners.names() {
            self.drop_listener(name);
        }
        let names = self.conns.names();
        for name in &names {
            if let Some(conn) = self.conns.get_mut(*name) {
                conn.mark_exiting();
                self.dirty.push(*name);
            }
        }
        self.udp_flush();
        let began = Instant::now();
        let until = began + EXIT_PATIENCE;
        let mut has_asked = false;
        loop {
            self.process_all();
            let has_sent = self.udp_is_finished() || began.elapsed() >= DATAGRAM_PATIENCE;
            let Some(session) = &mut self.session else {
                return;
            };
            let conns = &mut self.conns;
            let mut left = names
                .iter()
                .filter_map(|name| conns.get_mut(*name).map(|c| c.is_finished(session)));
            if left.all(|finished| finished) && has_sent && !std::mem::replace(&mut has_asked, true)
            {
                // The timer expires when the earlier calls are done.
                session.timer(Duration::ZERO, FAREWELL);
            }
            if self.said_farewell || Instant::now() >= until {
                return;
            }
            if let Err(why) = session.wait(Some(Duration::from_millis(20))) {
                self.handle_session_end(&why.to_string());
                return;
            }
        }
    }
}

/// Local address that a peer has connected to.
fn local(served: &ServedNetwork, at: SocketAddr, remote: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match at.ip().is_unspecified() {
        true => served.local_for(remote.ip()).unwrap_or(at.ip()),
        false => at.ip(),
    };
    SocketAddr::new(ip, at.port())
}

/// Runs the pump's thread.
pub fn run() {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST_EVENTS];
    loop {
        let Some((epoll, timeout)) = process::with_pump(|pump| {
            pump.run_in_thread();
            pump.prepare_thread_wait()
        }) else {
            return;
        };
        let timeout_ms = match timeout {
            None => -1,
            // The timeout is rounded up: zero would poll without waiting.
            Some(Duration::ZERO) => 0,
            Some(timeout) => timeout
                .as_millis()
                .try_into()
                .unwrap_or(i32::MAX)
                .saturating_add(1),
        };
        let most = MOST_EVENTS as i32;
        // SAFETY: the array has space for that number of events.
        let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), most, timeout_ms) };
        let count = usize::try_from(count).unwrap_or(0);
        process::with_pump(|pump| pump.handle_events(&events[..count]));
    }
}
