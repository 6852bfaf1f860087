//! Connection: transfer between the session and the program's socket.

use super::Home;
use crate::internal::Internal;
use crate::table::{self, ConnectionState, Stage};
use crate::unix;
use cofferdam_dataplane::{Connection, ConnectionOptions, ReceivedData, Session};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Connection with its two sides.
pub struct Conn {
    /// Library's end of the pair.
    end: Internal,
    /// Inode of the program's end.
    inode: u64,
    /// State that calls of the program see.
    shown: Arc<ConnectionState>,
    /// Connection of the session; `None` after its end.
    connection: Option<Connection>,
    /// Filler bytes in the library's end (see [`unix::fill`]).
    filler_bytes: usize,
    /// Whether the library's end is full and is watched for space.
    pub is_full: bool,
    /// Whether the library's end may have data to read.
    readable: bool,
    /// Whether all copies of the program's end are closed.
    closed: bool,
    /// Whether the process ends, so that no more data will follow.
    exiting: bool,
    /// Whether the program's data has ended and the session knows that.
    is_sent: bool,
    /// Whether the session was asked to close or reset.
    is_ending: bool,
    /// Data that was read from the library's end and that the session has not accepted, from this
    /// offset on.
    pending: Vec<u8>,
    pending_at: usize,
    /// Received data that the library's end has not accepted; the offset is in the first.
    inbound: VecDeque<ReceivedData>,
    inbound_at: usize,
    /// Whether received data is buffered here for a thread that `epoll_wait` has informed.
    pub is_buffered: bool,
    /// Whether the library's end may contain data that the program has not read.
    is_delivered: bool,
    /// Whether the peer's data has ended, and whether the library's end was shut down for that.
    peer_closed: bool,
    is_told: bool,
    /// Reason of the end of the session's connection.
    ended: Option<Option<Errno>>,
}

/// Whether a connection still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Lives,
    Gone,
}

impl Conn {
    pub fn new(
        end: Internal,
        inode: u64,
        shown: Arc<ConnectionState>,
        connection: Connection,
        filler_bytes: usize,
    ) -> Conn {
        Conn {
            end,
            inode,
            shown,
            connection: Some(connection),
            filler_bytes,
            is_full: false,
            readable: true,
            closed: false,
            exiting: false,
            is_sent: false,
            is_ending: false,
            pending: Vec::new(),
            pending_at: 0,
            inbound: VecDeque::new(),
            inbound_at: 0,
            is_buffered: false,
            is_delivered: false,
            peer_closed: false,
            is_told: false,
            ended: None,
        }
    }

    pub fn connection(&self) -> Option<Connection> {
        self.connection
    }

    /// Records an event of the library's end.
    pub fn polled(&mut self, readable: bool, closed: bool) {
        self.readable |= readable;
        self.closed |= closed;
    }

    /// Records that the process ends.
    pub fn mark_exiting(&mut self) {
        (self.readable, self.closed, self.exiting) = (true, true, true);
    }

    /// Records that the connection is open at this local address, and makes the program's end
    /// writable. Returns the options that the program has set.
    pub fn opened(&mut self, local: SocketAddr) -> ConnectionOptions {
        self.shown.opened(local);
        let mut bytes = [0; 16 << 10];
        while self.filler_bytes > 0 {
            let most = self.filler_bytes.min(bytes.len());
            match unix::receive(&self.end, &mut bytes[..most]) {
                Ok(got) if got > 0 => self.filler_bytes -= got,
                _ => break,
            }
        }
        self.shown.options().of_connection()
    }

    pub fn received(&mut self, data: ReceivedData) {
        // Data that arrives after the program has closed is dropped.
        if !self.closed {
            self.inbound.push_back(data);
        }
    }

    pub fn peer_closed(&mut self) {
        self.peer_closed = true;
    }

    /// Records the end of the session's connection.
    pub fn handle_end(&mut self, error: Option<Errno>) {
        self.connection = None;
        self.ended = Some(error);
        // A reader must not see an orderly end before the error of a reset.
        self.peer_closed |= error.is_none();
    }

    /// Sends the program's data at once as far as the window allows, and nothing while older data
    /// is in the pair. Returns the number of bytes sent.
    pub fn send(&mut self, session: &mut Session, inode: u64, parts: &[IoSlice<'_>]) -> usize {
        let Some(connection) = self.connection.filter(|_| self.inode == inode) else {
            return 0;
        };
        let is_open = self.shown.stage() == Stage::Open && self.filler_bytes == 0;
        let is_over = self.closed || self.exiting || self.is_sent || self.is_ending;
        let is_queued = self.pending_at < self.pending.len();
        if !is_open || is_over || is_queued || unix::waiting(&self.end) != Ok(0) {
            return 0;
        }
        let mut sent = 0;
        for part in parts {
            let most = session.window_bytes(connection) as usize;
            let now = session.send(connection, &part[..part.len().min(most)]);
            sent += now;
            if now < part.len() {
                break;
            }
        }
        sent
    }

    pub fn end(&self) -> &Internal {
        &self.end
    }

    /// Moves data in both directions. Received data stays here if a thread waits for it at `home`.
    pub fn serve(
        &mut self,
        session: Option<&mut Session>,
        buffer: &mut [u8],
        home: Option<Home>,
    ) -> State {
        match home {
            Some(home) if self.may_buffer(home) => self.is_buffered = true,
            _ => self.deliver(),
        }
        if let (Some(session), Some(connection)) = (session, self.connection) {
            if self.closed && !self.is_ending {
                self.closes(session, connection);
            }
            if !self.is_sent && self.shown.stage() == Stage::Open {
                self.collect(session, connection, buffer);
            }
            if self.closed && self.is_sent && !self.is_ending {
                self.is_ending = true;
                session.close(connection);
            }
        }
        self.state()
    }

    /// Reacts to the program's close.
    fn closes(&mut self, session: &mut Session, connection: Connection) {
        let resets = self.shown.resets_at_close.load(Ordering::Relaxed);
        if !self.inbound.is_empty() || resets {
            // The peer must learn that the program has not read all data (RFC 2525, 2.17), as in
            // Linux.
            self.reset(session, connection);
        } else if self.shown.stage() == Stage::Connecting {
            // An attempt to connect cannot be cancelled; the connection ends as soon as it opens.
            (self.is_sent, self.is_ending) = (true, true);
            session.close(connection);
        }
    }

    fn reset(&mut self, session: &mut Session, connection: Connection) {
        self.inbound.clear();
        (self.is_sent, self.is_ending) = (true, true);
        session.abort(connection);
    }

    fn may_buffer(&mut self, home: Home) -> bool {
        let is_any = !self.inbound.is_empty() && !self.closed && self.ended.is_none();
        let is_there = match home {
            Home::Set(set) => self.shown.in_set(set).is_some(),
            Home::Read(name) => self.shown.name() == name,
        };
        if !is_any || !is_there {
            return false;
        }
        // Earlier data must not be in the pair any more.
        self.is_delivered = self.is_delivered && unix::unread(&self.end) != Ok(0);
        !self.is_delivered
    }

    /// State that calls of the program see.
    pub fn shown(&self) -> &ConnectionState {
        &self.shown
    }

    /// Copies buffered data to the program, and moves the rest to the pair. Returns `None` if no
    /// data is buffered.
    pub fn take(&mut self, inode: u64, parts: &mut [IoSliceMut<'_>]) -> Option<usize> {
        if !self.is_buffered || self.inode != inode {
            return None;
        }
        let mut taken = 0;
        for part in parts {
            let mut room: &mut [u8] = part;
            while let (Some(data), false) = (self.inbound.front(), room.is_empty()) {
                let left = &data[self.inbound_at..];
                let now = left.len().min(room.len());
                room[..now].copy_from_slice(&left[..now]);
                room = &mut room[now..];
                taken += now;
                self.inbound_at += now;
                if self.inbound_at >= data.len() {
                    self.inbound.pop_front();
                    self.inbound_at = 0;
                }
            }
        }
        // The program's buffer is empty.
        (taken > 0).then(|| {
            self.deliver();
            taken
        })
    }

    /// Sends received data to the program's end.
    pub fn deliver(&mut self) {
        (self.is_full, self.is_buffered) = (false, false);
        while let Some(data) = self.inbound.front() {
            match unix::send(self.end.as_fd(), &data[self.inbound_at..]) {
                Ok(sent) => {
                    self.inbound_at += sent;
                    self.is_delivered = true;
                }
                Err(Errno::EAGAIN) => {
                    self.is_full = true;
                    return;
                }
                Err(_) if self.closed => return,
                // The program has shut down its end for reading, so the data is dropped.
                Err(_) => self.inbound_at = data.len(),
            }
            if self.inbound_at >= data.len() {
                self.inbound.pop_front();
                self.inbound_at = 0;
            }
        }
        if self.peer_closed && !self.is_told {
            self.is_told = true;
            unix::shutdown(&self.end, libc::SHUT_WR);
        }
    }

    /// Sends the program's data to the session.
    fn collect(&mut self, session: &mut Session, connection: Connection, buffer: &mut [u8]) {
        loop {
            while self.pending_at < self.pending.len() {
                let taken = session.send(connection, &self.pending[self.pending_at..]);
                self.pending_at += taken;
                if taken == 0 {
                    // The next acknowledgement frees memory.
                    return;
                }
            }
            let window = session.window_bytes(connection) as usize;
            if !self.readable || window == 0 {
                return;
            }
            let most = window.min(buffer.len());
            match unix::receive(&self.end, &mut buffer[..most]) {
                Ok(0) => {
                    self.is_sent = true;
                    if !self.closed {
                        session.shutdown(connection);
                    }
                    return;
                }
                Ok(got) => {
                    let skipped = got.min(self.filler_bytes);
                    self.filler_bytes -= skipped;
                    let data = &buffer[skipped..got];
                    let taken = session.send(connection, data);
                    self.pending.clear();
                    self.pending.extend_from_slice(&data[taken..]);
                    self.pending_at = 0;
                }
                Err(Errno::EAGAIN) if !self.exiting => {
                    self.readable = false;
                    return;
                }
                Err(Errno::EAGAIN) => {
                    self.is_sent = true;
                    return;
                }
                // The program has closed its end with unread data.
                Err(_) => return self.reset(session, connection),
            }
        }
    }

    /// Whether there is anything left to do.
    fn state(&mut self) -> State {
        let Some(error) = self.ended else {
            return State::Lives;
        };
        if self.closed {
            table::remove(self.inode);
            return State::Gone;
        }
        if !self.inbound.is_empty() {
            return State::Lives;
        }
        match error {
            // The library's end stays until the program closes its own.
            None => {
                unix::shutdown(&self.end, libc::SHUT_RDWR);
                State::Lives
            }
            Some(error) => {
                self.shown.fail(error);
                unix::leave_unread(self.shown.fd(), self.inode);
                // The table keeps the connection until the program closes it.
                State::Gone
            }
        }
    }

    /// Whether an ending process need not wait for the connection any longer.
    pub fn is_finished(&self, session: &mut Session) -> bool {
        match self.connection {
            None => true,
            Some(connection) => self.is_ending && session.unsent_bytes(connection) == 0,
        }
    }
}
