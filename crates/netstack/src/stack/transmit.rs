//! Frames to send: replies first, then datagrams, then connections in turn.

use super::Stack;
use super::resolve::NextHop;
use super::timers::Timer;
use crate::api::{
    Checksum, DeadReason, InterfaceId, MAX_HEADER_BYTES, MOST_IP_BYTES, MacAddress, Payload, Time,
    Transmit,
};
use crate::flow::FlowKey;
use crate::tcp::segment::Outgoing;
use crate::wire::{ethernet, ip, tcp};

/// Largest payload of a packet of several segments, whatever its headers.
const MOST_PAYLOAD_BYTES: u32 = (MOST_IP_BYTES - MAX_HEADER_BYTES) as u32;

/// Hop limit of sent packets (recommended default of RFC 1700).
pub const HOP_LIMIT: u8 = 64;

/// TCP header of a segment.
pub fn header(key: &FlowKey, segment: &Outgoing) -> tcp::Segment {
    tcp::Segment {
        source_port: key.local_port,
        destination_port: key.remote_port,
        seq: segment.seq,
        ack: segment.ack,
        flags: segment.flags,
        window: segment.window,
        urgent: segment.urgent,
        header_len: 0,
        options: segment.options,
    }
}

/// Segment size that our SYN announces for an address family.
pub fn segment_bytes(mtu_bytes: u32, v4: bool) -> u16 {
    let headers = ip::header_bytes(v4) + tcp::HEADER_BYTES;
    (mtu_bytes as usize - headers) as u16
}

impl Stack {
    /// Whether [`Self::poll_transmit`] may return a frame.
    pub fn has_transmit(&self) -> bool {
        !self.replies.is_empty() || self.udp.has_sends() || self.connections.has_ready()
    }

    /// Returns the next frame to send, and writes its headers to the start of `out`. The caller
    /// repeats this until `None`, once in a turn of its loop, after the application's calls. Also
    /// returns `None` if `out` is shorter than [`MAX_HEADER_BYTES`].
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        if out.len() < MAX_HEADER_BYTES {
            return None;
        }
        let sent = self.poll_frame(now, out);
        self.counters.frames_sent += u64::from(sent.is_some());
        sent
    }

    fn poll_frame(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        if !self.replies.is_empty() {
            return self.poll_reply(out);
        }
        if self.udp.has_sends()
            && let Some(sent) = self.poll_datagram(now, out)
        {
            return Some(sent);
        }
        if let Some(sent) = self.poll_segment(now, out) {
            return Some(sent);
        }
        // The lookup of a neighbour may have queued a reply.
        self.poll_reply(out)
    }

    fn poll_reply(&mut self, out: &mut [u8]) -> Option<Transmit> {
        self.replies.pop().map(|reply| reply.write(out))
    }

    fn poll_segment(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        while let Some(slot) = self.connections.pop_ready() {
            let Some(mac) = self.mac_for(slot, now) else {
                continue;
            };
            let tcb = self.connections.tcb_mut(slot);
            let (mtu_bytes, segmentation) = self.routes.packets(&tcb.key.local);
            // A SYN announces the path MTU if it is known: the reverse path is often the same.
            let path_bytes = if tcb.is_opening() {
                self.paths.mtu(&tcb.key.remote, mtu_bytes, now)
            } else {
                mtu_bytes
            };
            let our_mss = segment_bytes(path_bytes, tcb.key.local.is_v4());
            let mut context = self.ranges.context(&self.config, &mut self.counters, now);
            if segmentation {
                context.most_packet_bytes = MOST_PAYLOAD_BYTES;
            }
            let segment = tcb.output(our_mss, &mut context);
            let key = tcb.key;
            if let Some(at) = tcb.deadline() {
                self.timers.arm_no_later(Timer::Connection(slot), at);
            }
            match segment {
                Some(segment) => {
                    if self.connections.tcb(slot).may_have_more() {
                        // The connection waits its turn behind the others.
                        self.connections.append_ready(slot);
                    } else {
                        self.connections.unready(slot);
                    }
                    return Some(self.write_segment(out, &key, mac, &segment));
                }
                None => self.connections.unready(slot),
            }
        }
        None
    }

    /// Ethernet address for the segments of a ready connection. Returns `None` if it cannot send
    /// now, and removes it from the list of ready ones.
    fn mac_for(&mut self, slot: u32, now: Time) -> Option<MacAddress> {
        let connection = self.connections.get(slot);
        if connection.tcb.notices.has_ended() {
            self.connections.unready(slot);
            self.connections.free_if_done(slot);
            return None;
        }
        if let Some(mac) = connection.next_hop(self.neighbours.epoch()) {
            return Some(mac);
        }
        let (key, reader) = (connection.tcb.key, connection.reader());
        match self.resolve(&key, reader, now) {
            NextHop::Mac(mac) => {
                let epoch = self.neighbours.epoch();
                self.connections.get_mut(slot).found(mac, epoch);
                Some(mac)
            }
            NextHop::Wait => {
                self.connections.wait(slot);
                None
            }
            NextHop::Busy => {
                self.try_later(slot, now);
                None
            }
            NextHop::Nowhere => {
                self.connections.unready(slot);
                let tcb = self.connections.tcb_mut(slot);
                tcb.end(
                    DeadReason::Unreachable,
                    &mut self.ranges.context(&self.config, &mut self.counters, now),
                );
                self.update_tables(slot);
                None
            }
        }
    }

    fn write_segment(
        &self,
        out: &mut [u8],
        key: &FlowKey,
        mac: MacAddress,
        segment: &Outgoing,
    ) -> Transmit {
        let header = header(key, segment);
        let len = tcp::HEADER_BYTES + header.options.len();
        let total = len + segment.len as usize;
        let (interface, at) = self.write_headers(out, mac, key, ip::TCP, total);
        if segment.is_ecn_capable {
            ip::allow_marks(&mut out[ethernet::HEADER_BYTES..], key.local.is_v4());
        }
        let sum = ip::pseudo_sum(&key.local, &key.remote, ip::TCP, total);
        tcp::write(&mut out[at..], &header, sum);
        let checksum = Checksum {
            start: at as u16,
            offset: 16,
            zero_means_none: false,
        };
        Transmit {
            interface,
            header_len: at + len,
            payload: self.ranges.payload(),
            cut: (segment.segments > 1).then(|| (segment.len / segment.segments) as u16),
            checksum: Some(checksum),
            release: None,
        }
    }

    /// Writes Ethernet and IP headers. Returns the outgoing interface and the headers' length.
    pub(super) fn write_headers(
        &self,
        out: &mut [u8],
        mac: MacAddress,
        key: &FlowKey,
        protocol: u8,
        len: usize,
    ) -> (InterfaceId, usize) {
        let v4 = key.local.is_v4();
        let interface = self.routes.interface_of(&key.local);
        ethernet::write(
            out,
            mac,
            self.routes.mac(interface),
            if v4 { ethernet::IPV4 } else { ethernet::IPV6 },
        );
        ip::write(
            &mut out[ethernet::HEADER_BYTES..],
            &key.local,
            &key.remote,
            protocol,
            HOP_LIMIT,
            len,
        );
        (interface, ethernet::HEADER_BYTES + ip::header_bytes(v4))
    }

    /// Writes the headers of a datagram's frame.
    pub(super) fn write_datagram(
        &self,
        out: &mut [u8],
        mac: MacAddress,
        key: &FlowKey,
        payload: Payload,
    ) -> Transmit {
        let total = crate::wire::udp::HEADER_BYTES + payload.len();
        let (interface, at) = self.write_headers(out, mac, key, ip::UDP, total);
        let sum = ip::pseudo_sum(&key.local, &key.remote, ip::UDP, total);
        crate::wire::udp::write(&mut out[at..], key.local_port, key.remote_port, total, sum);
        let checksum = Checksum {
            start: at as u16,
            offset: 6,
            zero_means_none: true,
        };
        Transmit {
            interface,
            header_len: at + crate::wire::udp::HEADER_BYTES,
            payload,
            cut: None,
            checksum: Some(checksum),
            release: None,
        }
    }
}
