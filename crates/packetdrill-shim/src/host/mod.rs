//! A host around the stack, as a script sees one: files, sockets, a link, and a clock that advances
//! only on request.

mod adjust;
mod commands;
mod connection;
mod datagrams;
mod departures;
mod errors;
pub(crate) mod fastopen;
mod info;
mod interest;
mod meter;
mod notices;
mod options;
mod pace;
mod ready;
mod sending;
mod settings;
mod sockets;
mod udp;

pub use datagrams::Message;
pub use errors::Result;
pub use sending::Flags;

use crate::buffers::Buffers;
use crate::burst::Bursts;
use crate::descriptors::Descriptors;
use crate::flags::Setup;
use crate::link::{self, LinkFrame};
use crate::sysctls::Sysctls;
use cofferdam_netstack::{
    BufferId, ConfigError, Counters, Disposition, Event, InterfaceId, ListenerId, MAX_HEADER_BYTES,
    Stack, Time,
};
use connection::Connection;
use datagrams::Datagrams;
use interest::Interest;
use nix::errno::Errno;
use settings::Settings;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Time at which the clock starts, in nanoseconds. It is the same on every run; packetdrill uses
/// only differences.
const START_NS: u64 = 1_000_000_000_000_000_000;

/// A TCP or UDP socket.
#[derive(Debug)]
struct Socket {
    is_v6: bool,
    nonblocking: bool,
    local: Option<SocketAddr>,
    /// Whether `bind` set the address.
    is_bound: bool,
    settings: Box<Settings>,
    /// TCP_FASTOPEN_CONNECT: the SYN to this peer waits for the first data.
    deferred: Option<SocketAddr>,
    /// Error that ended its connection, reported once.
    error: Option<Errno>,
    role: Role,
}

impl Socket {
    fn new(is_v6: bool, local: Option<SocketAddr>, role: Role) -> Socket {
        Socket {
            is_v6,
            nonblocking: false,
            local,
            is_bound: false,
            settings: Box::default(),
            deferred: None,
            error: None,
            role,
        }
    }
}

#[derive(Debug)]
enum Role {
    Fresh,
    /// Listening. `waiting` holds the connections to accept, by
    /// [`cofferdam_netstack::ConnectionId::to_bits`].
    Listening {
        id: ListenerId,
        backlog: u32,
        waiting: VecDeque<u64>,
        /// Number of connections received.
        news: u64,
    },
    Connection(u64),
    Datagrams(Datagrams),
}

#[derive(Debug)]
enum File {
    Socket(Socket),
    Epoll(BTreeMap<i32, Interest>),
}

/// A host with the stack, its files and its clock.
#[derive(Debug)]
pub struct Host {
    stack: Stack,
    buffers: Buffers,
    now: Time,
    files: BTreeMap<i32, File>,
    connections: HashMap<u64, Connection>,
    /// Packets on their way to packetdrill, with the time they left.
    sent: VecDeque<(Time, Vec<u8>)>,
    descriptors: Descriptors,
    sysctls: Option<Sysctls>,
    bursts: Option<Bursts>,
    /// Counters of the stack at the last run of `nstat`.
    counters_shown: Counters,
}

impl Host {
    /// Creates a host with one interface.
    ///
    /// # Errors
    /// If the settings are invalid.
    pub fn new(setup: Setup) -> std::result::Result<Host, ConfigError> {
        let now = Time::from_nanos(START_NS);
        Ok(Host {
            stack: Stack::new(setup.config, now)?,
            buffers: Buffers::default(),
            now,
            files: BTreeMap::new(),
            connections: HashMap::new(),
            sent: VecDeque::new(),
            descriptors: Descriptors::default(),
            sysctls: setup.sysctls,
            bursts: setup.bursts.then(Bursts::default),
            counters_shown: Counters::default(),
        })
    }

    /// Time on the script's clock.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Number of buffers, connections and TIME-WAIT entries; all are zero once everything has
    /// ended.
    pub fn usage(&self) -> (usize, u32, u32) {
        let usage = self.stack.usage();
        (self.buffers.len(), usage.connections, usage.time_wait)
    }

    /// # Errors
    /// If the process has no descriptor left.
    fn add_file(&mut self, file: File) -> Result<i32> {
        let number = self.descriptors.open()?;
        self.files.insert(number, file);
        Ok(number)
    }

    /// Whether the descriptor belongs to the host.
    pub fn owns(&self, file: i32) -> bool {
        self.files.contains_key(&file)
    }

    fn socket_of(&mut self, file: i32) -> Result<&mut Socket> {
        match self.files.get_mut(&file) {
            Some(File::Socket(socket)) => Ok(socket),
            Some(_) => Err(Errno::ENOTSOCK),
            None => Err(Errno::EBADF),
        }
    }

    /// Advances the clock to `to` and handles everything due by then.
    pub fn advance(&mut self, to: Time) {
        while let Some(due) = self.next_due().filter(|due| *due <= to) {
            // The stack may report a timer early; the clock advances nevertheless.
            self.now = due.max(self.now + Duration::from_micros(1)).min(to);
            self.stack.handle_timers(self.now);
            self.uncork_due();
            self.turn();
            if self.now == to {
                break;
            }
        }
        self.now = self.now.max(to);
        self.stack.handle_timers(self.now);
        self.turn();
    }

    /// Advances the clock to the next due time, or to `limit` if that is earlier. Returns false and
    /// does nothing if nothing is due.
    pub fn skip(&mut self, limit: Option<Time>) -> bool {
        let Some(next) = self.next_due().into_iter().chain(limit).min() else {
            return false;
        };
        self.advance(next.max(self.now));
        true
    }

    /// Delivers a packet from packetdrill.
    ///
    /// # Errors
    /// `EINVAL` if it is not an IP packet.
    pub fn arrive(&mut self, packet: &[u8]) -> Result<()> {
        self.refresh();
        let frame = link::frame(packet).ok_or(Errno::EINVAL)?;
        self.arrived(packet);
        self.receive(&frame);
        self.turn();
        Ok(())
    }

    /// The next packet for packetdrill, with the time it left.
    pub fn departed(&mut self) -> Option<(Time, Vec<u8>)> {
        self.sent.pop_front()
    }

    fn receive(&mut self, frame: &[u8]) {
        let buffer = self.buffers.add(frame);
        let disposition =
            self.stack
                .handle_frame(self.now, InterfaceId(0), frame, buffer, &mut self.buffers);
        if disposition == Disposition::Free {
            self.buffers.free(buffer);
        }
    }

    /// Runs one iteration of the stack's loop: its events and its output.
    fn turn(&mut self) {
        loop {
            while let Some(event) = self.stack.poll_event() {
                self.event(event);
            }
            let Some(frame) = self.transmit() else {
                // Data may still wait behind a record boundary or a full buffer.
                if self.feed_all() {
                    continue;
                }
                self.flush_burst();
                self.make_room();
                self.measure();
                return;
            };
            match link::classify(&frame) {
                LinkFrame::Packet(packet) => self.depart(packet),
                LinkFrame::Question(answer) => self.receive(&answer),
                LinkFrame::Nothing => {}
            }
        }
    }

    /// Time of the next timer of the stack or of the next corked segment.
    fn next_due(&self) -> Option<Time> {
        let corked = self
            .connections
            .values()
            .filter_map(|conn| conn.out.corked_until);
        corked.chain(self.stack.poll_at()).min()
    }

    fn transmit(&mut self) -> Option<Vec<u8>> {
        let mut frame = vec![0; MAX_HEADER_BYTES];
        let transmit = self.stack.poll_transmit(self.now, &mut frame)?;
        frame.truncate(transmit.header_len);
        for chunk in transmit.payload.chunks() {
            frame.extend_from_slice(self.buffers.read(*chunk));
        }
        if let Some(checksum) = transmit.checksum {
            checksum.complete(&mut frame);
        }
        if let Some(buffer) = transmit.release {
            self.buffers.free(buffer);
        }
        Some(frame)
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Knock {
                cookie,
                connection,
                remote,
                local,
                ..
            } => {
                let bits = connection.to_bits();
                let now = self.now;
                let mut has_room = false;
                if let Ok(Socket {
                    role:
                        Role::Listening {
                            waiting,
                            news,
                            backlog,
                            ..
                        },
                    ..
                }) = self.socket_of(cookie as i32)
                {
                    has_room = waiting.len() < *backlog as usize;
                    waiting.push_back(bits);
                    *news += 1;
                    let connection = Connection::new(connection, local, remote, now);
                    self.connections.insert(bits, connection);
                }
                if has_room {
                    self.own(bits);
                }
            }
            Event::Recv {
                connection, chunk, ..
            } => match self.connections.get_mut(&connection.to_bits()) {
                Some(conn) => conn.received(chunk),
                None => self.buffers.free(chunk.buffer),
            },
            Event::UdpRecv {
                udp,
                cookie,
                chunk,
                remote,
                local,
            } => self.datagram_came(cookie as i32, (udp, chunk), remote, local),
            Event::Release { buffer } => self.buffers.free(buffer),
            Event::Connected {
                connection,
                window_bytes,
                ..
            } => {
                let info = self.stack.connection(connection);
                self.update(connection.to_bits(), |conn| {
                    conn.opened(window_bytes);
                    let acked = info.map_or(0, |info| info.acked_bytes.saturating_sub(1));
                    conn.meter.syn_bytes_acked = acked.min(conn.meter.syn_bytes);
                });
                // A waiting write goes with the acknowledgement, unless data sent with the SYN must
                // be retransmitted first.
                let conn = self.connections.get(&connection.to_bits());
                if conn.is_some_and(|conn| conn.meter.is_syn_acked_whole()) {
                    self.feed(connection.to_bits(), false);
                }
            }
            Event::Urgent {
                connection,
                ahead_bytes,
                ..
            } => {
                self.update(connection.to_bits(), |conn| {
                    conn.urgent_announced(ahead_bytes);
                });
            }
            Event::PeerClosed { connection, .. } => {
                self.update(connection.to_bits(), Connection::peer_closed);
            }
            Event::Sent {
                connection,
                bytes,
                window_bytes,
                ..
            } => {
                let now = self.now;
                if let Some(conn) = self.connections.get_mut(&connection.to_bits()) {
                    conn.acknowledged(bytes, window_bytes, now, &mut self.buffers);
                }
            }
            Event::Dead {
                connection, reason, ..
            } => {
                let bits = connection.to_bits();
                if let Some(conn) = self.connections.get_mut(&bits) {
                    conn.ended(reason, &mut self.buffers);
                }
                self.forget_if_over(bits);
            }
            Event::UdpSent { cookie, token, .. } => {
                self.datagram_sent(cookie as i32, BufferId(token));
            }
            Event::Timer { .. } => {}
        }
    }

    fn update(&mut self, bits: u64, what: impl FnOnce(&mut Connection)) {
        if let Some(conn) = self.connections.get_mut(&bits) {
            what(conn);
        }
    }

    /// Drops a connection that has ended and that no file refers to.
    fn forget_if_over(&mut self, bits: u64) {
        if (self.connections.get(&bits)).is_some_and(Connection::is_over)
            && let Some(mut conn) = self.connections.remove(&bits)
        {
            conn.drop_received(&mut self.buffers);
        }
    }
}
