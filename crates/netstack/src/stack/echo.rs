//! Echo (RFC 792, RFC 4443). The reply is sent from the request's buffer. A reply that is larger
//! than its path is fragmented, as the request was.

use super::Stack;
use super::receive::Datagram;
use super::replies::{Answer, Outline, Reply};
use crate::api::Time;
use crate::wire::ip;
use crate::wire::packet::Fragment;
use crate::wire::{be32, checksum, icmp};

impl Stack {
    /// Answers an echo request. Returns whether the stack keeps its buffer.
    pub(super) fn echo(&mut self, now: Time, datagram: &Datagram<'_>) -> bool {
        let v4 = datagram.packet.source.is_v4();
        let message = datagram.payload();
        // An echo request to a group gets no reply.
        if !datagram.unicast {
            self.counters.replies_suppressed += 1;
            return false;
        }
        if !self
            .replies
            .may_answer(Answer::Icmp, now, &mut self.counters)
        {
            return false;
        }
        let most = self.routes.mtu_bytes(&datagram.packet.destination);
        let mtu_bytes = self.paths.mtu(&datagram.packet.source, most, now) as usize;
        let kind = if v4 { 0 } else { 129 };
        let identifier = be32(message, 4).to_be_bytes();
        let sent = if message.len() + ip::header_bytes(v4) <= mtu_bytes {
            let chunk = datagram.chunk(icmp::HEADER_BYTES, message.len());
            self.icmp_reply(datagram, [kind, 0], identifier, &[], chunk)
        } else {
            self.echo_in_fragments(datagram, kind, identifier, mtu_bytes)
        };
        self.counters.echo_replies += u64::from(sent);
        sent
    }

    /// Sends all fragments of a reply or none: their number is about that of the request's
    /// fragments.
    fn echo_in_fragments(
        &mut self,
        datagram: &Datagram<'_>,
        kind: u8,
        identifier: [u8; 4],
        mtu_bytes: usize,
    ) -> bool {
        let packet = datagram.packet;
        let (v4, message) = (packet.source.is_v4(), datagram.payload());
        let outline = Outline {
            source: &packet.destination,
            destination: &packet.source,
            protocol: if v4 { ip::ICMP } else { ip::ICMPV6 },
            hop_limit: super::transmit::HOP_LIMIT,
        };
        // All fragments but the last carry a multiple of eight bytes.
        let room = (mtu_bytes - ip::header_bytes(v4) - ip::fragment_bytes(v4)) & !7;
        if self.replies.room() < message.len().div_ceil(room) {
            self.counters.replies_suppressed += 1;
            return false;
        }
        // The first fragment contains the checksum over all of them, so it is computed in software.
        let mut header = [0; icmp::HEADER_BYTES];
        icmp::write(&mut header, kind, 0, 0, identifier);
        let pseudo = if v4 {
            0
        } else {
            ip::pseudo_sum(
                outline.source,
                outline.destination,
                outline.protocol,
                message.len(),
            )
        };
        let data = checksum::sum(&message[icmp::HEADER_BYTES..]);
        let sum = !checksum::add(checksum::add(pseudo, checksum::sum(&header)), data);
        icmp::write(&mut header, kind, 0, sum, identifier);

        let id = self.fragment_ids.next(outline.destination);
        for start in (0..message.len()).step_by(room) {
            let end = message.len().min(start + room);
            let more = end < message.len();
            let fragment = Fragment {
                id,
                offset: start as u32,
                more,
            };
            // The first fragment contains the reply's own header.
            let head: &[u8] = if start == 0 { &header } else { &[] };
            let chunk = datagram.chunk(start + head.len(), end);
            let reply = Reply::fragment(
                self.routes.reply_route(datagram.interface, datagram.mac),
                &outline,
                &fragment,
                head,
                chunk.len as usize,
            );
            let reply = if more {
                reply.with_part(chunk)
            } else {
                reply.with_payload(chunk)
            };
            self.replies.push(reply, &mut self.counters);
            self.counters.fragments_sent += 1;
        }
        true
    }
}
