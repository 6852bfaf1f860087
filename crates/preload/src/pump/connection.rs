//! One connection: what comes from the session goes to the program's socket, and back.

use super::Home;
use crate::internal::Internal;
use crate::table::{self, Connected, Stage};
use crate::unix;
use cofferdam_dataplane::{Connection, ConnectionOptions, Received, Session};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A connection's two sides.
pub struct Conn {
    /// Our end of the pair.
    end: Internal,
    /// Inode of the program's end.
    inode: u64,
    /// What calls of the program see.
    shown: Arc<Connected>,
    /// The session's side; none when that has ended.
    connection: Option<Connection>,
    /// Bytes in our end that only fill it (see [`unix::fill`]).
    filler_bytes: usize,
    /// Whether our end has no room, and is watched for it.
    pub is_full: bool,
    /// Whether our end may have something to read.
    readable: bool,
    /// The program has closed its end, all copies of it.
    closed: bool,
    /// The process ends: what is not there now will not come.
    exiting: bool,
    /// The program's data has ended, and the session knows.
    is_sent: bool,
    /// The session was asked to close or reset.
    is_ending: bool,
    /// Read from our end, and not taken by the session yet, from this byte on.
    pending: Vec<u8>,
    pending_at: usize,
    /// Received and not taken by our end yet, the first from this byte on.
    inbound: VecDeque<Received>,
    inbound_at: usize,
    /// What is received waits for a thread that was told of it and reads it here.
    pub is_held: bool,
    /// Something was put into our end that the program may not have read.
    is_delivered: bool,
    /// The peer's data has ended, and whether our end knows.
    peer_closed: bool,
    is_told: bool,
    /// Why the session's side has ended.
    ended: Option<Option<Errno>>,
}

/// Whether a connection is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Lives,
    Gone,
}

impl Conn {
    pub fn new(
        end: Internal,
        inode: u64,
        shown: Arc<Connected>,
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
            is_held: false,
            is_delivered: false,
            peer_closed: false,
            is_told: false,
            ended: None,
        }
    }

    pub fn connection(&self) -> Option<Connection> {
        self.connection
    }

    /// Our end has changed.
    pub fn polled(&mut self, readable: bool, closed: bool) {
        self.readable |= readable;
        self.closed |= closed;
    }

    /// The process ends.
    pub fn exits(&mut self) {
        (self.readable, self.closed, self.exiting) = (true, true, true);
    }

    /// It is open, at this address of ours: the program's end becomes writable. The settings that
    /// the program has given it.
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

    pub fn received(&mut self, data: Received) {
        // What comes after the program has closed is for nobody.
        if !self.closed {
            self.inbound.push_back(data);
        }
    }

    pub fn peer_closed(&mut self) {
        self.peer_closed = true;
    }

    /// The session's side has ended.
    pub fn ended(&mut self, error: Option<Errno>) {
        self.connection = None;
        self.ended = Some(error);
        // Behind a reset there is no orderly end: a reader must not see one first.
        self.peer_closed |= error.is_none();
    }

    /// Takes what the program writes at once, as far as the window goes; nothing while older data is
    /// on its way through the pair. Bytes taken.
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

    /// Moves what can be moved; but what is received is kept for the thread that waits at `home`, if that
    /// is where the program waits for it.
    pub fn serve(
        &mut self,
        session: Option<&mut Session>,
        buffer: &mut [u8],
        home: Option<Home>,
    ) -> State {
        match home {
            Some(home) if self.may_hold(home) => self.is_held = true,
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

    /// What has to be done at once when the program has closed.
    fn closes(&mut self, session: &mut Session, connection: Connection) {
        let resets = self.shown.resets_at_close.load(Ordering::Relaxed);
        if !self.inbound.is_empty() || resets {
            // The program has not read all: the peer must know (RFC 2525, 2.17), as Linux does.
            self.reset(session, connection);
        } else if self.shown.stage() == Stage::Connecting {
            // It cannot be called off; it ends as soon as it is open.
            (self.is_sent, self.is_ending) = (true, true);
            session.close(connection);
        }
    }

    fn reset(&mut self, session: &mut Session, connection: Connection) {
        self.inbound.clear();
        (self.is_sent, self.is_ending) = (true, true);
        session.abort(connection);
    }

    fn may_hold(&mut self, home: Home) -> bool {
        let is_any = !self.inbound.is_empty() && !self.closed && self.ended.is_none();
        let is_there = match home {
            Home::Set(set) => self.shown.in_set(set).is_some(),
            Home::Read(name) => self.shown.name() == name,
        };
        if !is_any || !is_there {
            return false;
        }
        // Nothing that came before may still be in the pair.
        self.is_delivered = self.is_delivered && unix::unread(&self.end) != Ok(0);
        !self.is_delivered
    }

    /// What calls of the program see.
    pub fn shown(&self) -> &Connected {
        &self.shown
    }

    /// Gives the program what is held for it, and what of it finds no place to its end of the pair;
    /// none: nothing is held.
    pub fn take(&mut self, inode: u64, parts: &mut [IoSliceMut<'_>]) -> Option<usize> {
        if !self.is_held || self.inode != inode {
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
        // No room: the program asks for nothing.
        (taken > 0).then(|| {
            self.deliver();
            taken
        })
    }

    /// To the program.
    pub fn deliver(&mut self) {
        (self.is_full, self.is_held) = (false, false);
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
                // The program has shut its end for reading: nobody wants the data.
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

    /// From the program.
    fn collect(&mut self, session: &mut Session, connection: Connection, buffer: &mut [u8]) {
        loop {
            while self.pending_at < self.pending.len() {
                let taken = session.send(connection, &self.pending[self.pending_at..]);
                self.pending_at += taken;
                if taken == 0 {
                    // Memory comes back with the next acknowledgement.
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
                // The program has closed and left data unread.
                Err(_) => return self.reset(session, connection),
            }
        }
    }

    /// Whether anything is left to do.
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
            // Our end stays until the program closes its own: then it is forgotten.
            None => {
                unix::shutdown(&self.end, libc::SHUT_RDWR);
                State::Lives
            }
            Some(error) => {
                self.shown.fail(error);
                unix::leave_unread(self.shown.fd(), self.inode);
                // The table keeps it until the program closes it.
                State::Gone
            }
        }
    }

    /// Whether an ending process need not wait for it any longer.
    pub fn is_finished(&self, session: &mut Session) -> bool {
        match self.connection {
            None => true,
            Some(connection) => self.is_ending && session.unsent_bytes(connection) == 0,
        }
    }
}
