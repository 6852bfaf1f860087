//! Received frames: Ethernet, ARP, IPv4 and IPv6, with dispatch to ICMP, UDP and TCP.

use super::Stack;
use super::fragment::Outcome;
use super::neighbour::Claim;
use super::route::Hop;
use crate::api::{BufferId, BufferPool, Chunk, Disposition, InterfaceId, MacAddress, Time};
use crate::wire::packet::{Packet, PacketError};
use crate::wire::{arp, ethernet, ip, ipv4, ipv6};

/// IP datagram in a buffer: whole in its frame, or reassembled from fragments.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    pub packet: &'a Packet,
    /// Bytes from the IP header on, or only the payload of a reassembled datagram.
    pub bytes: &'a [u8],
    /// Offset of `bytes` in the buffer.
    pub base: u32,
    pub buffer: BufferId,
    /// Interface that received the frame.
    pub interface: InterfaceId,
    /// Sender of the frame.
    pub mac: MacAddress,
    /// Whether the frame was addressed to this station and not to a group.
    pub unicast: bool,
    pub reassembled: bool,
    /// Protocol in the IP header. In a reassembled datagram it is that of the first bytes.
    pub first_protocol: u8,
}

/// Data from the frame of a datagram.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    interface: InterfaceId,
    mac: MacAddress,
    /// Whether the frame's destination is this station and no group.
    to_station: bool,
}

impl<'a> Datagram<'a> {
    /// A datagram that is whole in its frame; `bytes` are behind the frame's header.
    fn whole(packet: &'a Packet, bytes: &'a [u8], buffer: BufferId, arrival: Arrival) -> Self {
        Datagram {
            packet,
            bytes,
            base: ethernet::HEADER_BYTES as u32,
            buffer,
            interface: arrival.interface,
            mac: arrival.mac,
            unicast: arrival.to_station && !packet.destination.is_multicast(),
            reassembled: false,
            first_protocol: packet.protocol,
        }
    }
}

impl Datagram<'_> {
    /// Bytes behind the IP header.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.packet.payload_at..self.packet.end]
    }

    /// The payload from `at` to `end` as a range of the buffer.
    pub fn chunk(&self, at: usize, end: usize) -> Chunk {
        let start = self.packet.payload_at + at;
        Chunk {
            buffer: self.buffer,
            offset: self.base + start as u32,
            len: (end - at) as u32,
        }
    }

    /// Whether the sum over pseudo header and payload is correct.
    pub fn sum_is_right(&self, len: usize) -> bool {
        let pseudo = ip::pseudo_sum(
            &self.packet.source,
            &self.packet.destination,
            self.packet.protocol,
            len,
        );
        crate::wire::checksum::add(pseudo, crate::wire::checksum::sum(&self.payload()[..len]))
            == 0xffff
    }
}

impl Stack {
    /// Processes an Ethernet frame (without its check sequence) that an interface received and that
    /// is in the caller's `buffer`.
    pub fn handle_frame(
        &mut self,
        now: Time,
        interface: InterfaceId,
        frame: &[u8],
        buffer: BufferId,
        pool: &mut impl BufferPool,
    ) -> Disposition {
        self.counters.frames_received += 1;
        let keeps_buffer = self.frame(now, interface, frame, buffer, pool);
        if keeps_buffer {
            Disposition::Held
        } else {
            Disposition::Free
        }
    }

    fn frame(
        &mut self,
        now: Time,
        interface: InterfaceId,
        frame: &[u8],
        buffer: BufferId,
        pool: &mut impl BufferPool,
    ) -> bool {
        let Some(header) = ethernet::parse(frame) else {
            self.counters.malformed += 1;
            return false;
        };
        if !self.routes.has(interface) {
            self.counters.frames_not_ours += 1;
            return false;
        }
        let to_station = header.destination == self.routes.mac(interface);
        if !(to_station || header.destination.0[0] & 1 == 1) || !header.source.is_unicast() {
            self.counters.frames_not_ours += 1;
            return false;
        }
        let arrival = Arrival {
            interface,
            mac: header.source,
            to_station,
        };
        let bytes = &frame[ethernet::HEADER_BYTES..];
        let packet = match header.kind {
            ethernet::ARP => {
                self.arp(now, interface, bytes, header.source);
                return false;
            }
            ethernet::IPV4 => ipv4::parse(bytes, self.config.received_checksums_verified),
            ethernet::IPV6 => ipv6::parse(bytes),
            _ => {
                self.counters.frames_not_ours += 1;
                return false;
            }
        };
        let packet = match packet {
            Ok(packet) => packet,
            Err(PacketError::Malformed) => {
                self.counters.malformed += 1;
                return false;
            }
            Err(PacketError::Checksum) => {
                self.counters.bad_checksum += 1;
                return false;
            }
            Err(PacketError::Problem(problem)) => {
                self.counters.malformed += 1;
                let Ok(packet) = ipv6::parse_header(bytes) else {
                    return false;
                };
                let datagram = Datagram::whole(&packet, bytes, buffer, arrival);
                return self.is_for_us(&datagram, true, true)
                    && self.parameter_problem(now, &datagram, problem);
            }
        };
        let mut datagram = Datagram::whole(&packet, bytes, buffer, arrival);
        // Only neighbour discovery uses groups.
        let is_v6 = header.kind == ethernet::IPV6;
        let takes_groups = packet.protocol == ip::ICMPV6;
        if !self.is_for_us(&datagram, is_v6, takes_groups) {
            return false;
        }
        let Some(fragment) = packet.fragment else {
            return self.datagram(now, &datagram);
        };
        self.counters.fragments += 1;
        let (slot, len) = match self
            .fragments
            .take(&packet, &fragment, datagram.payload(), now)
        {
            Outcome::Kept => return false,
            Outcome::Dropped => {
                self.counters.fragments_dropped += 1;
                return false;
            }
            Outcome::Complete { slot, len } => (slot, len),
        };
        // A release of the buffer needs a free range.
        let room = self.ranges.free() > 0;
        let copied = if room {
            pool.copy_in(self.fragments.bytes(slot, len))
        } else {
            None
        };
        let Some(buffer) = copied else {
            self.counters.fragments_dropped += 1;
            return false;
        };
        self.counters.reassembled += 1;
        let all = self.fragments.lend(slot);
        let mut whole = Packet {
            payload_at: 0,
            end: len,
            fragment: None,
            ..packet
        };
        (datagram.bytes, datagram.base) = (&all, 0);
        (datagram.buffer, datagram.reassembled) = (buffer, true);
        // In IPv6 the headers behind the fragment header are parsed now (RFC 8200, 4.5).
        let followed = match is_v6 {
            true => ipv6::follow_whole(&all, &mut whole),
            false => Ok(()),
        };
        datagram.packet = &whole;
        let keeps_buffer = match followed {
            Ok(()) => self.datagram(now, &datagram),
            Err(PacketError::Problem(problem)) => {
                self.counters.malformed += 1;
                self.parameter_problem(now, &datagram, problem)
            }
            Err(_) => {
                self.counters.malformed += 1;
                false
            }
        };
        if !keeps_buffer {
            self.ranges.release(buffer);
        }
        self.fragments.return_bytes(slot, all);
        false
    }

    /// Whether the stack accepts a packet: its destination is an address of the receiving interface
    /// or, if allowed, a joined group, and its source is valid (RFC 1122, 3.2.1.3).
    fn is_for_us(&mut self, datagram: &Datagram<'_>, v6: bool, takes_groups: bool) -> bool {
        let Packet {
            source,
            destination,
            ..
        } = datagram.packet;
        // The packet has an IPv4-mapped address in an IPv6 header.
        if v6 && (source.is_v4() || destination.is_v4()) {
            self.counters.spoofed += 1;
            return false;
        }
        let interface = datagram.interface;
        let group = v6 && takes_groups && self.routes.is_our_group(interface, destination);
        if !group && !self.routes.is_ours_at(interface, destination) {
            self.counters.frames_not_ours += 1;
            return false;
        }
        // Duplicate address detection has an unspecified source.
        let detection = group && source.is_unspecified();
        let honest = source.is_unicast()
            && !self.routes.is_ours(source)
            && !self.routes.is_broadcast(source);
        if !honest && !detection {
            self.counters.spoofed += 1;
            return false;
        }
        true
    }

    /// Dispatches a whole datagram for this stack. Returns whether the stack keeps its buffer.
    fn datagram(&mut self, now: Time, datagram: &Datagram<'_>) -> bool {
        let v4 = datagram.packet.source.is_v4();
        match datagram.packet.protocol {
            ip::TCP => self.tcp(now, datagram),
            ip::UDP => self.udp_in(now, datagram),
            ip::ICMP if v4 => self.icmp(now, datagram),
            ip::ICMPV6 if !v4 => self.icmp(now, datagram),
            _ => self.unknown_protocol(now, datagram),
        }
    }

    /// Processes an ARP message (RFC 826): learns the sender's address, and answers questions.
    fn arp(&mut self, now: Time, interface: InterfaceId, bytes: &[u8], from: MacAddress) {
        let Some(message) = arp::parse(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let is_for_us = self.routes.is_ours_at(interface, &message.target);
        let probe = message.sender.is_unspecified();
        let honest = message.sender.is_unicast()
            && !self.routes.is_ours(&message.sender)
            && self.routes.is_on_link(interface, &message.sender)
            && message.sender_mac.is_unicast()
            && message.sender_mac == from;
        let claim = match (is_for_us, message.operation) {
            (false, _) => Claim::Announcement,
            (true, arp::REQUEST) => Claim::Question,
            (true, _) => Claim::Answer,
        };
        if is_for_us && !honest && !probe {
            self.counters.spoofed += 1;
            return;
        }
        if honest {
            let ip = message.sender;
            self.process_claim(now, &Hop { interface, ip }, Some(from), claim);
        }
        if !is_for_us {
            self.counters.frames_not_ours += 1;
            return;
        }
        self.counters.neighbour_messages += 1;
        if claim == Claim::Question {
            let route = self.routes.reply_route(interface, from);
            self.answer_arp(&message, route);
        }
    }
}
