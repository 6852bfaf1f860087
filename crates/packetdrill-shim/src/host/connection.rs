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

/// Urgent data from the peer. Linux treats only its last byte as urgent.
#[derive(Debug, Clone, Copy, Default)]
struct Urgent {
    /// Stream offset of the urgent byte.
    at: Option<u64>,
    /// MSG_OOB has already read the byte.
    is_taken: bool,
}

/// A connection, from `connect` or from the SYN that opened it.
#[derive(Debug)]
pub struct Connection {
    pub id: ConnectionId,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// The handshake is complete.
    pub is_open: bool,
    /// Accepted in the stack before the application calls `accept`.
    pub is_ours: bool,
    /// A `connect` call has reported success; the next one returns `EISCONN`.
    pub connect_is_over: bool,
    /// No socket refers to the connection any more.
    pub is_orphan: bool,
    pub peer_has_closed: bool,
    pub shut_read: bool,
    pub shut_write: bool,
    pub ended: Option<DeadReason>,
    /// Reported once, by the next call or by SO_ERROR.
    pub error: Option<Errno>,
    /// Number of bytes that the stack accepts now.
    pub window_bytes: u32,
    /// Number of changes that could wake a poller (for edge-triggered epoll).
    pub news: u64,
    /// Data that was written and has not reached the stack.
    pub out: Outgoing,
    pub meter: Meter,
    pub pace: Pace,
    /// Last state that the stack reported.
    pub last_info: Option<ConnectionInfo>,
    /// Highest stream offset sent, in bytes.
    pub sent_to: u64,
    /// Stream offset acknowledged by the peer.
    acked_to: u64,
    /// Socket error queue.
    pub notices: Notices,
    received: VecDeque<Chunk>,
    /// Stream offsets received and read, in bytes.
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

    /// Records that the stack has accepted `bytes` of a buffer.
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

    /// Records the end of the connection. The error is Linux's: tcp_reset() distinguishes a peer
    /// that had closed.
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

    /// Number of bytes that `read` returns now.
    pub fn unread_bytes(&self) -> u32 {
        self.received.iter().map(|chunk| chunk.len).sum()
    }

    /// Bytes sent and not acknowledged.
    pub fn unacknowledged_bytes(&self) -> u32 {
        self.unacknowledged.iter().map(|(_, left)| *left).sum()
    }

    /// Records urgent data that ends with the last of the `ahead` bytes that follow.
    pub fn urgent_announced(&mut self, ahead: u32) {
        if ahead > 0 {
            self.urgent = Urgent {
                at: Some(self.received_to + u64::from(ahead) - 1),
                is_taken: false,
            };
            self.news += 1;
        }
    }

    /// Number of bytes that may be read before the urgent byte; `None` if no urgent byte is ahead.
    fn bytes_before_urgent(&self) -> Option<u64> {
        self.urgent.at?.checked_sub(self.read_to)
    }

    /// Whether the next byte to read is the urgent byte.
    pub fn is_at_mark(&self) -> bool {
        self.bytes_before_urgent() == Some(0)
    }

    /// Whether the urgent byte has arrived and was not read with MSG_OOB.
    pub fn has_urgent(&self) -> bool {
        let is_here = (self.urgent.at).is_some_and(|at| at < self.received_to);
        is_here && !self.urgent.is_taken && self.bytes_before_urgent().is_some()
    }

    /// Reads the urgent byte ahead of the stream, or peeks at it.
    ///
    /// # Errors
    /// `EINVAL` if there is none or it was read already; `EAGAIN` if it has not arrived yet.
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

    /// Reads up to `most` bytes, or peeks at them. Returns also the byte count and the buffers that
    /// the stack may count as done. Reading stops before the urgent byte, which is skipped unless
    /// it is `inline`.
    ///
    /// # Errors
    /// `EAGAIN` if there are none yet; the error that ended the connection, once.
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
        let mut buffers_done = 0;
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
                buffers_done += 1;
            }
        }
        Ok((bytes, buffers_done))
    }
}
