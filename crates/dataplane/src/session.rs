//! Session of an application: connections, buffers and events over the rings.

mod bounds;
mod connection;
mod cores;
mod datagrams;
mod event;
mod event_loop;
mod lending;
mod received;
mod rings;
mod wait;

pub use event::{BoundAddress, Connection, Event, Knock};
pub(crate) use event_loop::hand_out;
pub use event_loop::{Application, EventLoop};
pub use received::ReceivedData;

use crate::abi::{Call, Condition, Sharing};
use crate::area::{Area, LARGEST, Piece};
use crate::channel::MappedChannel;
use crate::handle;
use crate::served::ServedNetwork;
use crate::tuning::session::{LOOK_TIMER, RESERVE_PART};
use bounds::Bounds;
use cofferdam_netstack::ConnectionOptions;
use connection::{Closing, ConnectionState, Connections};
use cores::{CoreEnd, Groups};
use datagrams::Sends;
use lending::Lending;
use received::Inbox;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Memory for data to send.
#[derive(Debug)]
pub struct Buffer {
    piece: Piece,
}

/// Session of an application with its dataplane.
///
/// Calls are collected. [`Session::flush`] publishes them to the dataplane, once a batch rather
/// than once a call.
pub struct Session {
    cores: Vec<CoreEnd>,
    /// Core whose conditions are read now. The next field is the core of the last `connect`.
    turn: usize,
    next_connect: usize,
    groups: Groups,
    area: cofferdam_xsk::Mapping,
    pieces: Area,
    inbox: Rc<Inbox>,
    bell: crate::bell::BellEnd,
    /// Socket to the dataplane's process. Its end is the dataplane's end.
    socket: Option<OwnedFd>,
    connections: Connections,
    /// Number of unacknowledged sends of all connections. The next fields are its limit, and the
    /// connections that wait for it.
    ranges: u32,
    most_ranges: u32,
    waiting: VecDeque<Connection>,
    /// Connections that found no memory for sending.
    wanting: VecDeque<Connection>,
    lending: Lending,
    bounds: Bounds,
    sends: Sends,
    next_check: Instant,
    served: ServedNetwork,
    /// Whether the loop yields the CPU that this application may share with it.
    yields: bool,
    key: String,
}

impl Session {
    pub(crate) fn new(mapped: MappedChannel, socket: Option<OwnedFd>) -> Session {
        Session {
            cores: mapped.cores.into_iter().map(CoreEnd::new).collect(),
            turn: 0,
            next_connect: 0,
            groups: Groups::new(&mapped.sizes.owners),
            pieces: Area::new(mapped.sizes.area_bytes),
            area: mapped.area,
            inbox: Rc::new(Inbox::new(mapped.inbox)),
            bell: mapped.bell,
            socket,
            connections: Connections::default(),
            ranges: 0,
            most_ranges: mapped.sizes.ranges,
            waiting: VecDeque::new(),
            wanting: VecDeque::new(),
            lending: Lending::new(mapped.sizes.area_bytes),
            bounds: Bounds::default(),
            sends: Sends::new(mapped.sizes.datagrams),
            next_check: Instant::now(),
            yields: mapped.sizes.yields,
            served: mapped.sizes.served,
            key: mapped.sizes.key,
        }
    }

    /// Key for forked processes that attach as this application under any user: see
    /// [`Session::attach_by_key`].
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Facts of the dataplane's network.
    pub fn served(&self) -> &ServedNetwork {
        &self.served
    }

    /// Accepts connections to `local`. [`Event::Bound`] reports the outcome.
    pub fn listen(&mut self, local: SocketAddr, backlog: u32) -> BoundAddress {
        self.listen_shared(local, backlog, Sharing::default())
    }

    /// Accepts connections as [`Session::listen`] does, at an address that other sessions of this
    /// application may have too.
    pub fn listen_shared(
        &mut self,
        local: SocketAddr,
        backlog: u32,
        sharing: Sharing,
    ) -> BoundAddress {
        let bound = self.bounds.add(self.cores.len(), None);
        self.call_all(Call::Listen {
            local,
            backlog,
            cookie: bound.0,
            sharing,
        });
        bound
    }

    /// Opens a connection. [`Event::Connected`] or [`Event::Dead`] follows.
    pub fn connect(&mut self, remote: SocketAddr) -> Connection {
        self.connect_with(remote, ConnectionOptions::default())
    }

    /// Opens a connection as [`Session::connect`] does, with settings that replace the dataplane's.
    /// Keepalive times are whole seconds. A value beyond Linux's bounds becomes the bound.
    pub fn connect_with(&mut self, remote: SocketAddr, options: ConnectionOptions) -> Connection {
        let connection = self.connections.add(ConnectionState::Opening);
        self.call(Call::Connect {
            remote,
            cookie: connection.0,
            options,
        });
        connection
    }

    /// Replaces all settings of a connection, with the bounds of [`Session::connect_with`]. Returns
    /// false if the connection is not open.
    pub fn set_options(&mut self, connection: Connection, options: ConnectionOptions) -> bool {
        let handle = self.handle_of(connection);
        if let Some(handle) = handle {
            self.call(Call::Options { handle, options });
        }
        handle.is_some()
    }

    /// Requests the state of a connection. [`Event::Info`] answers, or [`Event::Dead`] of the
    /// connection. Returns false if it is not open.
    pub fn ask_info(&mut self, connection: Connection) -> bool {
        let handle = self.handle_of(connection);
        if let Some(handle) = handle {
            self.call(Call::Info { handle });
        }
        handle.is_some()
    }

    fn handle_of(&mut self, connection: Connection) -> Option<u64> {
        self.connections
            .get_mut(connection)
            .and_then(|c| c.handle())
    }

    /// Accepts a connection.
    pub fn accept(&mut self, knock: &Knock) -> Connection {
        let connection = self.connections.add(ConnectionState::Open {
            handle: knock.handle,
        });
        self.call(Call::Accept {
            handle: knock.handle,
            cookie: connection.0,
        });
        connection
    }

    /// Rejects a connection.
    pub fn reject(&mut self, knock: &Knock) {
        self.call(Call::Reject {
            handle: knock.handle,
        });
    }

    /// Allocates memory for `len` bytes, at most 16 KiB; `None` if all memory is in use: try again
    /// after the next [`Event::Sent`].
    pub fn buffer(&mut self, len: usize) -> Option<Buffer> {
        let piece = self.pieces.take(len, u32::MAX)?;
        if (piece.len as usize) < len || len > LARGEST {
            self.pieces.give(piece);
            return None;
        }
        Some(Buffer { piece })
    }

    /// Bytes of a buffer, to be filled.
    pub fn bytes_mut(&mut self, buffer: &mut Buffer) -> &mut [u8] {
        let Piece { offset, len, .. } = buffer.piece;
        self.slice(offset, len)
    }

    fn slice(&mut self, offset: u32, len: u32) -> &mut [u8] {
        debug_assert!((offset + len) as usize <= self.area.len());
        // SAFETY: pieces lie inside the memory (`Area::new` was given its length) and do not
        // overlap; the dataplane only reads it; `&mut self` keeps other slices away.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.area.base().as_ptr().add(offset as usize),
                len as usize,
            )
        }
    }

    /// Releases a buffer without sending it.
    pub fn give_back(&mut self, buffer: Buffer) {
        self.pieces.give(buffer.piece);
    }

    /// Sends a buffer without copying it. Returns false if the connection has ended.
    pub fn send_buffer(&mut self, connection: Connection, buffer: Buffer) -> bool {
        let Some(place) = self.connections.get_mut(connection) else {
            self.pieces.give(buffer.piece);
            return false;
        };
        place.queue(buffer.piece);
        self.advance(connection);
        true
    }

    /// Copies `data` and sends it. Bytes beyond the window are queued. Returns the number of bytes
    /// taken: fewer if all memory is in use (resume after this connection's next [`Event::Sent`],
    /// which comes when there is memory), 0 if the connection has ended.
    pub fn send(&mut self, connection: Connection, data: &[u8]) -> usize {
        let mut rest = data;
        while !rest.is_empty() && self.connections.get_mut(connection).is_some() {
            let most_bytes = self.lendable_bytes(connection);
            let Some(piece) = self.pieces.take(rest.len(), most_bytes) else {
                // A connection at its limit resumes with its own acknowledgement.
                if !self.pieces.has_room() {
                    self.want_memory(connection);
                }
                break;
            };
            let (now, later) = rest.split_at(piece.len as usize);
            self.slice(piece.offset, piece.len).copy_from_slice(now);
            if let Some(place) = self.connections.get_mut(connection) {
                place.queue(piece);
            }
            rest = later;
        }
        self.advance(connection);
        self.look_after_memory();
        data.len() - rest.len()
    }

    /// Number of bytes that a connection's window and its share of the memory take at once; 0 if it
    /// is not open.
    pub fn window_bytes(&mut self, connection: Connection) -> u32 {
        let window_bytes = (self.connections.get_mut(connection)).map_or(0, |c| c.window_bytes());
        window_bytes.min(self.lendable_bytes(connection))
    }

    /// Number of bytes of a connection that are queued or unacknowledged.
    pub fn unsent_bytes(&mut self, connection: Connection) -> usize {
        self.connections
            .get_mut(connection)
            .map_or(0, |c| c.held_bytes())
    }

    /// Makes the calls that a connection's window allows, unless its flow group is moving. At the
    /// limit of unacknowledged sends the connection waits for its turn.
    fn advance(&mut self, connection: Connection) {
        let handle = self.handle_of(connection);
        if handle.is_some_and(|handle| self.groups.is_unsettled(handle::group(handle))) {
            return;
        }
        while let Some(place) = self.connections.get_mut(connection) {
            let is_sending = place.is_sending();
            let is_first = place.ranges == 0;
            let kept_free = if is_first {
                0
            } else {
                self.most_ranges / RESERVE_PART
            };
            if is_sending && self.ranges + kept_free >= self.most_ranges {
                // A connection with sends of its own resumes with their acknowledgement.
                if is_first && !std::mem::replace(&mut place.waits, true) {
                    self.waiting.push_back(connection);
                }
                return;
            }
            let Some(call) = place.next_call() else {
                return;
            };
            self.ranges += u32::from(is_sending);
            self.call(call);
        }
    }

    /// Records that `ranges` sends are no longer pending, and resumes connections that wait.
    fn make_room(&mut self, ranges: u32) {
        self.ranges = self.ranges.saturating_sub(ranges);
        while self.ranges < self.most_ranges {
            let Some(connection) = self.waiting.pop_front() else {
                return;
            };
            if let Some(place) = self.connections.get_mut(connection) {
                place.waits = false;
                self.advance(connection);
            }
        }
    }

    /// Ends our side after the queued data. The peer may continue to send.
    pub fn shutdown(&mut self, connection: Connection) {
        self.end_with(connection, Closing::Shutdown);
    }

    /// Ends the connection after the queued data. [`Event::Dead`] follows.
    pub fn close(&mut self, connection: Connection) {
        self.end_with(connection, Closing::Close);
    }

    fn end_with(&mut self, connection: Connection, closing: Closing) {
        if let Some(place) = self.connections.get_mut(connection) {
            place.end_with(closing);
        }
        self.advance(connection);
    }

    /// Ends the connection at once. [`Event::Dead`] follows.
    pub fn abort(&mut self, connection: Connection) {
        if let Some(handle) = self.handle_of(connection) {
            self.call(Call::Abort { handle });
        }
    }

    /// Reports [`Event::Timer`] with `cookie` (48 bits, except the largest number) after `delay`.
    pub fn timer(&mut self, delay: Duration, cookie: u64) {
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.call(Call::Timer { delay_ns, cookie });
    }

    /// Translates a condition of a core into an event.
    fn translate(&mut self, core: usize, condition: Condition) -> Option<Event> {
        Some(match condition {
            Condition::Bound { cookie, result } => {
                return self.bound(core, BoundAddress(cookie), result);
            }
            Condition::Knock {
                cookie,
                handle,
                remote,
            } => {
                self.groups.is_at(handle::group(handle), core);
                Event::Knock(Knock {
                    handle,
                    listener: BoundAddress(cookie),
                    remote,
                })
            }
            Condition::Connected {
                cookie,
                handle,
                window_bytes,
                local,
            } => {
                let connection = Connection(cookie);
                self.groups.is_at(handle::group(handle), core);
                self.connections
                    .get_mut(connection)?
                    .open(handle, window_bytes);
                self.advance(connection);
                Event::Connected { connection, local }
            }
            Condition::Info {
                cookie,
                part,
                words,
                ..
            } => {
                let parts = &mut self.cores.get_mut(core)?.parts;
                let info = Box::new(parts.take(cookie, part, &words)?);
                Event::Info {
                    connection: Connection(cookie),
                    info,
                }
            }
            Condition::Recv {
                cookie,
                frame,
                offset,
                len,
                ..
            } => Event::Received {
                connection: Connection(cookie),
                data: ReceivedData::new(&self.inbox, (core, Call::RecvDone { frame }), offset, len),
            },
            Condition::PeerClosed { cookie, .. } => Event::PeerClosed(Connection(cookie)),
            Condition::Sent {
                cookie,
                bytes,
                ranges,
                limit_bytes,
                ..
            } => {
                let connection = Connection(cookie);
                let pieces = &mut self.pieces;
                let place = self.connections.get_mut(connection)?;
                place.acknowledged(bytes, limit_bytes, |piece| pieces.give(piece));
                place.ranges = place.ranges.saturating_sub(ranges);
                let window_bytes = place.window_bytes();
                self.make_room(ranges);
                self.advance(connection);
                Event::Sent {
                    connection,
                    bytes,
                    window_bytes,
                }
            }
            Condition::Dead { cookie, reason, .. } => {
                let connection = Connection(cookie);
                let pieces = &mut self.pieces;
                let ended = self
                    .connections
                    .remove(connection, |piece| pieces.give(piece))?;
                self.lending.ended(&ended);
                self.make_room(ended.ranges);
                Event::Dead { connection, reason }
            }
            Condition::UdpRecv {
                cookie,
                local,
                frame,
                offset,
                len,
                remote,
            } => {
                let done = (core, Call::UdpRecvDone { frame });
                let data = ReceivedData::new(&self.inbox, done, offset, len);
                return self.datagram(core, BoundAddress(cookie), data, (remote, local));
            }
            Condition::UdpSent { token, .. } => {
                self.datagram_sent(token);
                return None;
            }
            Condition::Timer { cookie: LOOK_TIMER } => {
                self.look_is_due();
                return None;
            }
            Condition::Timer { cookie } => Event::Timer(cookie),
            Condition::Left { .. } | Condition::Arrived { .. } | Condition::Settled { .. } => {
                self.moved(core, condition);
                return None;
            }
        })
    }
}
