//! A connection as its socket sees it.

use super::errors::Result;
use super::meter::Meter;
use super::notices::Notices;
use super::pace::Pace;
use super::sending::Outgoing;
use crate::buffers::Buffers;
use cofferdam_netstack::{BufferId, Chunk, ConnectionId, ConnectionInfo, DeadReason, Time};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// The peer's urgent data: Linux's sockets know of its last byte only.
#[derive(Debug, Clone, Copy, Default)]
struct Urgent {
    /// Where in the stream it lies.
    at: Option<u64>,
    /// It was read ahead of the stream.
    is_taken: bool,
}

/// A connection, from `connect` or from its knock on.
#[derive(Debug)]
pub struct Connection {
    pub id: ConnectionId,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Opened: the handshake is over.
    pub is_open: bool,
    /// Accepted in the stack before the application asks for it.
    pub is_ours: bool,
    /// A call of `connect` has said so: the next one says `EISCONN`.
    pub connect_is_over: bool,
    /// No socket names it any more.
    pub is_orphan: bool,
    pub peer_has_closed: bool,
    pub shut_read: bool,
    pub shut_write: bool,
    pub ended: Option<DeadReason>,
    /// Told once, by the next call or by SO_ERROR.
    pub error: Option<Errno>,
    /// Bytes that the stack takes now.
    pub window_bytes: u32,
    /// Everything that could make a poller look again, counted (for edge-triggered epoll).
    pub news: u64,
    /// What was written and the stack does not have yet.
    pub out: Outgoing,
    pub meter: Meter,
    pub pace: Pace,
    /// What the stack knew of it last.
    pub last_info: Option<ConnectionInfo>,
    /// How far the stream has ever left, in bytes.
    pub sent_to: u64,
    /// How far it is acknowledged.
    acked_to: u64,
    /// The socket's error queue.
    pub notices: Notices,
    received: VecDeque<Chunk>,
    /// How far the stream has come, and how far it is read, in bytes.
    received_to: u64,
    pub read_to: u64,
    urgent: Urgent,
    unacknowledged: VecDeque<(BufferId, u32)>,
}

impl Connection {
    pub fn new(id: ConnectionId, local: SocketAddr, remote: SocketAddr, now: Time) -> Connection {
        Connection {
            id,
            local,
            remote,
            is_open: false,
            is_ours: false,
            connect_is_over: false,
            is_orphan: false,
            peer_has_closed: false,
            shut_read: false,
            shut_write: false,
            ended: None,
            error: None,
            window_bytes: 0,
            news: 0,
            out: Outgoing::default(),
            meter: Meter::new(now),
            pace: Pace::default(),
            last_info: None,
            sent_to: 0,
            acked_to: 0,
            notices: Notices::default(),
            received: VecDeque::new(),
            received_to: 0,
            read_to: 0,
            urgent: Urgent::default(),
            unacknowledged: VecDeque::new(),
        }
    }

    pub fn opened(&mut self, window_bytes: u32) {
        (self.is_open, self.window_bytes) = (true, window_bytes);
        self.news += 1;
    }

    pub fn peer_closed(&mut self) {
        self.peer_has_closed = true;
        self.news += 1;
    }

    pub fn received(&mut self, chunk: Chunk) {
        self.received_to += u64::from(chunk.len);
        self.received.push_back(chunk);
        self.news += 1;
    }

    /// The stack has taken `bytes` of a buffer.
    pub fn sent(&mut self, buffer: BufferId, bytes: u32) {
        self.unacknowledged.push_back((buffer, bytes));
        self.window_bytes = self.window_bytes.saturating_sub(bytes);
    }

    pub fn acknowledged(
        &mut self,
        mut bytes: u32,
        window_bytes: u32,
        now: Time,
        buffers: &mut Buffers,
    ) {
        let had = self.notices.made();
        self.notices.acknowledged(bytes.into(), now);
        self.news += u64::from(self.notices.made() > had);
        self.acked_to += u64::from(bytes);
        self.out.acknowledged(self.acked_to);
        let handshake = self.last_info.and_then(|info| info.srtt);
        self.pace.acknowledged(self.acked_to, now, handshake);
        while let Some((buffer, left)) = self.unacknowledged.front_mut() {
            if *left > bytes {
                *left -= bytes;
                break;
            }
            bytes -= *left;
            buffers.free(*buffer);
            self.unacknowledged.pop_front();
        }
        self.window_bytes = window_bytes;
    }

    /// It has ended. The error is Linux's: tcp_reset() distinguishes a peer that had closed.
    pub fn ended(&mut self, reason: DeadReason, buffers: &mut Buffers) {
        for (buffer, _) in self.unacknowledged.drain(..) {
            buffers.free(buffer);
        }
        self.error = match reason {
            DeadReason::Closed => None,
            DeadReason::Reset if self.peer_has_closed => Some(Errno::EPIPE),
            DeadReason::Reset => Some(Errno::ECONNRESET),
            DeadReason::Refused => Some(Errno::ECONNREFUSED),
            DeadReason::TimedOut => Some(Errno::ETIMEDOUT),
            DeadReason::Unreachable => Some(Errno::EHOSTUNREACH),
            DeadReason::Aborted => Some(Errno::ECONNABORTED),
        };
        self.out.clear();
        self.ended = Some(reason);
        self.news += 1;
    }

    pub const fn is_over(&self) -> bool {
        self.is_orphan && self.ended.is_some()
    }

    pub fn drop_received(&mut self, buffers: &mut Buffers) {
        for chunk in self.received.drain(..) {
            buffers.free(chunk.buffer);
        }
    }

    /// Bytes that `read` gives now.
    pub fn unread_bytes(&self) -> u32 {
        self.received.iter().map(|chunk| chunk.len).sum()
    }

    /// Bytes sent and not acknowledged.
    pub fn unacknowledged_bytes(&self) -> u32 {
        self.unacknowledged.iter().map(|(_, left)| *left).sum()
    }

    /// The peer announces urgent data that ends with the last of `ahead` bytes that come now.
    pub fn urgent_announced(&mut self, ahead: u32) {
        if ahead > 0 {
            self.urgent = Urgent {
                at: Some(self.received_to + u64::from(ahead) - 1),
                is_taken: false,
            };
            self.news += 1;
        }
    }

    /// Bytes that may be read before the urgent byte; none when there is no such byte ahead.
    fn bytes_before_urgent(&self) -> Option<u64> {
        self.urgent.at?.checked_sub(self.read_to)
    }

    /// The next byte to be read is the urgent one.
    pub fn is_at_mark(&self) -> bool {
        self.bytes_before_urgent() == Some(0)
    }

    /// The urgent byte is here, and was not taken.
    pub fn has_urgent(&self) -> bool {
        let is_here = (self.urgent.at).is_some_and(|at| at < self.received_to);
        is_here && !self.urgent.is_taken && self.bytes_before_urgent().is_some()
    }

    /// Takes the urgent byte ahead of the stream, or only looks.
    ///
    /// # Errors
    /// `EINVAL` when there is none, or it was taken; `EAGAIN` when it has not come yet.
    pub fn take_urgent(&mut self, peek: bool, buffers: &Buffers) -> Result<u8> {
        let before = self.bytes_before_urgent().ok_or(Errno::EINVAL)?;
        if self.urgent.is_taken {
            return Err(Errno::EINVAL);
        }
        let mut before = before;
        for chunk in &self.received {
            if before < u64::from(chunk.len) {
                self.urgent.is_taken |= !peek;
                return Ok(buffers.read(*chunk)[before as usize]);
            }
            before -= u64::from(chunk.len);
        }
        Err(Errno::EAGAIN)
    }

    /// Takes up to `most` bytes, or only looks. With them the bytes and buffers that the stack may
    /// count as done. Reading stops before the urgent byte, which is left out unless it is `inline`.
    ///
    /// # Errors
    /// `EAGAIN` when there are none yet; what ended the connection, once.
    pub fn read(
        &mut self,
        most: usize,
        peek: bool,
        inline: bool,
        buffers: &mut Buffers,
    ) -> Result<(Vec<u8>, u32)> {
        let (skipped, most) = match self.bytes_before_urgent() {
            Some(0) if inline => (0, most),
            Some(0) => (1, most),
            Some(before) => (0, most.min(usize::try_from(before).unwrap_or(most))),
            None => (0, most),
        };
        let mut bytes = Vec::new();
        let mut done = 0;
        let mut skip = skipped;
        for chunk in &self.received {
            let chunk = &buffers.read(*chunk)[skip.min(chunk.len as usize)..];
            skip = 0;
            bytes.extend_from_slice(&chunk[..(most - bytes.len()).min(chunk.len())]);
            if bytes.len() == most {
                break;
            }
        }
        if bytes.is_empty() && most > 0 && !self.shut_read {
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if self.ended.is_none() && !self.peer_has_closed {
                return Err(Errno::EAGAIN);
            }
        }
        if peek {
            return Ok((bytes, 0));
        }
        let skipped = if self.received.is_empty() { 0 } else { skipped };
        let mut left = (bytes.len() + skipped) as u32;
        self.read_to += u64::from(left);
        while let Some(chunk) = self.received.front_mut().filter(|_| left > 0) {
            let part = left.min(chunk.len);
            (chunk.offset, chunk.len) = (chunk.offset + part, chunk.len - part);
            left -= part;
            if chunk.len == 0 {
                buffers.free(chunk.buffer);
                self.received.pop_front();
                done += 1;
            }
        }
        Ok((bytes, done))
    }
}
