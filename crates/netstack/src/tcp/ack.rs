//! Acknowledgements (RFC 9293, 3.10.7.4, fifth; RFC 5681; RFC 5961, 5).

use super::segment::Incoming;
use super::seq;
use super::state::{Context, Recovery, Tcb};
use crate::wire::tcp::FIN;

impl Tcb {
    /// Takes the acknowledgement, window and SACK ranges of a segment. `false` when the
    /// acknowledgement is none that we could get: the segment is to be dropped.
    pub fn acknowledged(&mut self, segment: &Incoming, context: &mut Context<'_>) -> bool {
        let header = &segment.header;
        // RFC 5961, 5.2: neither older than the largest window nor for data never sent.
        let oldest = self.snd_una.wrapping_sub(self.max_wnd);
        if seq::lt(header.ack, oldest) || seq::lt(self.snd_max, header.ack) {
            context.counters.challenge_acks += 1;
            self.receiver.acks_mut().challenge(context.now);
            return false;
        }
        let sack_news = self.terms.sack()
            && self.board.update(
                seq::max(self.snd_una, header.ack),
                self.snd_max,
                header.options.sack_ranges(),
            );
        let window_before = (self.snd_wnd, self.snd_una);
        if seq::lt(self.snd_una, header.ack) {
            self.new_data_acknowledged(segment, context);
        } else if header.ack == self.snd_una && self.is_duplicate(segment, sack_news) {
            context.counters.duplicate_acks += 1;
            self.duplicate_ack(context);
        }
        self.tail_answered(segment, context);
        self.update_window(segment);
        self.watch_tail(context);
        if self.snd_wnd != window_before.0 || self.snd_una != window_before.1 {
            self.window_changed(context);
        } else if self.snd_wnd == 0 {
            // The peer answers probes: it lives (RFC 9293, 3.8.6.1).
            self.timers.answered();
        }
        true
    }

    /// RFC 5681, 2: no data, nothing else new, data under way. With SACK, new ranges say it all
    /// (RFC 6675, 2).
    fn is_duplicate(&self, segment: &Incoming, sack_news: bool) -> bool {
        // Answers to probes of a closed window look the same.
        if !self.is_waiting() || self.timers.is_probing() {
            return false;
        }
        if self.terms.sack() {
            return sack_news;
        }
        segment.payload.len == 0
            && segment.header.flags & FIN == 0
            && u32::from(segment.header.window) << self.terms.peer_scale() == self.snd_wnd
    }

    fn new_data_acknowledged(&mut self, segment: &Incoming, context: &mut Context<'_>) {
        let ack = segment.header.ack;
        let flight = self.snd_max.wrapping_sub(self.snd_una);
        let mut bytes = ack.wrapping_sub(self.snd_una);
        // What is acknowledged beyond the data is our FIN.
        if bytes > self.send_bytes {
            bytes = self.send_bytes;
            self.fin_acked = true;
        }
        self.measure(segment, context);
        self.trim_sent(bytes, context);
        let mends = seq::lt(self.snd_una, self.resent);
        self.snd_una = ack;
        self.snd_nxt = seq::max(self.snd_nxt, ack);
        self.resent = seq::max(self.resent, ack);
        self.board.advance(ack);
        self.notices.acked(bytes);
        self.timers.answered();
        self.rto.progress();
        self.progress(bytes, flight, mends, context);
        if self.is_waiting() {
            self.timers.restart_retransmission(self.timeout_at(context));
        } else {
            self.timers.stop_retransmission();
        }
    }

    /// A round-trip time: of the timed segment, which was sent once (Karn's rule, RFC 6298, 3), or by
    /// the echoed timestamp where that was not possible (RFC 7323, 4).
    fn measure(&mut self, segment: &Incoming, context: &Context<'_>) {
        if let Some((awaited, sent)) = self.timed {
            if seq::le(awaited, segment.header.ack) {
                self.timed = None;
                self.rto.measured(context.now.since(sent), context.config);
            }
        } else if let (true, Some((_, echo))) =
            (self.terms.timestamps(), segment.header.options.timestamps)
            && self.recovery != Recovery::None
            && let Some(round_trip) = self.timestamps.round_trip(echo, context.now)
        {
            self.rto.measured(round_trip, context.config);
        }
    }

    /// Gives the first `bytes` of the sent data back.
    fn trim_sent(&mut self, mut bytes: u32, context: &mut Context<'_>) {
        self.send_bytes -= bytes;
        while bytes > 0 {
            let head = self.send.head;
            let node = context.chunks.node_mut(head);
            if node.chunk.len > bytes {
                node.chunk.offset += bytes;
                node.chunk.len -= bytes;
                if let Some((at, start)) = &mut self.cursor
                    && *at == head
                {
                    *start = start.wrapping_add(bytes);
                }
                return;
            }
            bytes -= node.chunk.len;
            if self.cursor.is_some_and(|(at, _)| at == head) {
                self.cursor = None;
            }
            context.chunks.pop(&mut self.send);
            self.notices.freed_range();
        }
    }

    /// RFC 9293, 3.10.7.4: only a newer segment may change the window.
    fn update_window(&mut self, segment: &Incoming) {
        let header = &segment.header;
        if seq::lt(header.ack, self.snd_una) {
            return;
        }
        if seq::lt(self.snd_wl1, header.seq)
            || (self.snd_wl1 == header.seq && seq::le(self.snd_wl2, header.ack))
        {
            self.set_window(segment);
        }
    }

    /// Takes the window of a segment.
    pub fn set_window(&mut self, segment: &Incoming) {
        let header = &segment.header;
        self.snd_wnd = u32::from(header.window) << self.terms.peer_scale();
        self.max_wnd = self.max_wnd.max(self.snd_wnd);
        (self.snd_wl1, self.snd_wl2) = (header.seq, header.ack);
    }

    /// The window moved: if it was closed, probing ends and what waited is sent.
    fn window_changed(&mut self, context: &Context<'_>) {
        if self.snd_wnd == 0 {
            if self.send_bytes > 0 {
                self.timers.start_retransmission(self.timeout_at(context));
            }
            return;
        }
        let was_probing = self.timers.window_open();
        if !self.is_waiting() {
            self.timers.stop_retransmission();
        } else if was_probing {
            // What went into the closed window was refused: it is sent again at once.
            self.snd_nxt = self.snd_una;
        }
    }
}
