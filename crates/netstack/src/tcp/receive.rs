//! Data of a segment (RFC 9293, 3.10.7.4, seventh): cut to the window, put in order, handed up;
//! and what to say about it: acknowledgements (RFC 5681, 4.2), SACK (RFC 2018), the window.

use super::segment::Incoming;
use super::seq;
use super::state::{Context, Tcb};
use crate::api::{Chunk, TcpConfig};
use crate::core::NONE;
use crate::wire::tcp::{FIN, Options, PSH};

/// Answers within the wait that make us wait for the next one.
const ANSWERS_EXPECTED: i8 = 3;
/// An answer that did not come costs so many.
const ANSWER_MISSED: i8 = -8;

impl Tcb {
    /// Takes data and FIN of an acceptable segment. Says whether its buffer is kept.
    pub fn receive(&mut self, segment: &Incoming, context: &mut Context<'_>) -> bool {
        if !self.may_receive() {
            // Only what was received before can come here: the peer lacks our acknowledgement.
            self.ack_now = true;
            return false;
        }
        let end = segment.header.seq.wrapping_add(segment.payload.len);
        let mut data = segment.payload;
        let late = seq::distance(segment.header.seq, self.rcv_nxt).min(data.len);
        data.offset += late;
        data.len -= late;
        let start = segment.header.seq.wrapping_add(late);
        let fits = seq::distance(start, self.rcv_edge);
        let cut = data.len > fits;
        data.len = data.len.min(fits);
        if segment.is(FIN) && !cut && self.fin_at.is_none() && !seq::lt(end, self.rcv_nxt) {
            self.fin_at = Some(end);
            self.ack_now = true;
        }
        if cut || late > 0 {
            self.ack_now = true;
        }
        if data.len == 0 {
            self.report_duplicate(segment);
            return false;
        }
        let is_stopped = context.reader_is_stopped;
        if is_stopped || context.chunks.kept() >= self.most_kept(start != self.rcv_nxt, context) {
            context.counters.no_room += 1;
            self.ack_now = true;
            self.held_up |= is_stopped;
            return false;
        }
        if self
            .fin_at
            .is_some_and(|fin| seq::lt(fin, start.wrapping_add(data.len)))
        {
            return false;
        }
        if start == self.rcv_nxt {
            self.in_order(data, segment.is(PSH), context)
        } else {
            self.out_of_order(start, data, context)
        }
    }

    /// How many buffers the stack may keep before it takes no such data: the most for what is
    /// handed up at once, so that no peer takes the room of others by leaving gaps, or by sending to
    /// who does not accept.
    fn most_kept(&self, leaves_gap: bool, context: &Context<'_>) -> u32 {
        let most = context.most_kept;
        match (self.notices.is_owned(), leaves_gap) {
            (true, false) => most,
            (false, false) => most / 2,
            (_, true) => most / 4,
        }
    }

    /// Remembers a segment that brought nothing new, for the next SACK option (RFC 2883).
    pub fn report_duplicate(&mut self, segment: &Incoming) {
        let end = segment.header.seq.wrapping_add(segment.payload.len);
        if self.terms.sack() && segment.payload.len > 0 && seq::le(end, self.rcv_nxt) {
            self.duplicate = Some((segment.header.seq, end));
        }
    }

    fn in_order(&mut self, mut data: Chunk, pushed: bool, context: &mut Context<'_>) -> bool {
        if let Some(first) = context.chunks.front(&self.held) {
            data.len = data.len.min(first.seq.wrapping_sub(self.rcv_nxt));
        }
        if self.unread_buffers >= u32::from(context.config.receive_buffers) {
            context.counters.no_room += 1;
            self.ack_now = true;
            return false;
        }
        // The next segment goes before any that came too early.
        if context.chunks.free() == 0 {
            self.drop_last_held(context);
        }
        if !context
            .chunks
            .keep_last(&mut self.received, data, self.rcv_nxt)
        {
            context.counters.no_room += 1;
            self.ack_now = true;
            return false;
        }
        self.now_readable(data.len);
        let was_holding = !self.held.is_empty();
        while context
            .chunks
            .front(&self.held)
            .is_some_and(|next| next.seq == self.rcv_nxt)
        {
            if let Some(next) = context
                .chunks
                .shift(&mut self.held, NONE, &mut self.received)
            {
                self.held_count -= 1;
                self.now_readable(next.chunk.len);
            }
        }
        self.schedule_ack(data.len, pushed, was_holding, context);
        true
    }

    fn now_readable(&mut self, bytes: u32) {
        self.rcv_nxt = self.rcv_nxt.wrapping_add(bytes);
        self.unread_bytes += bytes;
        self.unread_buffers += 1;
    }

    /// When to acknowledge data in order (RFC 5681, 4.2): every second full segment and what fills
    /// a hole at once. The end of a request too, unless the application has answered quickly lately:
    /// then its answer carries the acknowledgement. (An answer in the same turn of the caller's loop
    /// always does.) Only the first of two full segments waits for long.
    fn schedule_ack(&mut self, bytes: u32, pushed: bool, was_holding: bool, context: &Context<'_>) {
        self.unacked_bytes += bytes;
        let full = self.payload_mss();
        let ends = pushed || bytes < full;
        self.question |= ends;
        if was_holding
            || self.unacked_bytes >= 2 * full
            || (ends && self.answers < ANSWERS_EXPECTED)
        {
            self.ack_now = true;
            return;
        }
        let wait = if ends {
            context.config.answer_wait
        } else {
            context.config.delayed_ack
        };
        let at = context.now + wait;
        self.timers.delay_ack(at);
    }

    /// Data goes out: perhaps it answers.
    pub fn answered(&mut self, context: &Context<'_>) {
        if std::mem::take(&mut self.question)
            && context.now.since(self.timers.last_heard()) <= context.config.answer_wait
        {
            self.answers = (self.answers + 1).min(ANSWERS_EXPECTED + 3);
        }
    }

    /// The acknowledgement can wait no longer.
    pub fn answer_missed(&mut self) {
        self.ack_now = true;
        if self.question && self.answers >= ANSWERS_EXPECTED {
            self.answers = ANSWER_MISSED;
        }
    }

    fn out_of_order(&mut self, mut start: u32, mut data: Chunk, context: &mut Context<'_>) -> bool {
        self.ack_now = true;
        let end = start.wrapping_add(data.len);
        let mut previous = NONE;
        let mut at = self.held.head;
        while at != NONE && seq::le(context.chunks.node(at).seq, start) {
            previous = at;
            at = context.chunks.node(at).next;
        }
        if previous != NONE {
            let node = context.chunks.node(previous);
            let known = node.seq.wrapping_add(node.chunk.len);
            if seq::le(end, known) {
                if self.terms.sack() {
                    self.duplicate = Some((start, end));
                }
                return false;
            }
            let overlap = seq::distance(start, known);
            start = start.wrapping_add(overlap);
            data.offset += overlap;
            data.len -= overlap;
        }
        // What it covers wholly goes; what it overlaps in part stays.
        while at != NONE {
            let node = *context.chunks.node(at);
            if seq::lt(end, node.seq.wrapping_add(node.chunk.len)) {
                if seq::lt(node.seq, end) {
                    data.len -= end.wrapping_sub(node.seq);
                }
                break;
            }
            context
                .chunks
                .shift(&mut self.held, previous, context.released);
            self.held_count -= 1;
            at = node.next;
        }
        // Half of the buffers: the other half is for what closes the gap.
        let full = self.held_count >= context.config.receive_buffers.div_ceil(2);
        if full || !context.chunks.keep(&mut self.held, previous, data, start) {
            context.counters.no_room += 1;
            return false;
        }
        self.held_count += 1;
        self.held_latest = start;
        context.counters.out_of_order += 1;
        true
    }

    /// Gives the last range out of order back. There is room once the caller has taken the
    /// release; the peer sends both again.
    fn drop_last_held(&mut self, context: &mut Context<'_>) {
        let mut previous = NONE;
        let mut at = self.held.head;
        while at != NONE && context.chunks.node(at).next != NONE {
            previous = at;
            at = context.chunks.node(at).next;
        }
        if context
            .chunks
            .shift(&mut self.held, previous, context.released)
            .is_some()
        {
            self.held_count -= 1;
        }
    }

    /// Fills the SACK option: a duplicate, then the range of the latest segment, then the others
    /// (RFC 2018, 4; RFC 2883, 4).
    pub fn sack_blocks(&self, options: &mut Options, chunks: &crate::core::chunks::Chunks) {
        let most = if options.timestamps.is_some() { 3 } else { 4 };
        let mut add = |range: (u32, u32)| {
            if options.sack_count < most && !options.sack_ranges().contains(&range) {
                options.sack[usize::from(options.sack_count)] = range;
                options.sack_count += 1;
            }
        };
        if let Some(range) = self.duplicate {
            add(range);
        }
        let mut others = [(0, 0); 4];
        let mut count = 0;
        let mut at = self.held.head;
        while at != NONE {
            let (left, mut right);
            (left, right, at) = {
                let node = chunks.node(at);
                (node.seq, node.seq.wrapping_add(node.chunk.len), node.next)
            };
            while at != NONE && chunks.node(at).seq == right {
                let node = chunks.node(at);
                right = right.wrapping_add(node.chunk.len);
                at = node.next;
            }
            if seq::le(left, self.held_latest) && seq::lt(self.held_latest, right) {
                add((left, right));
            } else if count < others.len() {
                others[count] = (left, right);
                count += 1;
            }
        }
        others[..count].iter().for_each(|range| add(*range));
    }

    /// The window to tell, unscaled: moves the right edge on when that is worth it (silly window
    /// avoidance, RFC 9293, 3.8.6.2.2) and never back.
    pub fn offer(&mut self, config: &TcpConfig) -> u16 {
        let edge = self.possible_edge(config);
        if self.is_worth_telling(edge, config) {
            self.rcv_edge = edge;
        }
        if self.held_up {
            return 0;
        }
        (self.offered() >> self.terms.our_scale()).min(0xffff) as u16
    }

    /// How far the window could reach.
    fn possible_edge(&self, config: &TcpConfig) -> u32 {
        if self.unread_buffers >= u32::from(config.receive_buffers) {
            return self.rcv_edge;
        }
        let most = config
            .receive_window_bytes
            .min(0xffff << self.terms.our_scale());
        self.rcv_nxt
            .wrapping_add(most.saturating_sub(self.unread_bytes))
    }

    fn is_worth_telling(&self, edge: u32, config: &TcpConfig) -> bool {
        let gain = seq::distance(self.rcv_edge, edge);
        gain > 0 && gain >= (config.receive_window_bytes / 2).min(u32::from(self.terms.mss()))
    }

    /// The application is done with data: the peer is told when it might be waiting for it.
    pub fn read(&mut self, bytes: u32, buffers: u32, config: &TcpConfig) {
        self.unread_bytes = self.unread_bytes.saturating_sub(bytes);
        self.unread_buffers = self.unread_buffers.saturating_sub(buffers);
        let edge = self.possible_edge(config);
        if self.may_receive()
            && self.offered() <= config.receive_window_bytes / 4
            && self.is_worth_telling(edge, config)
        {
            self.ack_now = true;
        }
    }
}
