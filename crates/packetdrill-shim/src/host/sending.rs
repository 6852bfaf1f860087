//! The send buffer of a stream: what a socket accepts, and when the stack gets it.
//!
//! Linux decides by its packet buffers how much fits (`tcp_sendmsg`). It adds data in pieces of at
//! most half the peer's window, and begins a new piece as long as the buffer is not full. This
//! module applies the same rule to payload bytes, so that a partial write ends where scripts expect
//! it.

use super::connection::Connection;
use super::errors::Result;
use super::settings::Settings;
use super::{File, Host, Role};
use cofferdam_netstack::Time;
use nix::errno::Errno;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// A corked segment leaves after this time (tcp(7), TCP_CORK).
const CORK_LIMIT: Duration = Duration::from_millis(200);
/// Maximum payload that Linux stores in one piece: 64 KiB less headers.
const MOST_PIECE_BYTES: u32 = 65_536 - 1 - 320;
/// Overhead of a piece besides its payload (`struct sk_buff` and its head).
const PIECE_OVERHEAD_BYTES: u32 = 1280;
/// Initial and maximum send buffer, unless a sysctl says otherwise.
const SEND_BUFFER_BYTES: (u32, u32) = (256 << 10, 4 << 20);

/// Flags of `recv` and `send`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Never block.
    pub dont_wait: bool,
    /// Peek.
    pub peek: bool,
    /// Read from the error queue.
    pub errors: bool,
    /// Wait for the full requested length.
    pub all: bool,
    /// Report the full length of a datagram.
    pub truncate: bool,
    /// More data follows; wait as if corked.
    pub more: bool,
    /// The end of a record; later data goes into another segment.
    pub end_of_record: bool,
    /// Report when the memory is free again.
    pub zero_copy: bool,
    /// Connect, with the data in the SYN (RFC 7413).
    pub fast_open: bool,
    /// Urgent data: the last byte of a write, or the urgent byte itself.
    pub urgent: bool,
}

impl Flags {
    /// Parses `MSG_` flags.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for a flag that is not supported.
    pub fn from_bits(bits: i32) -> Result<Flags> {
        let mut flags = Flags::default();
        let mut rest = bits & !libc::MSG_NOSIGNAL;
        for (bit, flag) in [
            (libc::MSG_DONTWAIT, &mut flags.dont_wait),
            (libc::MSG_PEEK, &mut flags.peek),
            (libc::MSG_ERRQUEUE, &mut flags.errors),
            (libc::MSG_WAITALL, &mut flags.all),
            (libc::MSG_TRUNC, &mut flags.truncate),
            (libc::MSG_MORE, &mut flags.more),
            (libc::MSG_EOR, &mut flags.end_of_record),
            (libc::MSG_ZEROCOPY, &mut flags.zero_copy),
            (libc::MSG_FASTOPEN, &mut flags.fast_open),
            (libc::MSG_OOB, &mut flags.urgent),
        ] {
            *flag = rest & bit != 0;
            rest &= !bit;
        }
        if rest != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        Ok(flags)
    }

    /// Whether the call may block; reading the error queue never does.
    pub const fn waits(self) -> bool {
        !self.dont_wait && !self.errors
    }
}

/// Written data that the stack does not have yet.
#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: VecDeque<u8>,
    /// Number of bytes written, and the stream offsets of record ends.
    written: u64,
    record_ends: VecDeque<u64>,
    /// Stream offset of the end of urgent data that the stack does not have yet.
    urgent_end: Option<u64>,
    /// An incomplete last segment waits for more data, until `corked_until`.
    is_corked: bool,
    pub corked_until: Option<Time>,
    /// Largest window that the peer has offered, in bytes.
    most_window: u32,
    /// Payload of a piece in bytes, as of the last write.
    piece: u32,
    /// Only MSG_MORE delays the segment; the next acknowledgement releases it, as in Linux.
    waits_for_ack: bool,
    /// The buffer has filled up since it last had room. A waiting writer and an edge-triggered
    /// poller learn of room only once there is enough of it.
    pub was_full: bool,
    /// Nagle's algorithm applies to the last segment written.
    pub nagle: bool,
    /// Current size of the buffer in bytes.
    grown: u32,
    /// Stream offsets of pushed writes (PSH) and of piece ends.
    pushes: BTreeSet<u64>,
    piece_ends: BTreeSet<u64>,
    /// The last element of `pushes`.
    pushed: u64,
}

impl Outgoing {
    /// Records an acknowledgement from the peer.
    pub fn acknowledged(&mut self, end: u64) {
        self.pushes = self.pushes.split_off(&end);
        self.piece_ends = self.piece_ends.split_off(&end);
        if std::mem::take(&mut self.waits_for_ack) {
            self.is_corked = false;
            self.corked_until = None;
        }
    }

    /// Drops everything when the connection ends.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.record_ends.clear();
        self.corked_until = None;
    }

    /// Skips `bytes` that went with the SYN.
    pub fn skip(&mut self, bytes: u32) {
        self.written += u64::from(bytes);
        self.push();
    }

    /// Marks all data written so far as pushed.
    pub fn push(&mut self) {
        self.pushed = self.written;
        self.pushes.insert(self.written);
    }

    /// Whether a segment that ends there is pushed, and whether it ends a piece.
    pub fn marks(&self, end: u64) -> (bool, bool) {
        (self.pushes.contains(&end), self.piece_ends.contains(&end))
    }

    pub const fn written(&self) -> u64 {
        self.written
    }

    pub fn len(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// Maximum payload of a piece: half of the largest window seen, in whole segments.
    fn piece_bytes(&mut self, window: u32, segment: u32) -> u32 {
        self.most_window = self.most_window.max(window);
        let most = match self.most_window {
            window @ ..=536 => window,
            window => (window / 2).max(536),
        };
        let most = most.min(MOST_PIECE_BYTES);
        self.piece = (most - most % segment).max(segment);
        self.piece
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.written += bytes.len() as u64;
    }
}

/// Fill level of a send buffer.
#[derive(Clone, Copy, Debug)]
struct Fill {
    /// Bytes written and not acknowledged, and how many of them are not sent.
    queued: u32,
    not_sent: u32,
    buffer: u32,
    not_sent_low: u32,
}

impl Fill {
    const fn has_room(self) -> bool {
        self.queued < self.buffer && self.not_sent < self.not_sent_low
    }

    /// Whether a third of the buffer and half of the unsent limit are free.
    const fn is_worth_telling(self) -> bool {
        self.buffer.saturating_sub(self.queued) >= self.queued / 2
            && self.queued < self.buffer
            && (self.not_sent as u64) * 2 < self.not_sent_low as u64
    }
}

impl Host {
    fn fill(&self, bits: u64, settings: &Settings) -> Fill {
        let conn = self.connections.get(&bits);
        let pending = conn.map_or(0, |conn| conn.out.len());
        let info = conn.and_then(|conn| self.stack.connection(conn.id));
        let queue = info.map_or(0, |info| info.send_queue_bytes);
        let flight = info.map_or(0, |info| info.flight_bytes);
        let (usual, most) = (self.sysctls.as_ref())
            .and_then(|sysctls| sysctls.send_buffer_bytes())
            .unwrap_or(SEND_BUFFER_BYTES);
        let grown = conn.map_or(0, |conn| conn.out.grown).min(most);
        let pieces = conn.map_or(0, |conn| {
            // Before the first write, the data sent with the SYN counts as a piece.
            match conn.out.piece {
                0 => 1,
                piece => (queue + pending).div_ceil(piece),
            }
        });
        let low = (settings.not_sent_low_bytes)
            .or_else(|| self.sysctls.as_ref()?.not_sent_low_bytes())
            .unwrap_or(u32::MAX);
        Fill {
            queued: queue + pending + pieces * PIECE_OVERHEAD_BYTES,
            not_sent: queue.saturating_sub(flight) + pending,
            buffer: (settings.send_buffer_bytes).unwrap_or_else(|| usual.max(grown)),
            not_sent_low: low,
        }
    }

    /// Whether `poll` reports the socket as writable.
    pub(super) fn is_writable(&self, bits: u64, settings: &Settings) -> bool {
        self.fill(bits, settings).is_worth_telling()
    }

    /// Accepts the data that the send buffer has room for. Returns its length.
    ///
    /// # Errors
    /// `EAGAIN` if it accepts nothing now; `EPIPE` if it never will; otherwise as `send(2)`.
    pub fn write(&mut self, file: i32, bytes: &[u8], flags: Flags) -> Result<usize> {
        let socket = self.socket_of(file)?;
        let settings = socket.settings.clone();
        let socket_is_nonblocking = socket.nonblocking;
        if let Some(to) = socket.deferred {
            let taken = self.open_with_data(file, to, bytes)?;
            return match taken {
                0 => Err(Errno::EINPROGRESS),
                taken => Ok(taken),
            };
        }
        let bits = match socket.role {
            Role::Connection(bits) => bits,
            _ => return Err(Errno::EPIPE),
        };
        let conn = self.connections.get_mut(&bits).ok_or(Errno::EPIPE)?;
        if let Some(error) = conn.error.take() {
            return Err(error);
        }
        if conn.shut_write || conn.ended.is_some() {
            return Err(Errno::EPIPE);
        }
        if !conn.is_open {
            return Err(Errno::EAGAIN);
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        let is_corked = flags.more || (settings.tcp.cork && !settings.tcp.no_delay);
        let waits = flags.waits() && !socket_is_nonblocking;
        if waits && conn.out.was_full && !self.is_writable(bits, &settings) {
            return Err(Errno::EAGAIN);
        }
        let mut taken = 0;
        while taken < bytes.len() {
            let room = self.room(bits, &settings);
            if room == 0 {
                break;
            }
            let now = (bytes.len() - taken).min(room as usize);
            let is_last = taken + now == bytes.len();
            let Some(conn) = self.connections.get_mut(&bits) else {
                break;
            };
            conn.out.add(&bytes[taken..taken + now]);
            taken += now;
            if is_last && flags.urgent {
                conn.out.urgent_end = Some(conn.out.written);
            }
            if is_last && flags.end_of_record {
                conn.out.record_ends.push_back(conn.out.written);
            }
            // Whole segments leave at once; the rest waits until everything is written.
            conn.out.is_corked = is_corked || !is_last;
            if now == room as usize {
                let end = conn.out.written;
                conn.out.piece_ends.insert(end);
                // Half a window without a push forces one (`forced_push`).
                if end > conn.out.pushed + u64::from(conn.out.most_window / 2) {
                    conn.out.push();
                }
            }
            if is_last && !flags.more {
                conn.out.push();
            }
            self.turn();
        }
        let Some(conn) = self.connections.get_mut(&bits) else {
            return Err(Errno::EPIPE);
        };
        conn.out.is_corked = is_corked && taken == bytes.len();
        conn.out.was_full |= taken < bytes.len();
        if taken == 0 {
            return Err(Errno::EAGAIN);
        }
        if !flags.more {
            conn.out.push();
        }
        conn.out.waits_for_ack = flags.more && settings.tcp.no_delay;
        let (id, end) = (conn.id, conn.out.written);
        let zero_copy = flags.zero_copy && settings.zero_copy;
        (conn.notices).written(end, zero_copy, settings.timestamping);
        self.turn();
        // Data that was sent already is stamped with the present time.
        let not_sent = self.stack.connection(id).map_or(0, |info| {
            info.send_queue_bytes.saturating_sub(info.flight_bytes)
        });
        let now = self.now;
        self.update(bits, |conn| {
            let pending = u64::from(not_sent) + u64::from(conn.out.len());
            conn.notices.sent(end.saturating_sub(pending), now);
        });
        Ok(taken)
    }

    /// Grows buffers after a turn, and wakes writers that wait for room.
    pub(super) fn make_room(&mut self) {
        let sockets = self.files.values().filter_map(|file| match file {
            File::Socket(socket) => match socket.role {
                Role::Connection(bits) => Some((bits, socket.settings.clone())),
                _ => None,
            },
            File::Epoll(_) => None,
        });
        for (bits, settings) in sockets.collect::<Vec<_>>() {
            let Some(conn) = self
                .connections
                .get_mut(&bits)
                .filter(|conn| conn.out.was_full)
            else {
                continue;
            };
            if let Some(info) = self.stack.connection(conn.id)
                && info.flight_bytes + info.mss_bytes <= info.cwnd_bytes
            {
                // tcp_sndbuf_expand: twice the window, with the overhead of a buffer each, unless
                // the window is used up.
                let buffer = (info.mss_bytes + 640).next_power_of_two() + 256;
                let segments = (info.cwnd_bytes / info.mss_bytes.max(1)).max(10);
                let grown = buffer.saturating_mul(segments).saturating_mul(2);
                conn.out.grown = conn.out.grown.max(grown);
            }
            if self.is_writable(bits, &settings) {
                self.update(bits, |conn| {
                    conn.out.was_full = false;
                    conn.news += 1;
                });
            }
        }
    }

    /// Number of bytes that may be added now.
    fn room(&mut self, bits: u64, settings: &Settings) -> u32 {
        let fill = self.fill(bits, settings);
        let Some(conn) = self.connections.get_mut(&bits) else {
            return 0;
        };
        let Some(info) = self.stack.connection(conn.id) else {
            return 0;
        };
        let piece = conn
            .out
            .piece_bytes(info.peer_window_bytes, info.mss_bytes.max(1));
        // The last piece, if it is not sent and no record ends there.
        let begun = fill.not_sent % piece;
        let at_record_end = conn.out.record_ends.back() == Some(&conn.out.written);
        if begun > 0 && !at_record_end {
            // More data joins the piece, so it does not end here.
            let end = conn.out.written;
            conn.out.piece_ends.remove(&end);
            return piece - begun;
        }
        if fill.has_room() { piece } else { 0 }
    }

    /// Feeds the stack from every connection. Returns whether there was any data.
    pub(super) fn feed_all(&mut self) -> bool {
        let waiting: Vec<u64> = (self.connections.iter())
            .filter(|(_, conn)| conn.out.len() > 0)
            .map(|(bits, _)| *bits)
            .collect();
        let mut any = false;
        for bits in waiting {
            any |= self.feed(bits, false);
        }
        any
    }

    /// Feeds the stack with the data that is ready to leave; `all` includes an incomplete segment.
    pub(super) fn feed(&mut self, bits: u64, all: bool) -> bool {
        let now = self.now;
        let Some(conn) = self.connections.get_mut(&bits) else {
            return false;
        };
        let Some(info) = self.stack.connection(conn.id) else {
            return false;
        };
        if !conn.is_open {
            return false;
        }
        let out = &mut conn.out;
        let passed_to_stack = out.written - out.bytes.len() as u64;
        let not_sent = info.send_queue_bytes.saturating_sub(info.flight_bytes);
        let mut len = out.len();
        // One record at a time: the next follows when this one has been sent.
        out.record_ends
            .retain(|end| *end > passed_to_stack || not_sent > 0);
        if let Some(end) = out.record_ends.front() {
            if *end <= passed_to_stack {
                return false;
            }
            len = len.min((end - passed_to_stack) as u32);
        }
        let ends_record = len < out.len() || out.record_ends.front().is_some();
        if out.is_corked && !all && !ends_record {
            let segment = info.mss_bytes.max(1);
            let whole = (not_sent + len) / segment * segment;
            len = whole.saturating_sub(not_sent).min(len);
            if len < out.len() {
                out.corked_until = out.corked_until.or(Some(now + CORK_LIMIT));
            }
        }
        if len == 0 {
            return false;
        }
        // Urgent data ends with the data that the stack gets now.
        let urgent_end = out.urgent_end.filter(|end| *end > passed_to_stack);
        if let Some(end) = urgent_end {
            len = len.min((end - passed_to_stack) as u32);
        }
        let is_urgent = urgent_end == Some(passed_to_stack + u64::from(len));
        // Only the last record waits for more data.
        let nagle = out.nagle && len == out.len();
        let bytes: Vec<u8> = out.bytes.iter().copied().take(len as usize).collect();
        let chunk = self.buffers.data(&bytes);
        let _ = self.stack.set_nagle(conn.id, nagle);
        let taken = if is_urgent {
            self.stack.send_urgent(now, conn.id, &[chunk])
        } else {
            self.stack.sendv(now, conn.id, &[chunk])
        };
        let taken = taken.unwrap_or(0);
        if taken == 0 {
            self.buffers.free(chunk.buffer);
            return false;
        }
        conn.sent(chunk.buffer, taken);
        let out = &mut conn.out;
        out.bytes.drain(..taken as usize);
        if out.bytes.is_empty() {
            out.corked_until = None;
        }
        true
    }

    /// Sends an incomplete segment, because the socket is closed.
    pub(super) fn flush_all(&mut self, bits: u64) {
        if let Some(conn) = self.connections.get_mut(&bits) {
            conn.out.is_corked = false;
            conn.out.corked_until = None;
            conn.out.push();
        }
        self.turn();
        while self.feed(bits, true) {
            self.turn();
        }
    }

    /// Applies a change of TCP_CORK or TCP_NODELAY.
    pub(super) fn flush_corked(&mut self, bits: u64, is_corked: bool) {
        if let Some(conn) = self.connections.get_mut(&bits)
            && conn.out.is_corked
            && !is_corked
        {
            conn.out.is_corked = false;
            conn.out.corked_until = None;
        }
    }

    /// Sends segments that were corked for too long.
    pub(super) fn uncork_due(&mut self) {
        let now = self.now;
        let due: Vec<u64> = (self.connections.iter())
            .filter(|(_, conn)| conn.out.corked_until.is_some_and(|until| until <= now))
            .map(|(bits, _)| *bits)
            .collect();
        for bits in due {
            if let Some(conn) = self.connections.get_mut(&bits) {
                conn.out.corked_until = None;
                conn.out.is_corked = false;
                conn.out.push();
            }
            self.feed(bits, true);
        }
    }

    /// Whether fewer than `most` bytes are readable and more may arrive.
    pub fn is_short_of(&mut self, file: i32, most: usize) -> bool {
        self.connection_of(file).is_ok_and(|conn: &mut Connection| {
            (conn.unread_bytes() as usize) < most
                && !conn.peer_has_closed
                && !conn.shut_read
                && conn.ended.is_none()
        })
    }

    /// Reads data for a pipe.
    ///
    /// # Errors
    /// The errors of [`Host::read`].
    pub fn splice_read(&mut self, file: i32, most: usize) -> Result<Vec<u8>> {
        if !matches!(self.files.get(&file), Some(File::Socket(_))) {
            return Err(Errno::EINVAL);
        }
        // A pipe gets no urgent data (tcp_read_sock).
        let stops = |conn: &mut Connection| conn.is_at_mark() && conn.unread_bytes() > 0;
        if self.connection_of(file).is_ok_and(stops) {
            return Ok(Vec::new());
        }
        self.read(file, most, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_flags_are_rejected() {
        assert_eq!(Flags::from_bits(0), Ok(Flags::default()));
        assert!(Flags::from_bits(libc::MSG_EOR).is_ok_and(|flags| flags.end_of_record));
        assert!(Flags::from_bits(libc::MSG_DONTWAIT).is_ok_and(|flags| !flags.waits()));
        assert!(Flags::from_bits(libc::MSG_ERRQUEUE).is_ok_and(|flags| !flags.waits()));
        for refused in [libc::MSG_CONFIRM, 1 << 30] {
            assert_eq!(Flags::from_bits(refused), Err(Errno::EOPNOTSUPP));
        }
    }

    #[test]
    fn a_piece_is_half_a_window_in_whole_segments() {
        let mut out = Outgoing::default();
        assert_eq!(out.piece_bytes(32_792, 1000), 16_000);
        assert_eq!(
            out.piece_bytes(100, 1000),
            16_000,
            "the largest window counts"
        );
        let mut small = Outgoing::default();
        assert_eq!(small.piece_bytes(500, 1000), 1000, "a segment at least");
        assert_eq!(small.piece_bytes(1 << 24, 1000), 65_000);
    }

    #[test]
    fn a_poller_learns_of_room_once_a_third_is_free() {
        let fill = |queued, not_sent| Fill {
            queued,
            not_sent,
            buffer: 90_000,
            not_sent_low: 10_000,
        };
        assert!(fill(89_999, 0).has_room() && !fill(89_999, 0).is_worth_telling());
        assert!(!fill(90_000, 0).has_room());
        assert!(fill(60_000, 0).is_worth_telling() && !fill(61_000, 0).is_worth_telling());
        assert!(fill(0, 4_999).is_worth_telling() && !fill(0, 5_000).is_worth_telling());
        assert!(!fill(0, 10_000).has_room());
    }
}
