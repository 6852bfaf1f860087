//! Which segment to send next (RFC 9293, 3.8.6.2.1; RFC 5681; RFC 6675, 5).

use super::segment::Outgoing;
use super::seq;
use super::state::{Context, Recovery, State, Tcb};
use crate::core::NONE;
use crate::wire::tcp::{ACK, FIN, PSH, SYN};

impl Tcb {
    /// The next segment, if there is one to send now. `our_mss` is what our SYN offers.
    pub fn output(&mut self, our_mss: u16, context: &mut Context<'_>) -> Option<Outgoing> {
        let sent = match self.state {
            State::Closed => None,
            State::SynSent | State::SynReceived => self.opening(our_mss, context),
            _ => self.data(context).or_else(|| self.only_ack(context)),
        }?;
        context.counters.segments_sent += 1;
        self.last_sent = context.now;
        if sent.flags & ACK != 0 {
            self.receiver.ack_sent();
            self.timers.stop_ack();
        }
        Some(sent)
    }

    fn opening(&mut self, our_mss: u16, context: &mut Context<'_>) -> Option<Outgoing> {
        if self.snd_nxt != self.iss {
            return if self.state == State::SynReceived {
                self.only_ack(context)
            } else {
                None
            };
        }
        let first = self.snd_max == self.iss;
        self.snd_nxt = self.iss.wrapping_add(1);
        self.snd_max = seq::max(self.snd_max, self.snd_nxt);
        self.timed = first.then_some((self.snd_nxt, context.now));
        if !first {
            self.count_retransmit(context);
        }
        self.timers.start_retransmission(self.timeout_at(context));
        context.payload.clear();
        let answers = self.state == State::SynReceived;
        // Never scaled (RFC 7323, 2.2).
        let window = context.config.receive_window_bytes.min(0xffff) as u16;
        Some(Outgoing {
            seq: self.iss,
            ack: if answers { self.receiver.next() } else { 0 },
            flags: if answers { SYN | ACK } else { SYN },
            window,
            options: self.syn_options(context.config, our_mss, context.now),
            len: 0,
        })
    }

    fn data(&mut self, context: &mut Context<'_>) -> Option<Outgoing> {
        if !self.may_send() {
            return None;
        }
        let mss = self.room_in_segment(context);
        if std::mem::take(&mut self.resend_first)
            && let Some(segment) = self.resend_missing(mss, context)
        {
            return Some(segment);
        }
        if self.timers.take_probe() {
            return self.probe(mss, context);
        }
        if std::mem::take(&mut self.tail_probe_now) {
            return self.tail_segment(mss, context);
        }
        if let (true, Recovery::Fast { .. }) = (self.terms.sack(), self.recovery) {
            return self.in_sack_recovery(mss, context);
        }
        self.fresh_data(mss, false, context)
    }

    /// RFC 6675, 5, step C: lost holes first, then new data, then holes that may be lost.
    fn in_sack_recovery(&mut self, mss: u32, context: &mut Context<'_>) -> Option<Outgoing> {
        if self.under_way() + mss > self.window.cwnd {
            return None;
        }
        let from = seq::max(self.resent, self.snd_una);
        let full = self.payload_mss();
        if let Some((start, end)) = self.board.next_hole(from, false, full) {
            return self.resend(start, end, mss, context);
        }
        if let Some(segment) = self.fresh_data(mss, false, context) {
            return Some(segment);
        }
        let (start, end) = self.board.next_hole(from, true, full)?;
        self.resend(start, end, mss, context)
    }

    /// Bytes under way.
    fn under_way(&self) -> u32 {
        if self.terms.sack() && !self.board.is_empty() {
            self.board
                .pipe(self.snd_una, self.snd_nxt, self.resent, self.payload_mss())
        } else {
            self.snd_nxt.wrapping_sub(self.snd_una)
        }
    }

    /// Most payload beside the options of this moment.
    fn room_in_segment(&self, context: &Context<'_>) -> u32 {
        if !self.receiver.has_sack_blocks() {
            return self.payload_mss();
        }
        let options = self.options(context.now, context.chunks).len() as u32;
        self.terms.room(options)
    }

    /// Sends the first that is missing again, as much as fits.
    pub fn resend_missing(&mut self, mss: u32, context: &mut Context<'_>) -> Option<Outgoing> {
        let end = self.board.next_range(self.snd_una).unwrap_or(self.snd_max);
        self.resend(self.snd_una, end, mss, context)
    }

    /// Sends `start..end` again, as much as fits.
    pub fn resend(
        &mut self,
        start: u32,
        end: u32,
        mss: u32,
        context: &mut Context<'_>,
    ) -> Option<Outgoing> {
        let data = seq::distance(start, seq::min(end, self.send_end())).min(mss);
        let fin = self.fin_queued
            && !self.fin_acked
            && start.wrapping_add(data) == self.send_end()
            && seq::lt(start.wrapping_add(data), end);
        if data == 0 && !fin {
            return None;
        }
        let segment = self.segment(start, data, fin, context);
        self.resent = seq::max(
            self.resent,
            start.wrapping_add(segment.len + u32::from(segment.flags & FIN != 0)),
        );
        self.count_retransmit(context);
        // Nothing sent again is timed (Karn's rule).
        if self
            .timed
            .is_some_and(|(awaited, _)| seq::lt(start, awaited))
        {
            self.timed = None;
        }
        self.timers.start_retransmission(self.timeout_at(context));
        Some(segment)
    }

    /// Data from `snd_nxt` on: new, or again after a timeout. A probe for a lost tail is beyond the
    /// congestion window.
    pub fn fresh_data(
        &mut self,
        mss: u32,
        probes_tail: bool,
        context: &mut Context<'_>,
    ) -> Option<Outgoing> {
        while let Some(end) = self.board.covered(self.snd_nxt) {
            self.snd_nxt = end;
        }
        let end = self.send_end();
        let fin_open = self.fin_queued && seq::le(self.snd_nxt, end);
        let waiting = seq::distance(self.snd_nxt, end);
        if waiting == 0 && (self.fin_acked || !fin_open) {
            return None;
        }
        self.restart_after_idle(context);
        let edge = self.snd_una.wrapping_add(self.snd_wnd);
        let room = seq::distance(self.snd_nxt, edge);
        let gap = self
            .board
            .next_range(self.snd_nxt)
            .map_or(u32::MAX, |left| left.wrapping_sub(self.snd_nxt));
        let len = waiting.min(room).min(mss).min(gap);
        let whole = len == waiting;
        let fin = fin_open && whole && room > len;
        if len == 0 && !fin {
            self.wait_for_window(context);
            return None;
        }
        let again = seq::lt(self.snd_nxt, self.snd_max);
        if !again && !self.is_worth_sending(len, mss, whole, fin) {
            self.wait_for_window(context);
            return None;
        }
        let flight = self.under_way();
        // RFC 3042: two segments more while duplicates come in.
        let limited = if self.terms.sack() || self.recovery != Recovery::None {
            0
        } else {
            self.dup_acks.min(2) * mss
        };
        let most = self.window.cwnd.saturating_add(limited);
        if flight > 0 && flight + len > most && !probes_tail {
            return None;
        }
        let start = self.snd_nxt;
        let segment = self.segment(start, len, fin, context);
        let taken = segment.len + u32::from(segment.flags & FIN != 0);
        self.snd_nxt = start.wrapping_add(taken);
        if again {
            self.count_retransmit(context);
        } else {
            self.timed.get_or_insert((self.snd_nxt, context.now));
            self.last_segment = start;
        }
        self.snd_max = seq::max(self.snd_max, self.snd_nxt);
        self.timers.start_retransmission(self.timeout_at(context));
        self.watch_tail(context);
        let later = context.now.since(self.timers.last_heard());
        self.receiver.acks_mut().answered(later, context.config);
        Some(segment)
    }

    /// Silly window avoidance and Nagle's rule (RFC 9293, 3.8.6.2.1): a full segment, all there
    /// is, or half the largest window.
    fn is_worth_sending(&self, len: u32, mss: u32, whole: bool, fin: bool) -> bool {
        let idle = !self.is_waiting();
        len >= mss || fin || (whole && (idle || !self.nagle)) || len >= (self.max_wnd / 2).max(1)
    }

    /// The window holds data back, and nothing is under way whose acknowledgement would open it.
    fn wait_for_window(&mut self, context: &Context<'_>) {
        if !self.is_waiting() {
            self.timers.start_retransmission(self.timeout_at(context));
        }
    }

    /// One byte into a closed window (RFC 9293, 3.8.6.1), or what a small one takes.
    fn probe(&mut self, mss: u32, context: &mut Context<'_>) -> Option<Outgoing> {
        let end = self.send_end();
        let start = if self.snd_wnd == 0 {
            self.snd_una
        } else {
            self.snd_nxt
        };
        let edge = self.snd_una.wrapping_add(self.snd_wnd.max(1));
        let waiting = seq::distance(start, end);
        let len = waiting.min(seq::distance(start, edge)).min(mss);
        let fin = len == 0 && self.fin_queued && !self.fin_acked;
        if len == 0 && !fin {
            return None;
        }
        context.counters.window_probes += 1;
        let segment = self.segment(start, len, fin, context);
        self.snd_nxt = seq::max(self.snd_nxt, start.wrapping_add(len + u32::from(fin)));
        self.snd_max = seq::max(self.snd_max, self.snd_nxt);
        self.timed = None;
        Some(segment)
    }

    /// RFC 5681, 4.1.
    fn restart_after_idle(&mut self, context: &Context<'_>) {
        if !self.is_waiting()
            && context.now.since(self.last_sent) > self.rto.timeout(context.config)
        {
            self.window.idle(self.payload_mss());
        }
    }

    fn only_ack(&mut self, context: &mut Context<'_>) -> Option<Outgoing> {
        if self.timers.take_keepalive() {
            context.counters.keepalives += 1;
            let mut segment = self.segment(self.snd_max, 0, false, context);
            // A number that was acknowledged long ago must be answered (RFC 9293, 3.8.4).
            segment.seq = self.snd_una.wrapping_sub(1);
            return Some(segment);
        }
        // The end of what was ever sent: while data is sent again, `snd_nxt` lies before the peer's
        // window, and the acknowledgement would not be taken.
        (self.receiver.acks().is_due() || self.timers.is_ack_due(context.now))
            .then(|| self.segment(self.snd_max, 0, false, context))
    }

    /// A segment of `len` bytes from `start`; shorter when they lie in too many places.
    fn segment(&mut self, start: u32, len: u32, fin: bool, context: &mut Context<'_>) -> Outgoing {
        self.gather(start, len, context);
        let gathered = context.payload.len() as u32;
        let complete = gathered == len;
        let last = start.wrapping_add(len) == self.send_end();
        let mut flags = ACK;
        if fin && complete {
            flags |= FIN;
        }
        if len > 0 && last {
            flags |= PSH;
        }
        Outgoing {
            seq: start,
            ack: self.receiver.next(),
            flags,
            window: self.receiver.offer(&self.terms, context.config),
            options: self.options(context.now, context.chunks),
            len: gathered,
        }
    }

    /// The ranges that hold `start..start + len`. The cursor makes sending in order O(1).
    fn gather(&mut self, start: u32, len: u32, context: &mut Context<'_>) {
        let (chunks, payload) = (&*context.chunks, &mut *context.payload);
        payload.clear();
        if len == 0 {
            return;
        }
        let (mut at, mut first) = match self.cursor {
            Some((at, first)) if seq::le(first, start) => (at, first),
            _ => (self.send.head, self.snd_una),
        };
        while at != NONE {
            let node = chunks.node(at);
            if seq::lt(start, first.wrapping_add(node.chunk.len)) {
                break;
            }
            first = first.wrapping_add(node.chunk.len);
            at = node.next;
        }
        let mut skip = start.wrapping_sub(first);
        let mut left = len;
        while at != NONE && left > 0 {
            let node = chunks.node(at);
            let mut part = node.chunk;
            part.offset += skip;
            part.len = (part.len - skip).min(left);
            if !payload.push(part) {
                break;
            }
            self.cursor = Some((at, first));
            left -= part.len;
            skip = 0;
            first = first.wrapping_add(node.chunk.len);
            at = node.next;
        }
    }
}
