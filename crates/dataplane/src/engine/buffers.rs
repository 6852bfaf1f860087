//! Meaning of the stack's buffers and tokens: a frame, an application's memory, or an application's
//! cookie.

use cofferdam_netstack::{BufferId, BufferPool};
use cofferdam_xsk::{Frame, Spans};

/// Bit that distinguishes an application's buffer from a received frame.
const APPLICATION: u64 = 1 << 63;
/// Bits of a cookie. Tokens and timers have the application in the bits above.
const COOKIE_BITS: u32 = 48;

/// Name of a received frame in the stack.
pub(super) fn received_buffer(frame: Frame, start: u32) -> BufferId {
    BufferId(u64::from(frame.0) | u64::from(start) << 32)
}

/// Memory in which fragments of datagrams are assembled.
pub(super) struct Whole<'a>(pub &'a mut Spans);

impl BufferPool for Whole<'_> {
    fn copy_in(&mut self, bytes: &[u8]) -> Option<BufferId> {
        self.0.store(bytes).map(|span| received_buffer(span, 0))
    }
}

/// Name of an application's memory in the stack.
pub(super) fn application_buffer(domain: u8, generation: u8) -> BufferId {
    BufferId(APPLICATION | u64::from(generation) << 8 | u64::from(domain))
}

/// Place and generation of the application whose memory a buffer is; `None` for a received frame.
pub(super) fn buffer_owner(buffer: BufferId) -> Option<(u8, u8)> {
    (buffer.0 & APPLICATION != 0).then_some((buffer.0 as u8, (buffer.0 >> 8) as u8))
}

/// Adds the application to a cookie.
pub(super) fn mark(domain: u8, generation: u8, cookie: u64) -> u64 {
    let low = cookie & ((1 << COOKIE_BITS) - 1);
    u64::from(generation) << 56 | u64::from(domain) << COOKIE_BITS | low
}

/// Splits the result of `mark`: place and generation of the application, cookie.
pub(super) fn unmark(marked: u64) -> (u8, u8, u64) {
    let domain = (marked >> COOKIE_BITS) as u8;
    (
        domain,
        (marked >> 56) as u8,
        marked & ((1 << COOKIE_BITS) - 1),
    )
}

/// Offset of the first byte in a received frame.
pub(super) fn buffer_place(buffer: BufferId) -> (Frame, usize) {
    (Frame(buffer.0 as u32), (buffer.0 >> 32) as usize & 0xffff)
}
