//! ICMP and ICMPv6: received errors (RFC 5927) and sent errors (RFC 1122, 3.2.2; RFC 4443, 2.4).

use super::Stack;
use super::flows::Place;
use super::receive::Datagram;
use super::replies::{Answer, Outline, Reply};
use super::route::Hop;
use crate::api::{Chunk, DeadReason, Time};
use crate::flow::FlowKey;
use crate::wire::icmp::{self, Message};
use crate::wire::ip;
use crate::wire::ipv6::Problem;
use crate::wire::packet::Packet;
use crate::wire::{be16, be32, ipv4, ipv6};

/// Largest part of a packet that an error quotes, in bytes: the whole error has at most 576 bytes
/// (RFC 1812, 4.3.2.3), in IPv6 1280.
const QUOTE_V4: usize = 576 - 28;
const QUOTE_V6: usize = 1280 - 48;

impl Stack {
    /// Processes an ICMP message. Returns whether the stack keeps its buffer.
    pub(super) fn icmp(&mut self, now: Time, datagram: &Datagram<'_>) -> bool {
        let payload = datagram.payload();
        let v4 = datagram.packet.source.is_v4();
        let Some(message) = icmp::parse(payload, v4) else {
            self.counters.malformed += 1;
            return false;
        };
        let right = if v4 {
            crate::wire::checksum::sum(payload) == 0xffff
        } else {
            datagram.sum_is_right(payload.len())
        };
        let verified = self.config.received_checksums_verified && !datagram.reassembled;
        if !verified && !right {
            self.counters.bad_checksum += 1;
            return false;
        }
        match message {
            Message::EchoRequest => return self.echo(now, datagram),
            Message::Neighbour(kind) => self.neighbour_message(now, datagram, kind),
            _ if message.is_error() => self.icmp_error(now, datagram, message),
            _ => self.counters.frames_not_ours += 1,
        }
        false
    }

    /// Sends an ICMP message to the sender of `datagram`, with `head` and a part of its frame as
    /// data.
    pub(super) fn icmp_reply(
        &mut self,
        datagram: &Datagram<'_>,
        [kind, code]: [u8; 2],
        rest: [u8; 4],
        head: &[u8],
        chunk: Chunk,
    ) -> bool {
        let packet = datagram.packet;
        let v4 = packet.source.is_v4();
        let protocol = if v4 { ip::ICMP } else { ip::ICMPV6 };
        let written = icmp::HEADER_BYTES + head.len();
        // Only ICMPv6 has a pseudo header.
        let sum = if v4 {
            0
        } else {
            let len = written + chunk.len as usize;
            ip::pseudo_sum(&packet.destination, &packet.source, protocol, len)
        };
        let outline = Outline {
            source: &packet.destination,
            destination: &packet.source,
            protocol,
            hop_limit: super::transmit::HOP_LIMIT,
        };
        let mut reply = Reply::ip(
            self.routes.reply_route(datagram.interface, datagram.mac),
            &outline,
            written,
            chunk.len as usize,
        );
        let body = reply.body(v4);
        icmp::write(body, kind, code, sum, rest);
        body[icmp::HEADER_BYTES..written].copy_from_slice(head);
        let reply = reply.with_checksum(v4, 2).with_payload(chunk);
        self.replies.push(reply, &mut self.counters)
    }

    pub(super) fn port_unreachable(&mut self, now: Time, datagram: &Datagram<'_>) -> bool {
        let v4 = datagram.packet.source.is_v4();
        if v4 {
            self.error(now, datagram, 3, 3, 0)
        } else {
            self.error(now, datagram, 1, 4, 0)
        }
    }

    /// Reports an unsupported protocol. "No next header" (RFC 8200, 4.7) is ignored.
    pub(super) fn unknown_protocol(&mut self, now: Time, datagram: &Datagram<'_>) -> bool {
        self.counters.frames_not_ours += 1;
        if datagram.packet.source.is_v4() {
            return self.error(now, datagram, 3, 2, 0);
        }
        let problem = Problem::of_protocol(datagram.packet);
        problem.is_some_and(|problem| self.parameter_problem(now, datagram, problem))
    }

    /// Reports a parameter problem to the sender of an IPv6 packet (RFC 8200, 4; RFC 4443, 3.4).
    /// Returns whether the stack keeps the buffer.
    pub(super) fn parameter_problem(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        problem: Problem,
    ) -> bool {
        // No error answers an unspecified source or another error (RFC 4443, 2.4 e).
        let packet = datagram.packet;
        let is_error = || ipv6::is_icmp_error(datagram.bytes, packet.protocol, packet.payload_at);
        if packet.source.is_unspecified() || is_error() {
            return false;
        }
        if datagram.unicast || !problem.is_for_groups {
            return self.error(now, datagram, 4, problem.code, problem.pointer);
        }
        // The packet was sent to a group, so the error needs an address of this stack as its
        // source.
        let hop = Hop {
            interface: datagram.interface,
            ip: datagram.packet.source,
        };
        let Some(ours) = self.routes.source_at(&hop) else {
            return false;
        };
        let packet = Packet {
            destination: ours,
            ..*datagram.packet
        };
        let from_ours = Datagram {
            packet: &packet,
            unicast: true,
            ..*datagram
        };
        self.error(now, &from_ours, 4, problem.code, problem.pointer)
    }

    /// Sends an error that quotes the packet, unless that was sent to a group. The caller excludes
    /// ICMP errors. Returns whether the stack keeps the buffer.
    fn error(&mut self, now: Time, datagram: &Datagram<'_>, kind: u8, code: u8, rest: u32) -> bool {
        let packet = datagram.packet;
        let v4 = packet.source.is_v4();
        if !datagram.unicast {
            return false;
        }
        if !self
            .replies
            .may_answer(Answer::Icmp, now, &mut self.counters)
        {
            return false;
        }
        // A reassembled packet has no header of its own, so one is written.
        let mut head = [0; ipv6::HEADER_BYTES];
        let head = if datagram.reassembled {
            let head = &mut head[..ip::header_bytes(v4)];
            ip::write(
                head,
                &packet.source,
                &packet.destination,
                datagram.first_protocol,
                packet.hop_limit,
                packet.end,
            );
            &*head
        } else {
            &[]
        };
        let most = if v4 { QUOTE_V4 } else { QUOTE_V6 } - head.len();
        let chunk = Chunk {
            buffer: datagram.buffer,
            offset: datagram.base,
            len: packet.end.min(most) as u32,
        };
        let sent = self.icmp_reply(datagram, [kind, code], rest.to_be_bytes(), head, chunk);
        self.counters.icmp_errors_sent += u64::from(sent);
        sent
    }

    /// Processes an error about a packet of this stack. The quoted packet must belong to a
    /// connection and contain a sequence number in flight (RFC 5927, 4).
    fn icmp_error(&mut self, now: Time, datagram: &Datagram<'_>, message: Message) {
        let quoted = &datagram.payload()[icmp::HEADER_BYTES..];
        let Some((packet, ports)) = quoted_packet(quoted, datagram.packet.source.is_v4()) else {
            self.counters.icmp_errors_ignored += 1;
            return;
        };
        let key = FlowKey {
            local: packet.source,
            remote: packet.destination,
            local_port: be16(ports, 0),
            remote_port: be16(ports, 2),
        };
        let at = be32(ports, 4);
        let found = (packet.protocol == ip::TCP).then(|| self.find(&key));
        let slot_in_flight = match found.flatten() {
            Some(Place::Connection(slot)) => {
                Some(slot).filter(|slot| self.connections.tcb(*slot).is_in_flight(at))
            }
            _ => None,
        };
        let Some(slot) = slot_in_flight else {
            self.counters.icmp_errors_ignored += 1;
            return;
        };
        self.counters.icmp_errors += 1;
        match message {
            Message::TooBig { mtu_bytes } => {
                let most = self.routes.mtu_bytes(&key.local);
                let current = self.paths.mtu(&key.remote, most, now);
                if let Some(mtu) = self.paths.too_big(&key.remote, mtu_bytes, current, now) {
                    self.counters.path_mtu_reduced += 1;
                    self.path_shrank(slot, mtu);
                }
            }
            Message::PortUnreachable => self.unreachable(now, slot, true, DeadReason::Refused),
            Message::Unreachable { hard } => {
                self.unreachable(now, slot, hard, DeadReason::Unreachable);
            }
            // Soft errors (RFC 9293, 3.9.2.2).
            Message::TimeExceeded | Message::ParameterProblem => {
                self.unreachable(now, slot, false, DeadReason::Unreachable);
            }
            _ => {}
        }
    }

    /// Processes a router's report that the peer of a connection is unreachable.
    fn unreachable(&mut self, now: Time, slot: u32, hard: bool, reason: DeadReason) {
        let tcb = self.connections.tcb_mut(slot);
        if tcb.unreachable(hard, reason) {
            let context = &mut self.ranges.context(&self.config, &mut self.counters, now);
            tcb.end(reason, context);
            self.update_tables(slot);
        }
    }

    /// Reduces the segments of a connection to a smaller path MTU, and retransmits the data in
    /// flight (RFC 1191, 6.4).
    pub(super) fn path_shrank(&mut self, slot: u32, mtu_bytes: u32) {
        let tcb = self.connections.tcb_mut(slot);
        if tcb.fit_path(mtu_bytes) {
            tcb.retransmit_all();
        }
        self.update_tables(slot);
    }
}

/// Header of a quoted packet, which is truncated, and the eight bytes behind it.
fn quoted_packet(quoted: &[u8], v4: bool) -> Option<(Packet, &[u8])> {
    let mut whole = [0; 64];
    let head = &quoted[..quoted.len().min(64)];
    whole[..head.len()].copy_from_slice(head);
    // The length in the quotation is that of the whole packet; here only the header matters.
    let packet = if v4 {
        let len = ((usize::from(*quoted.first()? & 15) * 4) as u16).to_be_bytes();
        whole[2..4].copy_from_slice(&len);
        ipv4::parse(&whole, true).ok()?
    } else {
        whole[4..6].copy_from_slice(&24u16.to_be_bytes());
        ipv6::parse(&whole).ok()?
    };
    let first = packet.fragment.is_none_or(|fragment| fragment.offset == 0);
    let ports = quoted.get(packet.payload_at..packet.payload_at + 8)?;
    first.then_some((packet, ports))
}
