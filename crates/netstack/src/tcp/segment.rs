//! Received and outgoing segments as the state machine sees them.

use super::seq;
use crate::api::Chunk;
use crate::wire::tcp::{ACK, FIN, Options, RST, SYN, Segment};

/// Received segment: its header, and the range of its data.
#[derive(Debug, Clone, Copy)]
pub struct Incoming {
    pub header: Segment,
    pub payload: Chunk,
    /// A router has marked its packet (CE; RFC 3168, 5).
    pub is_marked: bool,
}

impl Incoming {
    /// Number of sequence numbers that the segment occupies.
    pub const fn len(&self) -> u32 {
        self.payload.len.wrapping_add(self.header.control_len())
    }

    pub const fn is(&self, flag: u8) -> bool {
        self.header.flags & flag != 0
    }
}

/// Segment to send.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// See [`Segment::urgent`].
    pub urgent: u16,
    pub options: Options,
    /// Bytes of payload. Their ranges are in the [`super::context::Context`]: they are large and
    /// would be copied from rule to rule.
    pub len: u32,
    /// Number of consecutive segments of equal length into which the packet is cut.
    pub segments: u32,
    /// Routers may mark its packet instead of dropping it (RFC 3168, 5).
    pub is_ecn_capable: bool,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self {
            seq: 0,
            ack: 0,
            flags: 0,
            window: 0,
            urgent: 0,
            options: Options::default(),
            len: 0,
            segments: 1,
            is_ecn_capable: false,
        }
    }
}

/// The RST that answers a segment without a connection (RFC 9293, 3.5.2, group 1); `None` for an
/// RST.
pub fn reset_for(segment: &Incoming) -> Option<Outgoing> {
    if segment.is(RST) {
        return None;
    }
    Some(if segment.is(ACK) {
        Outgoing {
            seq: segment.header.ack,
            flags: RST,
            ..Outgoing::default()
        }
    } else {
        Outgoing {
            ack: segment.header.seq.wrapping_add(segment.len()),
            flags: RST | ACK,
            ..Outgoing::default()
        }
    })
}

/// Whether a part of a segment of `len` numbers from `start` on is in the window of `window` bytes
/// from `next` on (RFC 9293, table 6).
///
/// This is more permissive than the table: data at the edge of a closed window is acceptable. Its
/// acknowledgement or RST counts, and the data is cut off.
/// RST do, and the data is cut.
pub fn is_in_window(next: u32, window: u32, start: u32, len: u32) -> bool {
    let is_inside = |at: u32| at.wrapping_sub(next) < window;
    match (len, window) {
        (_, 0) => start == next,
        (0, _) => is_inside(start),
        (len, _) => {
            let end = start.wrapping_add(len);
            let spans = seq::lt(start, next) && seq::lt(next, end);
            is_inside(start) || is_inside(end.wrapping_sub(1)) || spans
        }
    }
}

/// Whether the flags are those of a SYN that opens a connection.
pub const fn is_opening(flags: u8) -> bool {
    flags & (SYN | ACK | RST | FIN) == SYN
}
