//! Several segments of one connection as one packet that the device or the kernel cuts
//! (segmentation offload).

use super::{MAX_HEADER_BYTES, Transmit};
use crate::wire::tcp::{ACK, PSH};
use crate::wire::{be16, be32, checksum, ethernet, ipv4, ipv6};

/// Largest IP packet: the length field has 16 bits (RFC 791; RFC 8200 without jumbograms).
pub(crate) const MOST_IP_BYTES: usize = 65_535;
/// Offset of the checksum in a TCP header.
const CHECKSUM_AT: u16 = 16;

/// Consecutive segments of one connection and their common headers. All segments but the last have
/// the same size.
///
/// A train contains plain data only: no segment with SYN, FIN, URG, ECE or CWR.
#[derive(Debug, Clone, Copy)]
pub struct Train {
    header: [u8; MAX_HEADER_BYTES],
    header_len: usize,
    /// Offset of the TCP header.
    tcp: usize,
    payload_bytes: usize,
    segment_bytes: u16,
    segments: u32,
    is_complete: bool,
}

impl Train {
    /// Starts a train with a segment. Returns `None` if the segment cannot be the first of several.
    /// `header` begins with the headers that [`crate::Stack::poll_transmit`] wrote.
    pub fn begin(header: &[u8], transmit: &Transmit) -> Option<Train> {
        let sum = transmit.checksum.filter(|sum| sum.offset == CHECKSUM_AT)?;
        let header = header.get(..transmit.header_len)?;
        let mut train = Train {
            header: [0; MAX_HEADER_BYTES],
            header_len: header.len(),
            tcp: usize::from(sum.start),
            payload_bytes: 0,
            segment_bytes: match transmit.cut {
                Some(segment_bytes) => segment_bytes,
                None => u16::try_from(transmit.payload.len()).ok()?,
            },
            segments: 0,
            is_complete: false,
        };
        train
            .header
            .get_mut(..header.len())?
            .copy_from_slice(header);
        let is_plain = header.get(train.tcp + 13)? & !PSH == ACK;
        let fits = transmit.release.is_none() && train.segment_bytes > 0;
        (is_plain && fits).then(|| train.grow(transmit.payload.len()))
    }

    /// The train with `bytes` more payload.
    fn grow(mut self, bytes: usize) -> Train {
        let segment_bytes = usize::from(self.segment_bytes);
        self.payload_bytes += bytes;
        self.segments += bytes.div_ceil(segment_bytes) as u32;
        self.is_complete = !bytes.is_multiple_of(segment_bytes);
        self
    }

    /// Appends the segment and returns `true` if it is the next one of the train. Otherwise changes
    /// nothing.
    pub fn append(&mut self, header: &[u8], transmit: &Transmit) -> bool {
        let len = transmit.payload.len();
        let has_size = match transmit.cut {
            Some(segment_bytes) => segment_bytes == self.segment_bytes,
            None => (1..=usize::from(self.segment_bytes)).contains(&len),
        };
        let follows = !self.is_complete
            && has_size
            && transmit.header_len == self.header_len
            && transmit.release.is_none()
            && self.ip_bytes() + len <= MOST_IP_BYTES
            && header
                .get(..self.header_len)
                .is_some_and(|header| self.is_next(header));
        if follows {
            *self = self.grow(len);
            let flags = self.tcp + 13;
            self.header[flags] |= header[flags] & PSH;
        }
        follows
    }

    /// Whether `header` continues the train: the sequence number follows, and the rest is equal but
    /// for lengths, checksums and PSH. The IPv4 identification is ignored, as cutting the packet
    /// increments it.
    fn is_next(&self, header: &[u8]) -> bool {
        let own = &self.header[..self.header_len];
        let same = |from: usize, to: usize| own.get(from..to) == header.get(from..to);
        let (ip, tcp) = (ethernet::HEADER_BYTES, self.tcp);
        let is_same_path = match self.is_v4() {
            true => same(0, ip + 2) && same(ip + 6, ip + 10) && same(ip + 12, tcp),
            false => same(0, ip + 4) && same(ip + 6, tcp),
        };
        let seq = be32(own, tcp + 4).wrapping_add(self.payload_bytes as u32);
        is_same_path
            && same(tcp, tcp + 4)
            && be32(header, tcp + 4) == seq
            && same(tcp + 8, tcp + 13)
            && header[tcp + 13] & !PSH == ACK
            && same(tcp + 14, tcp + 16)
            && same(tcp + 18, self.header_len)
    }

    /// Headers of the whole packet: its lengths, and the sum of the pseudo header in place of the
    /// TCP checksum, which the device completes when it cuts the packet.
    pub fn header(&mut self) -> &[u8] {
        let (ip, len) = (ethernet::HEADER_BYTES, self.ip_bytes());
        let before = match self.is_v4() {
            true => usize::from(be16(&self.header, ip + 2)),
            false => usize::from(be16(&self.header, ip + 4)) + ipv6::HEADER_BYTES,
        };
        let sum_at = self.tcp + usize::from(CHECKSUM_AT);
        let sum = be16(&self.header, sum_at);
        // The pseudo header contains the length.
        let grown = (len - before) as u16;
        self.put(sum_at, checksum::add(sum, grown));
        if self.is_v4() {
            self.put(ip + 2, len as u16);
            self.put(ip + 10, 0);
            let sum = !checksum::sum(&self.header[ip..self.tcp]);
            self.put(ip + 10, sum);
        } else {
            self.put(ip + 4, (len - ipv6::HEADER_BYTES) as u16);
        }
        &self.header[..self.header_len]
    }

    fn put(&mut self, at: usize, value: u16) {
        self.header[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Length of the IP packet.
    fn ip_bytes(&self) -> usize {
        self.header_len - ethernet::HEADER_BYTES + self.payload_bytes
    }

    /// Whether the packet is IPv4.
    pub fn is_v4(&self) -> bool {
        self.tcp == ethernet::HEADER_BYTES + ipv4::HEADER_BYTES
    }

    /// Offset of the TCP header, at which the checksum starts.
    pub fn tcp_start(&self) -> u16 {
        self.tcp as u16
    }

    /// Payload of each segment but the last.
    pub fn segment_bytes(&self) -> u16 {
        self.segment_bytes
    }

    /// Number of segments.
    pub fn segments(&self) -> u32 {
        self.segments
    }
}

#[cfg(test)]
mod tests;
