//! Receiving side: the peer's sequence space and the window offered to it (RFC 9293, 3.3.1,
//! 3.8.6.2.2), its data and its FIN.

use super::acks::Acks;
use super::context::Context;
use super::offer::Offer;
use super::reassembly::{Insertion, Reassembly, add_duplicate};
use super::segment::{Incoming, is_in_window};
use super::seq;
use super::terms::Terms;
use super::timers::Timers;
use crate::api::{Chunk, TcpConfig};
use crate::core::chunks::{Chunks, List, Node};
use crate::wire::tcp::{FIN, Options, PSH};

/// Receiving side of a connection.
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
    /// Duplicate range to report (D-SACK, RFC 2883).
    duplicate: Option<(u32, u32)>,
    /// End of the peer's urgent data (RCV.UP), if any was announced.
    urgent_end: Option<u32>,
    /// Sequence number of the peer's FIN if it arrived before all data.
    fin_at: Option<u32>,
    /// The application accepts no more data.
    is_deaf: bool,
}

/// Sequence space of the peer.
impl Receiver {
    /// Starts with the peer's SYN at `irs`.
    pub fn begin(&mut self, irs: u32, config: &TcpConfig) {
        self.irs = irs;
        self.next = irs.wrapping_add(1);
        self.last_ack_sent = self.next;
        self.offer.begin(self.next, config);
    }

    /// Initial sequence number of the peer (IRS).
    pub const fn irs(&self) -> u32 {
        self.irs
    }

    /// Next expected sequence number (RCV.NXT).
    pub const fn next(&self) -> u32 {
        self.next
    }

    /// Offered window in bytes from [`Self::next`].
    pub fn offered(&self) -> u32 {
        self.offer.bytes(self.next)
    }

    /// Whether a segment at `start` covers the left edge of the last acknowledgement.
    pub fn is_at_left_edge(&self, start: u32) -> bool {
        seq::le(start, self.last_ack_sent)
    }

    /// Whether a part of the segment is in the window (RFC 9293, table 6).
    pub fn is_acceptable(&self, segment: &Incoming) -> bool {
        is_in_window(self.next, self.offered(), segment.header.seq, segment.len())
    }

    /// Whether the segment has new data although the application has closed the connection (RFC
    /// 9293, 3.6.1).
    pub fn refuses(&self, segment: &Incoming) -> bool {
        let end = segment.header.seq.wrapping_add(segment.payload.len);
        self.is_deaf && segment.payload.len > 0 && seq::lt(self.next, end)
    }

    /// Accepts the peer's FIN if all data before it has arrived. Returns whether it did.
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

/// Received data.
impl Receiver {
    /// Accepts data and FIN of an acceptable segment. Returns whether the connection keeps its
    /// buffer. `is_owned`: the application has the connection.
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
        let overlap = seq::distance(segment.header.seq, self.next).min(data.len);
        data.offset += overlap;
        data.len -= overlap;
        let start = segment.header.seq.wrapping_add(overlap);
        let fits = self.offer.bytes(start);
        let cut = data.len > fits;
        data.len = data.len.min(fits);
        if segment.is(FIN) && !cut && self.fin_at.is_none() && !seq::lt(end, self.next) {
            self.fin_at = Some(end);
            self.acks.demand();
        }
        if cut || overlap > 0 {
            self.acks.demand();
        }
        if data.len == 0 {
            self.report_duplicate(segment, terms);
            return false;
        }
        let duplicate = (overlap > 0).then_some((segment.header.seq, start));
        let is_stopped = context.reader_is_stopped;
        let kept_limit = buffer_limit(is_owned, start != self.next, context.kept_limit);
        if is_stopped || context.chunks.stored() >= kept_limit {
            context.counters.no_room += 1;
            self.acks.demand();
            if is_stopped {
                self.offer.suspend();
            }
            return false;
        }
        let data_end = start.wrapping_add(data.len);
        if self.fin_at.is_some_and(|fin| seq::lt(fin, data_end)) {
            return false;
        }
        self.record_duplicate(duplicate, terms);
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
            let duplicate = self.data.resolve_overlap(&mut data, self.next, context);
            self.record_duplicate(duplicate, terms);
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
        // The other half of the buffers is for data that closes the gap.
        let most = context.config.receive_buffers.div_ceil(2);
        let insertion = self.data.insert(start, data, most, context);
        match insertion {
            Insertion::Stored(duplicate) => {
                self.record_duplicate(duplicate, terms);
                context.counters.out_of_order += 1;
            }
            Insertion::NoRoom => context.counters.no_room += 1,
            Insertion::Duplicate if terms.sack() => {
                self.duplicate = Some((start, start.wrapping_add(data.len)));
            }
            Insertion::Duplicate => {}
        }
        matches!(insertion, Insertion::Stored(_))
    }

    /// Whether data waits for an application that accepts it.
    pub fn is_readable(&self) -> bool {
        self.has_data() && !self.is_deaf
    }

    /// Whether data waits for the application.
    pub const fn has_data(&self) -> bool {
        self.data.is_ready()
    }

    /// Removes the first range that waits for the application.
    pub fn take_data(&mut self, chunks: &mut Chunks) -> Option<Node> {
        self.data.take(chunks)
    }

    /// Bytes that are ready for the application or in use by it.
    pub const fn unread_bytes(&self) -> u32 {
        self.offer.unread_bytes()
    }

    /// Whether the application accepts no more data.
    pub const fn has_stopped_receiving(&self) -> bool {
        self.is_deaf
    }

    /// Accepts no more data for the application.
    pub fn stop_receiving(&mut self) {
        self.is_deaf = true;
    }

    /// Releases data at the connection's end. Data that waits for the application stays only if
    /// `is_wanted`.
    pub fn end(&mut self, is_wanted: bool, context: &mut Context<'_>) {
        self.data.release_out_of_order(context);
        if self.is_deaf || !is_wanted {
            self.data.release_ready(context);
        }
        self.acks.sent();
    }

    /// Lists of the ranges in order and out of order.
    pub fn lists(&mut self) -> [&mut List; 2] {
        self.data.lists()
    }

    /// Drops the data, which has moved to another stack with its connection.
    pub fn forget_data(&mut self) {
        self.data.forget();
    }
}

/// Urgent data (RFC 9293, 3.8.5).
impl Receiver {
    /// Records urgent data up to `pointer` bytes behind `start`. Returns whether that is new: its
    /// end is beyond the received data and beyond earlier announcements.
    pub fn announce_urgent(&mut self, start: u32, pointer: u16) -> bool {
        let end = start.wrapping_add(u32::from(pointer));
        let is_news =
            seq::lt(self.next, end) && self.urgent_end.is_none_or(|before| seq::lt(before, end));
        if is_news {
            self.urgent_end = Some(end);
        }
        is_news
    }

    /// Bytes that the application gets until the urgent data ends.
    pub fn bytes_to_urgent_end(&self, chunks: &Chunks) -> u32 {
        let from = self.data.first_ready(chunks).unwrap_or(self.next);
        self.urgent_end.map_or(0, |end| seq::distance(from, end))
    }
}

/// Receive window.
impl Receiver {
    /// Window to announce in a segment, scaled.
    pub fn offer(&mut self, terms: &Terms, config: &TcpConfig) -> u16 {
        self.offer.announce(self.next, terms, config)
    }

    /// Offered window, scaled.
    pub fn scaled_window(&self, terms: &Terms) -> u16 {
        self.offer.scaled(self.next, terms)
    }

    /// Records that the application has finished with data. If the peer may send more
    /// (`may_receive`) and may wait for the window, an acknowledgement becomes due.
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

    /// Whether the window counts as closed because the reader is stopped.
    pub const fn is_suspended(&self) -> bool {
        self.offer.is_suspended()
    }

    /// Records that the reader is stopped while data waits for it.
    pub fn suspend(&mut self) {
        self.offer.suspend();
    }

    /// Records that the reader resumes.
    pub fn resume(&mut self) {
        self.offer.resume();
    }
}

/// Acknowledgements.
impl Receiver {
    /// State of delayed acknowledgements.
    pub const fn acks(&self) -> &Acks {
        &self.acks
    }

    /// State of delayed acknowledgements.
    pub const fn acks_mut(&mut self) -> &mut Acks {
        &mut self.acks
    }

    /// Records that an acknowledgement of all received data was sent.
    pub fn ack_sent(&mut self) {
        self.last_ack_sent = self.next;
        self.acks.sent();
        self.duplicate = None;
    }

    /// Records that the SYN which opened the connection came again, with an acknowledgement.
    pub fn syn_again(&mut self, terms: &Terms) {
        self.acks.demand();
        if terms.sack() {
            self.duplicate = Some((self.irs, self.irs.wrapping_add(1)));
        }
    }

    /// Remembers a segment without new data for the next SACK option (D-SACK, RFC 2883).
    pub fn report_duplicate(&mut self, segment: &Incoming, terms: &Terms) {
        let end = segment.header.seq.wrapping_add(segment.payload.len);
        if terms.sack() && segment.payload.len > 0 && seq::le(end, self.next) {
            self.duplicate = Some((segment.header.seq, end));
        }
    }

    /// Remembers a range that arrived twice for the next SACK option (D-SACK, RFC 2883).
    fn record_duplicate(&mut self, range: Option<(u32, u32)>, terms: &Terms) {
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
    /// (RFC 2018, 4; RFC 2883, 4). A duplicate that is a whole block appears twice: a single one
    /// would be an ordinary block, and the sender would not recognize the duplicate.
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

/// Number of buffers in use by the whole stack from which on it drops such data. Data in order for
/// an owned connection may use all of them. The limits prevent a peer from using up the buffers by
/// leaving gaps, or by sending to an application that does not accept.
fn buffer_limit(is_owned: bool, leaves_gap: bool, most: u32) -> u32 {
    match (is_owned, leaves_gap) {
        (true, false) => most,
        (false, false) => most / 2,
        (_, true) => most / 4,
    }
}
