//! The sending side: our sequence space (RFC 9293, 3.3.1), the peer's window, the data, and when
//! there is enough of it for a segment (RFC 9293, 3.8.6.2.1).

use super::congestion::Window;
use super::queue::SendQueue;
use super::rto::Rto;
use super::segment::Incoming;
use super::seq;
use super::terms::Terms;
use crate::api::{TcpConfig, Time};
use crate::wire::tcp::Segment;

/// How far beyond the peer's window the application's data may wait here: what a full receiver's reader
/// makes room for at once is sent without asking the application.
const AHEAD_BYTES: u32 = 16 << 10;

/// Our FIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fin {
    /// The application may send more.
    Open,
    /// It follows the data.
    Queued,
    Acked,
}

/// The sending side.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    /// Initial sequence number (ISS).
    iss: u32,
    /// SND.UNA.
    una: u32,
    /// SND.NXT: what is sent next; behind [`Self::max`] while data is sent again.
    next: u32,
    /// End of what was ever sent.
    max: u32,
    /// The peer's window in bytes, and the segment that announced it (SND.WND, SND.WL1, SND.WL2).
    peer_window: u32,
    told_seq: u32,
    told_ack: u32,
    /// Largest window the peer offered, in bytes.
    max_peer_window: u32,
    fin: Fin,
    /// Hold small segments back (RFC 9293, 3.7.4).
    nagle: bool,
    /// End of the last segment of new data that was sent and was not full.
    small_end: u32,
    /// End of urgent data (SND.UP) that is not acknowledged.
    urgent_end: Option<u32>,
    last_sent: Time,
    pub(super) queue: SendQueue,
    pub(super) window: Window,
    pub(super) rto: Rto,
}

impl Sender {
    /// Before the first segment; those will have `mss` bytes of payload.
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

    /// The handshake has fixed the segment size: the window begins anew with it.
    pub fn set_mss(&mut self, mss: u32, config: &TcpConfig) {
        self.window = Window::new(config, mss);
        self.window.start(self.una);
    }
}

/// What is seen from outside.
impl Sender {
    /// The congestion window.
    pub const fn window(&self) -> &Window {
        &self.window
    }

    /// The round-trip estimate.
    pub const fn rto(&self) -> &Rto {
        &self.rto
    }

    /// Data that is sent or waits, and is not acknowledged, in bytes.
    pub const fn queued_bytes(&self) -> u32 {
        self.queue.bytes()
    }
}

/// Sequence numbers.
impl Sender {
    /// Starts sending at `iss`.
    pub fn start(&mut self, iss: u32) {
        (self.iss, self.una, self.next, self.max) = (iss, iss, iss, iss);
        self.small_end = iss;
        self.window.start(iss);
    }

    /// Our initial sequence number.
    pub const fn iss(&self) -> u32 {
        self.iss
    }

    /// Where what is not acknowledged begins (SND.UNA).
    pub const fn una(&self) -> u32 {
        self.una
    }

    /// What is sent next (SND.NXT); behind [`Self::max`] while data is sent again.
    pub const fn next(&self) -> u32 {
        self.next
    }

    /// End of what was ever sent.
    pub const fn max(&self) -> u32 {
        self.max
    }

    /// Sent and not acknowledged, in bytes; SYN and FIN count as a byte each.
    pub const fn flight(&self) -> u32 {
        self.max.wrapping_sub(self.una)
    }

    /// Something was sent and is not acknowledged.
    pub const fn is_waiting(&self) -> bool {
        self.una != self.max
    }

    /// The SYN is to be sent, for the first time or again.
    pub const fn is_syn_due(&self) -> bool {
        self.next == self.iss
    }

    /// The SYN is to be sent again.
    pub fn repeat_syn(&mut self) {
        self.next = self.iss;
    }

    /// Our SYN has not been sent before.
    pub const fn is_syn_first(&self) -> bool {
        self.max == self.iss
    }

    /// The SYN goes out, with `bytes` of data.
    pub fn syn_sent(&mut self, bytes: u32) {
        self.sent_to(self.iss.wrapping_add(1).wrapping_add(bytes));
    }

    /// Data follows our SYN before that is acknowledged (RFC 7413): the stream begins behind it.
    pub fn open_early(&mut self) {
        self.una = self.iss.wrapping_add(1);
        (self.next, self.max) = (self.una, self.una);
    }

    /// Our SYN was acknowledged.
    pub fn syn_acked(&mut self) {
        self.una = self.iss.wrapping_add(1);
        self.next = self.una;
    }

    /// All up to `end` was sent; sending continues there.
    pub fn sent_to(&mut self, end: u32) {
        self.next = end;
        self.max = seq::max(self.max, end);
    }

    /// All up to `ack` was acknowledged.
    pub fn advance(&mut self, ack: u32) {
        self.una = ack;
        self.next = seq::max(self.next, ack);
        self.urgent_end = self.urgent_end.filter(|end| seq::lt(ack, *end));
    }

    /// Sending resumes at what is not acknowledged.
    pub fn rewind(&mut self) {
        self.next = self.una;
    }

    /// Sending continues at `end`: the peer has what lies before.
    pub fn skip_to(&mut self, end: u32) {
        self.next = end;
    }

    /// Sequence number after the last byte that the application gave; once the handshake is done.
    pub fn end(&self) -> u32 {
        self.una
            .wrapping_sub(u32::from(self.fin == Fin::Acked))
            .wrapping_add(self.queue.bytes())
    }

    /// New data up to `end` goes out, in a segment that is not full.
    pub fn small_sent(&mut self, end: u32) {
        self.small_end = end;
    }

    /// A segment goes out.
    pub fn segment_sent(&mut self, now: Time) {
        self.last_sent = now;
    }
}

/// Urgent data (RFC 9293, 3.8.5).
impl Sender {
    /// What the application has given so far is urgent.
    pub fn mark_urgent(&mut self) {
        self.urgent_end = Some(self.end());
    }

    /// There is urgent data that is not acknowledged.
    pub const fn has_urgent(&self) -> bool {
        self.urgent_end.is_some()
    }

    /// The urgent pointer of a segment that begins at `start`, if it has one: to the byte behind
    /// urgent data (RFC 6093, 3.1), as far as it reaches.
    pub fn urgent_pointer(&self, start: u32) -> Option<u16> {
        let end = self.urgent_end.filter(|end| seq::lt(start, *end))?;
        Some(end.wrapping_sub(start).min(0xffff) as u16)
    }
}

/// Our FIN.
impl Sender {
    /// The FIN follows the data; `false` when it did before.
    pub fn queue_fin(&mut self) -> bool {
        let is_first = self.fin == Fin::Open;
        if is_first {
            self.fin = Fin::Queued;
        }
        is_first
    }

    /// What is acknowledged beyond the data is our FIN.
    pub fn fin_acked(&mut self) {
        self.fin = Fin::Acked;
    }

    /// The application sends no more.
    pub fn is_closed(&self) -> bool {
        self.fin != Fin::Open
    }

    /// The FIN follows the data, and is not acknowledged.
    pub fn has_fin(&self) -> bool {
        self.fin == Fin::Queued
    }

    /// The FIN is acknowledged.
    pub fn is_fin_acked(&self) -> bool {
        self.fin == Fin::Acked
    }

    /// Bytes of the application's data that it is invited to hand over. Beyond the peer's window only a
    /// little, so that a peer that never reads keeps little of the memory that all connections share. Where
    /// it is 0 something is unacknowledged, and the acknowledgement reports the next.
    pub fn invited(&self, config: &TcpConfig) -> u32 {
        let useful = self.peer_window.saturating_add(AHEAD_BYTES);
        let room = useful.saturating_sub(self.queue.bytes());
        room.min(self.room(config))
    }

    /// Room for more data from the application, in bytes.
    pub fn room(&self, config: &TcpConfig) -> u32 {
        if self.is_closed() {
            0
        } else {
            config.send_window_bytes.saturating_sub(self.queue.bytes())
        }
    }
}

/// The peer's window.
impl Sender {
    /// The peer's window in bytes.
    pub const fn peer_window(&self) -> u32 {
        self.peer_window
    }

    /// Oldest acknowledgement that is believed (RFC 5961, 5.2).
    pub const fn oldest_ack(&self) -> u32 {
        self.una.wrapping_sub(self.max_peer_window)
    }

    /// Right edge of the peer's window. A closed one counts as `least` bytes.
    pub fn edge(&self, least: u32) -> u32 {
        self.una.wrapping_add(self.peer_window.max(least))
    }

    /// A segment with `seq` and `ack` announces a window of `bytes`.
    pub fn set_window(&mut self, seq: u32, ack: u32, bytes: u32) {
        self.peer_window = bytes;
        self.max_peer_window = self.max_peer_window.max(bytes);
        (self.told_seq, self.told_ack) = (seq, ack);
    }

    /// Takes the window of a segment, unless that is older than the one that announced it last
    /// (RFC 9293, 3.10.7.4).
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

    /// Silly window avoidance and Nagle's rule (RFC 9293, 3.8.6.2.1): `len` bytes are a full
    /// segment (of `mss` bytes), all there is (`whole`), or half the largest window. A small segment
    /// waits only while another small one is under way (Minshall's variant of the rule, as Linux
    /// has it): the end of a large write need not wait for its beginning.
    pub fn is_worth_sending(&self, len: u32, mss: u32, whole: bool, fin: bool) -> bool {
        len >= mss
            || fin
            || (whole && !(self.nagle && seq::lt(self.una, self.small_end)))
            || len >= (self.max_peer_window / 2).max(1)
    }

    /// Whether small segments are held back (RFC 9293, 3.7.4).
    pub const fn set_nagle(&mut self, nagle: bool) {
        self.nagle = nagle;
    }

    /// RFC 5681, 4.1: after a pause the window begins anew.
    pub fn restart_after_idle(&mut self, terms: &Terms, now: Time, config: &TcpConfig) {
        if !self.is_waiting() && now.since(self.last_sent) > self.rto.timeout(config) {
            self.window.idle(terms.payload_mss());
        }
    }
}
