//! What the stack's buffers and tokens stand for: a frame, or an application's memory; a cookie of
//! an application.

use cofferdam_netstack::{BufferId, BufferPool};
use cofferdam_xsk::{Frame, Spans};

/// The bit that distinguishes an application's buffers from received frames.
const APPLICATION: u64 = 1 << 63;
/// Tokens and timers carry the application above these bits.
const COOKIE_BITS: u32 = 48;

/// The stack's name for a received frame.
pub(super) fn received_buffer(frame: Frame, start: u32) -> BufferId {
    BufferId(u64::from(frame.0) | u64::from(start) << 32)
}

/// Where datagrams that came in fragments are put together.
pub(super) struct Whole<'a>(pub &'a mut Spans);

impl BufferPool for Whole<'_> {
    fn copy_in(&mut self, bytes: &[u8]) -> Option<BufferId> {
        self.0.store(bytes).map(|span| received_buffer(span, 0))
    }
}

/// The stack's name for an application's memory.
pub(super) fn application_buffer(domain: u8, generation: u8) -> BufferId {
    BufferId(APPLICATION | u64::from(generation) << 8 | u64::from(domain))
}

/// Which application's memory a buffer is, and its generation; `None` for a received frame.
pub(super) fn buffer_owner(buffer: BufferId) -> Option<(u8, u8)> {
    (buffer.0 & APPLICATION != 0).then_some((buffer.0 as u8, (buffer.0 >> 8) as u8))
}

/// Marks a cookie with its application.
pub(super) fn mark(domain: u8, generation: u8, cookie: u64) -> u64 {
    let low = cookie & ((1 << COOKIE_BITS) - 1);
    u64::from(generation) << 56 | u64::from(domain) << COOKIE_BITS | low
}

/// Splits what `mark` made: application, generation, cookie.
pub(super) fn unmark(marked: u64) -> (u8, u8, u64) {
    let domain = (marked >> COOKIE_BITS) as u8;
    (
        domain,
        (marked >> 56) as u8,
        marked & ((1 << COOKIE_BITS) - 1),
    )
}

/// Where a received frame's bytes begin.
pub(super) fn buffer_place(buffer: BufferId) -> (Frame, usize) {
    (Frame(buffer.0 as u32), (buffer.0 >> 32) as usize & 0xffff)
}
