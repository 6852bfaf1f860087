//! TCP segments without a connection: RSTs, cookies, and the last ACK.

use super::Stack;
use super::receive::Datagram;
use super::replies::{Answer, Outline, Reply};
use crate::api::{MacAddress, Time};
use crate::flow::FlowKey;
use crate::tcp::segment::{Incoming, Outgoing};
use crate::wire::ip;
use crate::wire::tcp::Options;

impl Stack {
    /// Answers a segment without a connection with an RST.
    pub(super) fn refuse(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
    ) {
        self.refuse_with(now, datagram, key, segment, Options::default());
    }

    /// Answers a segment that its connection refuses with an RST with these options.
    pub(super) fn refuse_with(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
        options: Options,
    ) {
        let Some(mut reset) = crate::tcp::segment::reset_for(segment) else {
            return;
        };
        reset.options = options;
        if !self
            .replies
            .may_answer(Answer::Reset, now, &mut self.counters)
        {
            return;
        }
        self.counters.resets_sent += 1;
        self.reply_segment(datagram, key, &reset);
    }

    /// Sends a segment without a connection to the sender of `datagram`.
    pub(super) fn reply_segment(
        &mut self,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Outgoing,
    ) {
        let header = super::transmit::header(key, segment);
        let len = crate::wire::tcp::HEADER_BYTES + header.options.len();
        let sum = crate::wire::ip::pseudo_sum(&key.local, &key.remote, crate::wire::ip::TCP, len);
        let outline = Outline {
            source: &key.local,
            destination: &key.remote,
            protocol: crate::wire::ip::TCP,
            hop_limit: super::transmit::HOP_LIMIT,
        };
        let v4 = key.local.is_v4();
        let route = self.routes.reply_route(datagram.interface, datagram.mac);
        let mut reply = Reply::ip(route, &outline, len, 0);
        crate::wire::tcp::write(reply.body(v4), &header, sum);
        let sent = self
            .replies
            .push(reply.with_checksum(v4, 16), &mut self.counters);
        self.counters.segments_sent += u64::from(sent);
    }

    /// Sends the RST of a connection that ends.
    pub(super) fn reset_peer(
        &mut self,
        key: &FlowKey,
        (mac, reader): (MacAddress, u8),
        segment: &Outgoing,
        now: Time,
    ) {
        let to = match self.resolve(key, reader, now) {
            super::resolve::NextHop::Mac(mac) => mac,
            _ if mac.is_unicast() => mac,
            _ => return,
        };
        let v4 = key.local.is_v4();
        let len = crate::wire::tcp::HEADER_BYTES + segment.options.len();
        let outline = Outline {
            source: &key.local,
            destination: &key.remote,
            protocol: ip::TCP,
            hop_limit: super::transmit::HOP_LIMIT,
        };
        let route = self
            .routes
            .reply_route(self.routes.interface_of(&key.local), to);
        let mut reply = Reply::ip(route, &outline, len, 0);
        let sum = ip::pseudo_sum(&key.local, &key.remote, ip::TCP, len);
        crate::wire::tcp::write(reply.body(v4), &super::transmit::header(key, segment), sum);
        let sent = self
            .replies
            .push(reply.with_checksum(v4, 16), &mut self.counters);
        self.counters.resets_sent += u64::from(sent);
    }
}
