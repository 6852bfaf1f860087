//! Sending side: our sequence space (RFC 9293, 3.3.1), the peer's window, the data, and when a
//! segment is worth sending (RFC 9293, 3.8.6.2.1).

use super::congestion::Window;
use super::queue::SendQueue;
use super::rto::Rto;
use super::segment::Incoming;
use super::seq;
use super::terms::Terms;
use crate::api::{TcpConfig, Time};
use crate::wire::tcp::Segment;

/// Data that the stack queues beyond the peer's window. When a full receiver opens its window, this
/// data is sent at once, without asking the application.
const AHEAD_BYTES: u32 = 16 << 10;

/// State of our FIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fin {
    /// The application may send more data.
    Open,
    /// The FIN follows the queued data.
    Queued,
    Acked,
}

/// Sending side of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    /// Initial sequence number (ISS).
    iss: u32,
    /// SND.UNA.
    una: u32,
    /// SND.NXT: the next number to send. It is below [`Self::max`] during retransmission.
    next: u32,
    /// End of all sent data.
    max: u32,
    /// The peer's window in bytes, and the segment that announced it (SND.WND, SND.WL1, SND.WL2).
    peer_window: u32,
    told_seq: u32,
    told_ack: u32,
    /// Largest window that the peer has offered, in bytes.
    max_peer_window: u32,
    fin: Fin,
    /// Whether Nagle's algorithm delays small segments (RFC 9293, 3.7.4).
    nagle: bool,
    /// End of the last segment of new data that was not full.
    small_end: u32,
    /// End of urgent data (SND.UP) that is not acknowledged.
    urgent_end: Option<u32>,
    last_sent: Time,
    pub(super) queue: SendQueue,
    pub(super) window: Window,
    pub(super) rto: Rto,
}

impl Sender {
    /// The state before the first segment, with `mss` bytes of payload in each segment.
    pub fn new(config: &TcpConfig, mss: u32, now: Time) -> Self {
        Self {
            iss: 0,
            una: 0,
            next: 0,
            max: 0,
            peer_window: 0,
            told_seq: 0,
            told_ack: 0,
            max_peer_window: 0,
            fin: Fin::Open,
            nagle: config.nagle,
            small_end: 0,
            urgent_end: None,
            last_sent: now,
            queue: SendQueue::default(),
            window: Window::new(config, mss),
            rto: Rto::new(config),
        }
    }

    /// Restarts the congestion window with the segment size of the handshake.
    pub fn set_mss(&mut self, mss: u32, config: &TcpConfig) {
        self.window = Window::new(config, mss);
        self.window.start(self.una);
    }
}

/// Accessors for reports.
impl Sender {
    /// Congestion window.
    pub const fn window(&self) -> &Window {
        &self.window
    }

    /// Round-trip estimate.
    pub const fn rto(&self) -> &Rto {
        &self.rto
    }

    /// Bytes of queued data, sent or not, that are not acknowledged.
    pub const fn queued_bytes(&self) -> u32 {
        self.queue.bytes()
    }
}

/// Sequence numbers.
impl Sender {
    /// Sets the initial sequence number.
    pub fn start(&mut self, iss: u32) {
        (self.iss, self.una, self.next, self.max) = (iss, iss, iss, iss);
        self.small_end = iss;
        self.window.start(iss);
    }

    /// Initial sequence number (ISS).
    pub const fn iss(&self) -> u32 {
        self.iss
    }

    /// First unacknowledged number (SND.UNA).
    pub const fn una(&self) -> u32 {
        self.una
    }

    /// Next number to send (SND.NXT). It is below [`Self::max`] during retransmission.
    pub const fn next(&self) -> u32 {
        self.next
    }

    /// End of all sent data.
    pub const fn max(&self) -> u32 {
        self.max
    }

    /// Sent and unacknowledged bytes; SYN and FIN count as a byte each.
    pub const fn flight(&self) -> u32 {
        self.max.wrapping_sub(self.una)
    }

    /// Whether sent data is unacknowledged.
    pub const fn is_waiting(&self) -> bool {
        self.una != self.max
    }

    /// Whether the SYN or its retransmission is due.
    pub const fn is_syn_due(&self) -> bool {
        self.next == self.iss
    }

    /// Schedules a retransmission of the SYN.
    pub fn repeat_syn(&mut self) {
        self.next = self.iss;
    }

    /// Whether our SYN was never sent.
    pub const fn is_syn_first(&self) -> bool {
        self.max == self.iss
    }

    /// Records that the SYN is sent, with `bytes` of data.
    pub fn syn_sent(&mut self, bytes: u32) {
        self.sent_to(self.iss.wrapping_add(1).wrapping_add(bytes));
    }

    /// Starts the stream behind our SYN, which is not acknowledged yet (RFC 7413).
    pub fn open_early(&mut self) {
        self.una = self.iss.wrapping_add(1);
        (self.next, self.max) = (self.una, self.una);
    }

    /// Records that our SYN was acknowledged.
    pub fn syn_acked(&mut self) {
        self.una = self.iss.wrapping_add(1);
        self.next = self.una;
    }

    /// Records that everything up to `end` was sent, and continues there.
    pub fn sent_to(&mut self, end: u32) {
        self.next = end;
        self.max = seq::max(self.max, end);
    }

    /// Records that everything up to `ack` was acknowledged.
    pub fn advance(&mut self, ack: u32) {
        self.una = ack;
        self.next = seq::max(self.next, ack);
        self.urgent_end = self.urgent_end.filter(|end| seq::lt(ack, *end));
    }

    /// Restarts sending at SND.UNA.
    pub fn rewind(&mut self) {
        self.next = self.una;
    }

    /// Continues sending at `end` because the peer has everything below it.
    pub fn skip_to(&mut self, end: u32) {
        self.next = end;
    }

    /// Sequence number after the last byte that the application queued; valid after the handshake.
    pub fn end(&self) -> u32 {
        self.una
            .wrapping_sub(u32::from(self.fin == Fin::Acked))
            .wrapping_add(self.queue.bytes())
    }

    /// Records that a segment which is not full ends the new data at `end`.
    pub fn small_sent(&mut self, end: u32) {
        self.small_end = end;
    }

    /// Records that a segment is sent.
    pub fn segment_sent(&mut self, now: Time) {
        self.last_sent = now;
    }
}

/// Urgent data (RFC 9293, 3.8.5).
impl Sender {
    /// Marks all queued data as urgent.
    pub fn mark_urgent(&mut self) {
        self.urgent_end = Some(self.end());
    }

    /// Whether urgent data is unacknowledged.
    pub const fn has_urgent(&self) -> bool {
        self.urgent_end.is_some()
    }

    /// Urgent pointer of a segment that begins at `start`, if it has one: the offset of the byte
    /// behind the urgent data (RFC 6093, 3.1), limited to 16 bits.
    pub fn urgent_pointer(&self, start: u32) -> Option<u16> {
        let end = self.urgent_end.filter(|end| seq::lt(start, *end))?;
        Some(end.wrapping_sub(start).min(0xffff) as u16)
    }
}

/// Our FIN.
impl Sender {
    /// Queues the FIN behind the data. Returns `false` if it was already queued.
    pub fn queue_fin(&mut self) -> bool {
        let is_first = self.fin == Fin::Open;
        if is_first {
            self.fin = Fin::Queued;
        }
        is_first
    }

    /// Records that our FIN was acknowledged.
    pub fn fin_acked(&mut self) {
        self.fin = Fin::Acked;
    }

    /// Whether the application sends no more data.
    pub fn is_closed(&self) -> bool {
        self.fin != Fin::Open
    }

    /// Whether the FIN is queued and not acknowledged.
    pub fn has_fin(&self) -> bool {
        self.fin == Fin::Queued
    }

    /// Whether the FIN is acknowledged.
    pub fn is_fin_acked(&self) -> bool {
        self.fin == Fin::Acked
    }

    /// Bytes that the application is invited to send. The amount exceeds the peer's window only a
    /// little, so that a peer which never reads occupies little of the memory that all connections
    /// share. If it is 0, data is unacknowledged, and its acknowledgement reports the next amount.
    pub fn writable_bytes(&self, config: &TcpConfig) -> u32 {
        let useful = self.peer_window.saturating_add(AHEAD_BYTES);
        let room = useful.saturating_sub(self.queue.bytes());
        room.min(self.room(config))
    }

    /// Bytes that the send queue accepts.
    pub fn room(&self, config: &TcpConfig) -> u32 {
        if self.is_closed() {
            0
        } else {
            config.send_window_bytes.saturating_sub(self.queue.bytes())
        }
    }
}

/// Window of the peer.
impl Sender {
    /// Peer's window in bytes.
    pub const fn peer_window(&self) -> u32 {
        self.peer_window
    }

    /// Oldest acceptable acknowledgement (RFC 5961, 5.2).
    pub const fn oldest_ack(&self) -> u32 {
        self.una.wrapping_sub(self.max_peer_window)
    }

    /// Right edge of the peer's window. A closed window counts as `least` bytes.
    pub fn edge(&self, least: u32) -> u32 {
        self.una.wrapping_add(self.peer_window.max(least))
    }

    /// Records a window of `bytes` that a segment with `seq` and `ack` announces.
    pub fn set_window(&mut self, seq: u32, ack: u32, bytes: u32) {
        self.peer_window = bytes;
        self.max_peer_window = self.max_peer_window.max(bytes);
        (self.told_seq, self.told_ack) = (seq, ack);
    }

    /// Records the window of a segment unless it is older than the last announcement (RFC 9293,
    /// 3.10.7.4).
    pub fn update_window(&mut self, segment: &Incoming, scale: u8) {
        let Segment {
            seq, ack, window, ..
        } = segment.header;
        if seq::lt(ack, self.una) {
            return;
        }
        let is_newer =
            seq::lt(self.told_seq, seq) || (self.told_seq == seq && seq::le(self.told_ack, ack));
        if is_newer {
            self.set_window(seq, ack, u32::from(window) << scale);
        }
    }

    /// Whether `len` bytes are worth a segment (silly window avoidance and Nagle's algorithm; RFC
    /// 9293, 3.8.6.2.1): they are a full segment of `mss` bytes, all queued data (`whole`), or half
    /// of the largest window. A small segment waits only while another small one is in flight
    /// (Minshall's variant, as in Linux), so the end of a large write does not wait for its
    /// beginning.
    pub fn is_worth_sending(&self, len: u32, mss: u32, whole: bool, fin: bool) -> bool {
        len >= mss
            || fin
            || (whole && !(self.nagle && seq::lt(self.una, self.small_end)))
            || len >= (self.max_peer_window / 2).max(1)
    }

    /// Turns Nagle's algorithm on or off (RFC 9293, 3.7.4).
    pub const fn set_nagle(&mut self, nagle: bool) {
        self.nagle = nagle;
    }

    /// Reduces the congestion window after an idle period (RFC 5681, 4.1).
    pub fn restart_after_idle(&mut self, terms: &Terms, now: Time, config: &TcpConfig) {
        if !self.is_waiting() && now.since(self.last_sent) > self.rto.timeout(config) {
            self.window.idle(terms.payload_mss());
        }
    }
}
