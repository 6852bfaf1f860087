//! Stateless handshakes with SYN cookies (RFC 4987, 3.6).

use super::Stack;
use super::receive::Datagram;
use super::transmit::segment_bytes;
use crate::api::Time;
use crate::flow::FlowKey;
use crate::tcp::segment::{Incoming, Outgoing};
use crate::tcp::syncookie::Cookies;
use crate::tcp::terms::{agreed_mss, receive_scale};
use crate::wire::tcp::{ACK, Options, SYN};

impl Stack {
    /// Answers a SYN with a cookie and stores nothing.
    pub(super) fn send_cookie(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
    ) {
        let theirs = &segment.header.options;
        let tcp = &self.config.tcp;
        let ours = segment_bytes(self.routes.mtu_bytes(&key.local), key.local.is_v4());
        let mss = agreed_mss(theirs.mss, ours, key.local.is_v4());
        let seq = self.cookies.make(key, segment.header.seq, mss, now);
        let offset = self.numbers.timestamp_offset(key);
        let stamps = theirs.timestamps.filter(|_| tcp.timestamps);
        // Without a timestamp the other options cannot be encoded, and none is in use.
        let scale = theirs
            .scale
            .filter(|_| tcp.window_scaling && stamps.is_some());
        let sack = tcp.sack && theirs.sack_permitted && stamps.is_some();
        let options = Options {
            mss: Some(ours),
            scale: scale.map(|_| receive_scale(tcp)),
            sack_permitted: sack,
            timestamps: stamps
                .map(|(value, _)| (Cookies::timestamp(now, offset, scale, sack), value)),
            ..Options::default()
        };
        self.counters.cookies_sent += 1;
        let answer = Outgoing {
            seq,
            ack: segment.header.seq.wrapping_add(1),
            flags: SYN | ACK,
            window: tcp.receive_window_bytes.min(0xffff) as u16,
            options,
            ..Outgoing::default()
        };
        self.reply_segment(datagram, key, &answer);
    }

    /// Processes an ACK that may return a cookie. Returns `None` if the cookie is invalid, else the
    /// slot of the connection that it opens, unless a table is full.
    pub(super) fn cookie(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
        listener: u32,
    ) -> Option<Option<u32>> {
        let header = &segment.header;
        let (irs, iss) = (header.seq.wrapping_sub(1), header.ack.wrapping_sub(1));
        let Some(mss) = self.cookies.check(key, irs, iss, now) else {
            self.counters.cookies_refused += 1;
            return None;
        };
        if self.listeners.get(listener).is_full() || self.connections.is_full() {
            // The peer regards the connection as open. It will send its data, and with it the
            // cookie, again.
            self.counters.backlog_full += 1;
            return Some(None);
        }
        let options = Cookies::options(mss, header.options.timestamps.map(|(_, echo)| echo));
        let mut syn = *segment;
        syn.header.seq = irs;
        syn.header.options = Options {
            mss: Some(options.mss),
            scale: options.scale,
            sack_permitted: options.sack,
            timestamps: header.options.timestamps,
            ..Options::default()
        };
        let mut connection = self.half_open(now, datagram, key, &syn, listener, None);
        connection.tcb.answered_by_cookie(iss);
        let slot = self.insert(connection)?;
        self.counters.cookies_accepted += 1;
        self.listeners.add_half_open(listener);
        Some(Some(slot))
    }
}
