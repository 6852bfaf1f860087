//! The receiving side: the peer's sequence space and the window that it is offered (RFC 9293,
//! 3.3.1, 3.8.6.2.2), its data and its FIN.

use super::acks::Acks;
use super::context::Context;
use super::offer::Offer;
use super::reassembly::{Kept, Reassembly, add_duplicate};
use super::segment::{Incoming, is_in_window};
use super::seq;
use super::terms::Terms;
use super::timers::Timers;
use crate::api::{Chunk, TcpConfig};
use crate::core::chunks::{Chunks, List, Node};
use crate::wire::tcp::{FIN, Options, PSH};

/// The receiving side.
#[derive(Debug, Clone, Copy, Default)]
pub struct Receiver {
    /// The peer's initial sequence number (IRS).
    irs: u32,
    /// RCV.NXT.
    next: u32,
    last_ack_sent: u32,
    offer: Offer,
    data: Reassembly,
    acks: Acks,
    /// A duplicate to report (RFC 2883).
    duplicate: Option<(u32, u32)>,
    /// End of the peer's urgent data (RCV.UP), if some was announced.
    urgent_end: Option<u32>,
    /// The peer's FIN, where it came before all data.
    fin_at: Option<u32>,
    /// The application wants no more data.
    is_deaf: bool,
}

/// The peer's sequence space.
impl Receiver {
    /// The peer's numbers begin with its SYN at `irs`.
    pub fn begin(&mut self, irs: u32, config: &TcpConfig) {
        self.irs = irs;
        self.next = irs.wrapping_add(1);
        self.last_ack_sent = self.next;
        self.offer.begin(self.next, config);
    }

    /// The peer's initial sequence number.
    pub const fn irs(&self) -> u32 {
        self.irs
    }

    /// The next number that is awaited (RCV.NXT).
    pub const fn next(&self) -> u32 {
        self.next
    }

    /// The window we offer now, in bytes from [`Self::next`].
    pub fn offered(&self) -> u32 {
        self.offer.bytes(self.next)
    }

    /// Whether a segment at `start` is at the left edge of what we acknowledged last.
    pub fn is_at_left_edge(&self, start: u32) -> bool {
        seq::le(start, self.last_ack_sent)
    }

    /// RFC 9293, table 6: whether some of the segment lies in the window.
    pub fn is_acceptable(&self, segment: &Incoming) -> bool {
        is_in_window(self.next, self.offered(), segment.header.seq, segment.len())
    }

    /// The application closed and wants nothing more, but data comes (RFC 9293, 3.6.1).
    pub fn refuses(&self, segment: &Incoming) -> bool {
        let end = segment.header.seq.wrapping_add(segment.payload.len);
        self.is_deaf && segment.payload.len > 0 && seq::lt(self.next, end)
    }

    /// Whether all data up to the peer's FIN is here, and the FIN is taken by this call.
    pub fn take_fin(&mut self) -> bool {
        if self.fin_at != Some(self.next) {
            return false;
        }
        self.fin_at = None;
        self.next = self.next.wrapping_add(1);
        self.offer.pass(self.next);
        self.acks.demand();
        true
    }
}

/// Data.
impl Receiver {
    /// Takes data and FIN of an acceptable segment. Says whether its buffer is kept. `is_owned`:
    /// the application has the connection.
    #[inline]
    pub fn take(
        &mut self,
        segment: &Incoming,
        is_owned: bool,
        terms: &Terms,
        timers: &mut Timers,
        context: &mut Context<'_>,
    ) -> bool {
        let end = segment.header.seq.wrapping_add(segment.payload.len);
        let mut data = segment.payload;
        let late = seq::distance(segment.header.seq, self.next).min(data.len);
        data.offset += late;
        data.len -= late;
        let start = segment.header.seq.wrapping_add(late);
        let fits = self.offer.bytes(start);
        let cut = data.len > fits;
        data.len = data.len.min(fits);
        if segment.is(FIN) && !cut && self.fin_at.is_none() && !seq::lt(end, self.next) {
            self.fin_at = Some(end);
            self.acks.demand();
        }
        if cut || late > 0 {
            self.acks.demand();
        }
        if data.len == 0 {
            self.report_duplicate(segment, terms);
            return false;
        }
        let late = (late > 0).then_some((segment.header.seq, start));
        let is_stopped = context.reader_is_stopped;
        let most_kept = most_kept(is_owned, start != self.next, context.most_kept);
        if is_stopped || context.chunks.kept() >= most_kept {
            context.counters.no_room += 1;
            self.acks.demand();
            if is_stopped {
                self.offer.hold_up();
            }
            return false;
        }
        let data_end = start.wrapping_add(data.len);
        if self.fin_at.is_some_and(|fin| seq::lt(fin, data_end)) {
            return false;
        }
        self.came_twice(late, terms);
        if start == self.next {
            self.in_order(data, segment.is(PSH), terms, timers, context)
        } else {
            self.out_of_order(start, data, terms, context)
        }
    }

    #[inline]
    fn in_order(
        &mut self,
        mut data: Chunk,
        pushed: bool,
        terms: &Terms,
        timers: &mut Timers,
        context: &mut Context<'_>,
    ) -> bool {
        let mut is_kept = self.offer.has_buffer(context.config);
        if is_kept {
            let twice = self.data.make_way(&mut data, self.next, context);
            self.came_twice(twice, terms);
            is_kept = self.data.append(data, self.next, context);
        }
        if !is_kept {
            context.counters.no_room += 1;
            self.acks.demand();
            return false;
        }
        self.now_readable(data.len);
        let fills = !self.data.has_no_gap();
        while let Some(bytes) = self.data.advance(self.next, context.chunks) {
            self.now_readable(bytes);
        }
        let full = terms.payload_mss();
        let ends = pushed || data.len < full;
        let config = context.config;
        if let Some(wait) = self.acks.received(data.len, full, ends, fills, config) {
            timers.delay_ack(context.now + wait);
        }
        true
    }

    fn now_readable(&mut self, bytes: u32) {
        self.next = self.next.wrapping_add(bytes);
        self.offer.fill(bytes);
    }

    fn out_of_order(
        &mut self,
        start: u32,
        data: Chunk,
        terms: &Terms,
        context: &mut Context<'_>,
    ) -> bool {
        self.acks.demand();
        // Half of the buffers: the other half is for what closes the gap.
        let most = context.config.receive_buffers.div_ceil(2);
        let kept = self.data.insert(start, data, most, context);
        match kept {
            Kept::Yes(twice) => {
                self.came_twice(twice, terms);
                context.counters.out_of_order += 1;
            }
            Kept::NoRoom => context.counters.no_room += 1,
            Kept::Duplicate if terms.sack() => {
                self.duplicate = Some((start, start.wrapping_add(data.len)));
            }
            Kept::Duplicate => {}
        }
        matches!(kept, Kept::Yes(_))
    }

    /// Something waits to be handed up, and is wanted.
    pub fn is_readable(&self) -> bool {
        self.has_data() && !self.is_deaf
    }

    /// Something waits to be handed up.
    pub const fn has_data(&self) -> bool {
        self.data.is_ready()
    }

    /// Takes the first range that waits to be handed up.
    pub fn take_data(&mut self, chunks: &mut Chunks) -> Option<Node> {
        self.data.take(chunks)
    }

    /// Handed up or ready to be, and not yet done with.
    pub const fn unread_bytes(&self) -> u32 {
        self.offer.unread_bytes()
    }

    /// The application wants no more data.
    pub const fn is_deaf(&self) -> bool {
        self.is_deaf
    }

    /// The application wants no more data.
    pub fn deafen(&mut self) {
        self.is_deaf = true;
    }

    /// The connection has ended. What waits to be handed up stays only if it `is_wanted`.
    pub fn end(&mut self, is_wanted: bool, context: &mut Context<'_>) {
        self.data.release_held(context);
        if self.is_deaf || !is_wanted {
            self.data.release_ready(context);
        }
        self.acks.sent();
    }

    /// The lists with their ranges, those to be handed up and those out of order.
    pub fn lists(&mut self) -> [&mut List; 2] {
        self.data.lists()
    }

    /// The connection has moved to another stack, and its data with it.
    pub fn forget_data(&mut self) {
        self.data.forget();
    }
}

/// Urgent data (RFC 9293, 3.8.5).
impl Receiver {
    /// A segment at `start` announces urgent data up to `pointer` from there. Says whether that is
    /// news: it ends behind what came, and behind what was announced before.
    pub fn announce_urgent(&mut self, start: u32, pointer: u16) -> bool {
        let end = start.wrapping_add(u32::from(pointer));
        let is_news =
            seq::lt(self.next, end) && self.urgent_end.is_none_or(|before| seq::lt(before, end));
        if is_news {
            self.urgent_end = Some(end);
        }
        is_news
    }

    /// Bytes that are to be handed up until urgent data ends.
    pub fn bytes_to_urgent_end(&self, chunks: &Chunks) -> u32 {
        let from = self.data.first_ready(chunks).unwrap_or(self.next);
        self.urgent_end.map_or(0, |end| seq::distance(from, end))
    }
}

/// The window.
impl Receiver {
    /// The window to announce, as a segment carries it.
    pub fn offer(&mut self, terms: &Terms, config: &TcpConfig) -> u16 {
        self.offer.announce(self.next, terms, config)
    }

    /// The window we offer now, as a segment carries it.
    pub fn scaled_window(&self, terms: &Terms) -> u16 {
        self.offer.scaled(self.next, terms)
    }

    /// The application is done with data. `may_receive`: the peer may send more; it is told of the
    /// window when it may be waiting for it.
    pub fn read(
        &mut self,
        bytes: u32,
        buffers: u32,
        may_receive: bool,
        terms: &Terms,
        config: &TcpConfig,
    ) {
        let is_worth = self.offer.read(bytes, buffers, self.next, terms, config);
        if may_receive && is_worth {
            self.acks.demand();
        }
    }

    /// The reader is stopped, and data or the peer waits for it: the window counts as closed.
    pub const fn is_held_up(&self) -> bool {
        self.offer.is_held_up()
    }

    /// The reader is stopped, and data waits for it.
    pub fn hold_up(&mut self) {
        self.offer.hold_up();
    }

    /// The reader resumes.
    pub fn resume(&mut self) {
        self.offer.resume();
    }
}

/// Acknowledgements.
impl Receiver {
    /// When to acknowledge.
    pub const fn acks(&self) -> &Acks {
        &self.acks
    }

    /// When to acknowledge.
    pub const fn acks_mut(&mut self) -> &mut Acks {
        &mut self.acks
    }

    /// An acknowledgement of all that came was sent.
    pub fn ack_sent(&mut self) {
        self.last_ack_sent = self.next;
        self.acks.sent();
        self.duplicate = None;
    }

    /// The SYN that opened the connection came again, with an acknowledgement.
    pub fn syn_again(&mut self, terms: &Terms) {
        self.acks.demand();
        if terms.sack() {
            self.duplicate = Some((self.irs, self.irs.wrapping_add(1)));
        }
    }

    /// Remembers a segment that brought nothing new, for the next SACK option (RFC 2883).
    pub fn report_duplicate(&mut self, segment: &Incoming, terms: &Terms) {
        let end = segment.header.seq.wrapping_add(segment.payload.len);
        if terms.sack() && segment.payload.len > 0 && seq::le(end, self.next) {
            self.duplicate = Some((segment.header.seq, end));
        }
    }

    /// Remembers a part of a segment that came twice, likewise.
    fn came_twice(&mut self, range: Option<(u32, u32)>, terms: &Terms) {
        let Some(range) = range else { return };
        self.acks.demand();
        if terms.sack() {
            add_duplicate(&mut self.duplicate, range);
        }
    }

    /// Whether the next segment may have a SACK option.
    pub fn has_sack_blocks(&self) -> bool {
        !self.data.has_no_gap() || self.duplicate.is_some()
    }

    /// Fills the SACK option: a duplicate, then the range of the latest segment, then the others
    /// (RFC 2018, 4; RFC 2883, 4). A duplicate that is a whole block stands there twice: once alone
    /// it would be an ordinary report, and the sender would not learn of the duplicate.
    pub fn sack_blocks(&self, options: &mut Options, chunks: &Chunks) {
        let most = if options.timestamps.is_some() { 3 } else { 4 };
        if let Some(range) = self.duplicate {
            options.add_sack(range);
        }
        let blocks_from = usize::from(options.sack_count);
        self.data.report(chunks, |range| {
            let blocks = &options.sack_ranges()[blocks_from..];
            if options.sack_count < most && !blocks.contains(&range) {
                options.add_sack(range);
            }
        });
    }
}

/// How many buffers the stack may keep, `most` at all, before it takes no such data: the most for
/// what is handed up at once, so that no peer takes the room of others by leaving gaps, or by
/// sending to an application that does not accept.
fn most_kept(is_owned: bool, leaves_gap: bool, most: u32) -> u32 {
    match (is_owned, leaves_gap) {
        (true, false) => most,
        (false, false) => most / 2,
        (_, true) => most / 4,
    }
}
