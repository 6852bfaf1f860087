//! Frames of no connection: ARP, neighbour discovery, ICMP, RSTs. Their number is limited, and
//! answers to foreign packets are rate-limited.

use super::route::ReplyRoute;
use crate::api::{
    BufferId, Checksum, Chunk, Counters, InterfaceId, MAX_HEADER_BYTES, Payload, Time, Transmit,
};
use crate::tuning::answers::{BURST, RATE_PER_S};
use crate::wire::address::Addr;
use crate::wire::packet::Fragment;
use crate::wire::{ethernet, ip};
use std::collections::VecDeque;

/// Queued frame.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    interface: InterfaceId,
    header: [u8; MAX_HEADER_BYTES],
    header_len: u8,
    payload: Option<Chunk>,
    checksum: Option<Checksum>,
    release: Option<BufferId>,
}

impl Reply {
    /// An Ethernet frame with `len` bytes behind the header and no payload yet.
    pub fn ethernet(route: ReplyRoute, kind: u16, len: usize) -> Self {
        let mut header = [0; MAX_HEADER_BYTES];
        ethernet::write(&mut header, route.to, route.from, kind);
        let header_len = (ethernet::HEADER_BYTES + len) as u8;
        Self {
            interface: route.interface,
            header,
            header_len,
            payload: None,
            checksum: None,
            release: None,
        }
    }

    /// An IP packet with `len` bytes of header of `protocol`, and `quoted` bytes of payload.
    pub fn ip(route: ReplyRoute, packet: &Outline<'_>, len: usize, quoted: usize) -> Self {
        let v4 = packet.source.is_v4();
        let ip_len = ip::header_bytes(v4);
        let kind = if v4 { ethernet::IPV4 } else { ethernet::IPV6 };
        let mut reply = Self::ethernet(route, kind, ip_len + len);
        let out = &mut reply.header[ethernet::HEADER_BYTES..];
        ip::write(
            out,
            packet.source,
            packet.destination,
            packet.protocol,
            packet.hop_limit,
            len + quoted,
        );
        reply
    }

    /// A fragment of an IP packet: `head` behind the headers, then `quoted` bytes of payload.
    pub fn fragment(
        route: ReplyRoute,
        packet: &Outline<'_>,
        fragment: &Fragment,
        head: &[u8],
        quoted: usize,
    ) -> Self {
        let v4 = packet.source.is_v4();
        let extra = ip::fragment_bytes(v4);
        let mut reply = Self::ip(route, packet, extra + head.len(), quoted);
        ip::make_fragment(reply.link_body(), packet.protocol, v4, fragment);
        reply.body(v4)[extra..extra + head.len()].copy_from_slice(head);
        reply
    }

    /// Bytes behind the IP header.
    pub fn body(&mut self, v4: bool) -> &mut [u8] {
        &mut self.header[ethernet::HEADER_BYTES + ip::header_bytes(v4)..]
    }

    /// Bytes behind the Ethernet header.
    pub fn link_body(&mut self) -> &mut [u8] {
        &mut self.header[ethernet::HEADER_BYTES..]
    }

    /// Sets the offset of the checksum field from the end of the IP header.
    pub fn with_checksum(mut self, v4: bool, offset: u16) -> Self {
        let start = (ethernet::HEADER_BYTES + ip::header_bytes(v4)) as u16;
        self.checksum = Some(Checksum {
            start,
            offset,
            zero_means_none: false,
        });
        self
    }

    /// Appends bytes of a received frame.
    pub fn with_part(mut self, chunk: Chunk) -> Self {
        self.payload = (chunk.len > 0).then_some(chunk);
        self
    }

    /// Appends bytes of a received frame whose buffer is free after the transmission.
    pub fn with_payload(self, chunk: Chunk) -> Self {
        let mut last = self.with_part(chunk);
        last.release = Some(chunk.buffer);
        last
    }

    /// Writes the frame.
    pub fn write(&self, header: &mut [u8]) -> Transmit {
        let len = usize::from(self.header_len);
        header[..len].copy_from_slice(&self.header[..len]);
        let mut payload = Payload::default();
        if let Some(chunk) = self.payload {
            payload.push(chunk);
        }
        Transmit {
            interface: self.interface,
            header_len: len,
            payload,
            cut: None,
            checksum: self.checksum,
            release: self.release,
        }
    }
}

/// Fields of an IP header.
#[derive(Debug, Clone, Copy)]
pub struct Outline<'a> {
    pub source: &'a Addr,
    pub destination: &'a Addr,
    pub protocol: u8,
    pub hop_limit: u8,
}

/// Kind of answer to a foreign packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Icmp,
    Reset,
}

/// Queue of replies and its rate limits.
#[derive(Debug)]
pub struct Replies {
    queue: VecDeque<Reply>,
    most: usize,
    icmp: RateLimit,
    resets: RateLimit,
}

impl Replies {
    /// An empty queue for `most` replies.
    pub fn new(most: u32, now: Time) -> Self {
        Self {
            queue: VecDeque::with_capacity(most as usize),
            most: most as usize,
            icmp: RateLimit::new(now),
            resets: RateLimit::new(now),
        }
    }

    /// Whether an answer to a foreign packet is allowed now. Counts a refusal.
    pub fn may_answer(&mut self, answer: Answer, now: Time, counters: &mut Counters) -> bool {
        let may = match answer {
            Answer::Icmp => self.icmp.allow(now),
            Answer::Reset => self.resets.allow(now),
        };
        counters.replies_suppressed += u64::from(!may);
        may
    }

    /// Number of replies that the queue still accepts.
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.queue.len())
    }

    /// Queues a reply. Returns `false` and counts it if the queue is full.
    pub fn push(&mut self, reply: Reply, counters: &mut Counters) -> bool {
        let has_room = self.room() > 0;
        if has_room {
            self.queue.push_back(reply);
        }
        counters.replies_suppressed += u64::from(!has_room);
        has_room
    }

    pub fn pop(&mut self) -> Option<Reply> {
        self.queue.pop_front()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// Rate limit of one kind of answer.
#[derive(Debug, Clone, Copy)]
struct RateLimit {
    /// Token bucket in nanoseconds of credit.
    credit_ns: u64,
    last: Time,
}

impl RateLimit {
    const COST_NS: u64 = 1_000_000_000 / RATE_PER_S;

    const fn new(now: Time) -> Self {
        Self {
            credit_ns: Self::COST_NS * BURST,
            last: now,
        }
    }

    /// Whether another answer is allowed now.
    fn allow(&mut self, now: Time) -> bool {
        let gained = now
            .since(self.last)
            .as_nanos()
            .min(u128::from(Self::COST_NS * BURST)) as u64;
        self.last = now;
        self.credit_ns = (self.credit_ns + gained).min(Self::COST_NS * BURST);
        let allowed = self.credit_ns >= Self::COST_NS;
        if allowed {
            self.credit_ns -= Self::COST_NS;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_is_allowed_then_1000_per_second() {
        let mut limit = RateLimit::new(Time::ZERO);
        assert_eq!((0..1000).filter(|_| limit.allow(Time::ZERO)).count(), 100);
        let mut now = Time::ZERO;
        let mut allowed = 0;
        for _ in 0..100_000 {
            now = now + Duration::from_micros(10);
            allowed += u32::from(limit.allow(now));
        }
        assert_eq!(allowed, 1000);
    }
}
