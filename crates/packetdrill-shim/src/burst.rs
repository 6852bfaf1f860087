//! Bursts of segments, as Linux hands them to a device with segmentation offload.
//!
//! Linux builds bursts of several segments (`tcp_tso_autosize`). It sets PSH on the last segment of
//! each burst of more than one, and at the end of each write. Scripts describe a burst as one
//! packet, and packetdrill compares the flags of its segments. The stack sends segments one by one;
//! this module sets their PSH as a device would see it and changes nothing else.

use cofferdam_netstack::ConnectionInfo;
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum payload of a burst: 64 KiB less headers.
const MOST_BYTES: u32 = 65_536 - 1 - 320;
const PSH: u8 = 8;
/// FIN, SYN and RST: a segment with one of these never joins a burst.
const ALONE: u8 = 7;
/// Each burst lasts about a millisecond at the pacing rate (net/core/sock.c: sk_pacing_shift).
const PACING_SHIFT: u32 = 10;
/// `tcp_tso_rtt_log`: short paths get larger bursts.
const RTT_LOG: u32 = 9;

/// Maximum number of segments in a burst now (`tcp_tso_autosize`).
pub fn most_segments(info: &ConnectionInfo, least_segments: u32) -> u32 {
    let mss = info.mss_bytes.max(1);
    // A window holds at least two bursts (`tcp_cwnd_test`).
    let most = (MOST_BYTES / mss).min((info.cwnd_bytes / mss / 2).max(1));
    let Some(srtt) = info.srtt.filter(|srtt| *srtt > Duration::ZERO) else {
        return most.max(1);
    };
    let window = u64::from(info.cwnd_bytes.max(info.flight_bytes));
    // The pacing rate is twice the window per round trip in slow start, 1.2 times afterwards.
    let is_slow_start = (info.ssthresh_bytes).is_none_or(|bytes| info.cwnd_bytes < bytes / 2);
    let percent = if is_slow_start { 200 } else { 120 };
    let rate = window * percent / 100 * 1_000_000 / (srtt.as_micros().max(1) as u64);
    let by_path = (srtt.as_micros() as u64) >> RTT_LOG;
    let more = if by_path < 32 {
        u64::from(MOST_BYTES) >> by_path
    } else {
        0
    };
    let bytes = (rate >> PACING_SHIFT) + more;
    let segments = u32::try_from(bytes / u64::from(mss)).unwrap_or(u32::MAX);
    segments.max(least_segments).clamp(1, most.max(1))
}

/// Header fields of an outgoing TCP segment, and the offset of its TCP header in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentShape {
    tcp: usize,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub seq: u32,
    ack: u32,
    flags: u8,
    pub payload: u32,
}

/// Parses an outgoing packet; `None` if it is not a TCP segment.
pub fn shape(packet: &[u8]) -> Option<SegmentShape> {
    let (tcp, source, destination) = match packet.first()? >> 4 {
        4 if packet.get(9) == Some(&6) => {
            let ip = |at: usize| -> Option<std::net::IpAddr> {
                let octets: [u8; 4] = *packet.get(at..)?.first_chunk()?;
                Some(octets.into())
            };
            (usize::from(packet[0] & 15) * 4, ip(12)?, ip(16)?)
        }
        6 if packet.get(6) == Some(&6) => {
            let ip = |at: usize| -> Option<std::net::IpAddr> {
                let octets: [u8; 16] = *packet.get(at..)?.first_chunk()?;
                Some(octets.into())
            };
            (40, ip(8)?, ip(24)?)
        }
        _ => return None,
    };
    let header = packet.get(tcp..)?;
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_be_bytes(*header.get(at..)?.first_chunk()?)) };
    let ports = word(0)?;
    let data = usize::from(header.get(12)? >> 4) * 4;
    Some(SegmentShape {
        tcp,
        local: SocketAddr::new(source, (ports >> 16) as u16),
        remote: SocketAddr::new(destination, ports as u16),
        seq: word(4)?,
        ack: word(8)?,
        flags: *header.get(13)?,
        payload: u32::try_from(header.len().checked_sub(data)?).ok()?,
    })
}

/// Sets or clears PSH and updates the checksum (RFC 1624).
fn set_push(packet: &mut [u8], shape: &SegmentShape, push: bool) {
    let at = shape.tcp;
    let before = u16::from_be_bytes([packet[at + 12], packet[at + 13]]);
    let after = if push {
        before | u16::from(PSH)
    } else {
        before & !u16::from(PSH)
    };
    packet[at + 12..at + 14].copy_from_slice(&after.to_be_bytes());
    let sum = u16::from_be_bytes([packet[at + 16], packet[at + 17]]);
    let mut total = u32::from(!sum) + u32::from(!before) + u32::from(after);
    total = (total & 0xffff) + (total >> 16);
    total = (total & 0xffff) + (total >> 16);
    packet[at + 16..at + 18].copy_from_slice(&(!(total as u16)).to_be_bytes());
}

/// The burst being built.
#[derive(Debug, Default)]
pub struct Bursts {
    last: Option<(SegmentShape, Vec<u8>)>,
    segments: u32,
    /// The last segment also ends one of the sender's pieces.
    is_complete: bool,
}

impl Bursts {
    /// Adds a packet from the stack and returns the packets that leave. `most` is the maximum
    /// number of segments in a burst of its connection. `marks` says whether the segment is pushed
    /// and whether it ends one of the sender's pieces; `None` means that it carries no data of a
    /// known connection.
    pub fn add(&mut self, packet: Vec<u8>, most: u32, marks: Option<(bool, bool)>) -> Vec<Vec<u8>> {
        let found = shape(&packet).filter(|shape| shape.payload > 0 && shape.flags & ALONE == 0);
        let (Some(shape), Some((pushes, ends_piece))) = (found, marks) else {
            return self.flush().into_iter().chain([packet]).collect();
        };
        let mut packet = packet;
        set_push(&mut packet, &shape, pushes);
        let follows = self.last.as_ref().is_some_and(|(last, bytes)| {
            last.local == shape.local
                && last.remote == shape.remote
                && last.ack == shape.ack
                && last.seq.wrapping_add(last.payload) == shape.seq
                // Only a segment of full length may be followed by another, and a write's last is
                // the last.
                && last.payload >= shape.payload
                && bytes[last.tcp + 13] & PSH == 0
                && !self.is_complete
                && self.segments < most
        });
        if follows {
            self.segments += 1;
            self.is_complete = ends_piece;
            let before = self.last.replace((shape, packet));
            return before.into_iter().map(|(_, packet)| packet).collect();
        }
        let done = self.flush();
        self.segments = 1;
        self.is_complete = ends_piece;
        self.last = Some((shape, packet));
        done.into_iter().collect()
    }

    /// Whether the last packet is the first of its burst.
    pub const fn has_begun(&self) -> bool {
        self.segments == 1
    }

    /// Ends the burst.
    pub fn flush(&mut self) -> Option<Vec<u8>> {
        let (shape, mut packet) = self.last.take()?;
        if std::mem::take(&mut self.segments) > 1 && packet[shape.tcp + 13] & PSH == 0 {
            set_push(&mut packet, &shape, true);
        }
        Some(packet)
    }
}
