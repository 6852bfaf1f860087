//! Decodes one report.

use crate::skeleton::latency_types::{
    lt_class, lt_delta, lt_direction, lt_end, lt_flag, lt_miss, lt_report, lt_stamp,
};
use cofferdam_types::NetnsId;
use serde::{Deserialize, Serialize};
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Direction of a packet, seen from the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Out of the container.
    Egress = lt_direction::LT_EGRESS.0 as isize,
    /// Into the container.
    Ingress = lt_direction::LT_INGRESS.0 as isize,
}

impl Direction {
    /// Both directions.
    pub const ALL: [Direction; 2] = [Direction::Egress, Direction::Ingress];

    /// Returns its text in records.
    pub fn label(self) -> &'static str {
        match self {
            Direction::Egress => "egress",
            Direction::Ingress => "ingress",
        }
    }
}

/// Class by which packets are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// ICMP and ICMPv6.
    Icmp = lt_class::LT_ICMP.0 as isize,
    /// UDP.
    Udp = lt_class::LT_UDP.0 as isize,
    /// TCP.
    Tcp = lt_class::LT_TCP.0 as isize,
    /// Other protocols, and fragments.
    Other = lt_class::LT_OTHER.0 as isize,
}

impl Class {
    /// All classes, in the order of the counts.
    pub const ALL: [Class; 4] = [Class::Icmp, Class::Udp, Class::Tcp, Class::Other];

    /// Returns its text in records.
    pub fn label(self) -> &'static str {
        match self {
            Class::Icmp => "icmp",
            Class::Udp => "udp",
            Class::Tcp => "tcp",
            Class::Other => "other",
        }
    }
}

/// Last point of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// Egress: handed to the last host device.
    Device = lt_end::LT_END_DEVICE.0 as isize,
    /// Ingress: copied to the reader.
    Copied = lt_end::LT_END_COPIED.0 as isize,
    /// Ingress: in the socket; the copy is not visible (TCP, or the table was full).
    Ready = lt_end::LT_END_READY.0 as isize,
    /// Ingress: the container's kernel was the receiver.
    Kernel = lt_end::LT_END_KERNEL.0 as isize,
    /// Ingress: on the container's device; no later point was seen.
    Arrived = lt_end::LT_END_ARRIVED.0 as isize,
}

impl End {
    /// All ends, in the order of their numbers in a record.
    const ALL: [End; 5] = [
        End::Device,
        End::Copied,
        End::Ready,
        End::Kernel,
        End::Arrived,
    ];

    /// Returns its text in records.
    pub fn label(self) -> &'static str {
        match self {
            End::Device => "device",
            End::Copied => "copied",
            End::Ready => "ready",
            End::Kernel => "kernel",
            End::Arrived => "arrived",
        }
    }
}

/// Reason why a packet has no report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Miss {
    /// Dropped by the kernel on the way.
    Dropped = lt_miss::LT_MISS_DROPPED.0 as isize,
    /// Without a device of the host on its way.
    Local = lt_miss::LT_MISS_LOCAL.0 as isize,
    /// Ingress: sent by the host itself, so that no host device received it.
    NoStart = lt_miss::LT_MISS_NO_START.0 as isize,
    /// Changed: another packet arrived than left.
    Content = lt_miss::LT_MISS_CONTENT.0 as isize,
    /// Evicted, because the table was full.
    Evicted = lt_miss::LT_MISS_EVICTED.0 as isize,
    /// TCP segment whose super-packet was not found.
    Segment = lt_miss::LT_MISS_SEGMENT.0 as isize,
    /// Without an end in time.
    Unseen = lt_miss::LT_MISS_UNSEEN.0 as isize,
}

impl Miss {
    /// Number of reasons.
    pub const COUNT: usize = lt_miss::LT_MISSES.0 as usize;
    /// All reasons, in the order of the counts.
    pub const ALL: [Miss; Self::COUNT] = [
        Miss::Dropped,
        Miss::Local,
        Miss::NoStart,
        Miss::Content,
        Miss::Evicted,
        Miss::Segment,
        Miss::Unseen,
    ];

    /// Returns its text in records.
    pub fn label(self) -> &'static str {
        match self {
            Miss::Dropped => "dropped",
            Miss::Local => "local",
            Miss::NoStart => "no_start",
            Miss::Content => "content",
            Miss::Evicted => "evicted",
            Miss::Segment => "segment",
            Miss::Unseen => "unseen",
        }
    }
}

/// Points that a packet may pass, named as in the kernel's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Egress 0: queued to the container's device.
    QueueIn = lt_stamp::LT_QUEUE_IN.0 as isize,
    /// Egress 1: left the queue of the container's device.
    XmitIn = lt_stamp::LT_XMIT_IN.0 as isize,
    /// Egress 2: received on the host's side.
    RecvHost = lt_stamp::LT_RECV_HOST.0 as isize,
    /// Egress 3, ingress 0: queued to the last host device.
    QueueHost = lt_stamp::LT_QUEUE_HOST.0 as isize,
    /// Egress 4, ingress 1: left the queue of the last host device.
    XmitHost = lt_stamp::LT_XMIT_HOST.0 as isize,
    /// Ingress 2: received on the container's device.
    RecvIn = lt_stamp::LT_RECV_IN.0 as isize,
    /// Ingress 3: in the socket.
    Ready = lt_stamp::LT_READY.0 as isize,
    /// Ingress 4: copied to the reader.
    Copied = lt_stamp::LT_COPIED.0 as isize,
}

/// Report of one packet in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Time of the first point, CLOCK_MONOTONIC, ns.
    pub base_ns: u64,
    /// Later points, ns after the first; `None` if the packet did not pass it or no hook shows it.
    /// [`Report::at`] names them.
    pub points_ns: [Option<u32>; 5],
    /// The container's row.
    pub row: u32,
    /// The container's network namespace.
    pub netns: NetnsId,
    /// Number of this packet in its container, direction and class, from 1.
    pub ordinal: u32,
    /// Bytes from the network header on.
    pub bytes: u32,
    /// Bytes after the transport header.
    pub payload_bytes: u32,
    /// TCP: sequence number; ICMP: the echo's number.
    pub sequence: u32,
    /// The container's device; `None` if no hook names it.
    pub container_ifindex: Option<u32>,
    /// Egress: the last host device; ingress: the first one.
    pub host_ifindex: u32,
    /// Socket cookie; `None` if no socket was seen.
    pub cookie: Option<u64>,
    /// Ingress: time of receipt by the first device's own clock, ns; `None` if its hardware has no
    /// timestamps.
    pub hardware_ns: Option<u64>,
    /// Source and destination as the container sees them.
    pub source: IpAddr,
    /// Destination, see `source`.
    pub destination: IpAddr,
    /// UDP and TCP port; ICMP: the echo's identifier.
    pub source_port: u16,
    /// UDP and TCP port; ICMP: type and code.
    pub destination_port: u16,
    /// Packets in this record (GSO, GRO).
    pub segments: u16,
    /// Direction, seen from the container.
    pub direction: Direction,
    /// IP protocol number.
    pub protocol: u8,
    /// Last point.
    pub end: End,
    /// TCP: whether it is a retransmission.
    pub retransmit: bool,
    /// Whether it left the host inside a tunnel.
    pub encapsulated: bool,
    /// Whether it is a part of a datagram.
    pub fragment: bool,
    /// TCP: whether it was merged from several segments on the way. The first point is the first
    /// one's.
    pub merged: bool,
}

const ABSENT: u32 = lt_delta::LT_ABSENT.0;

impl Report {
    /// Returns the nanoseconds from the first point to `point`.
    pub fn at(&self, point: Point) -> Option<u32> {
        let first = match self.direction {
            Direction::Egress => Point::QueueIn,
            Direction::Ingress => Point::QueueHost,
        };
        let index = (point as usize).checked_sub(first as usize)?;
        self.points_ns.get(index).copied().flatten()
    }

    /// Returns the class under which it is counted.
    pub fn class(&self) -> Class {
        match self.protocol {
            _ if self.fragment => Class::Other,
            1 | 58 => Class::Icmp,
            6 => Class::Tcp,
            17 => Class::Udp,
            _ => Class::Other,
        }
    }
}

/// Decodes one record of the ring. `None` if this version does not know it or cannot trust it: too
/// short, an unknown direction, end or IP version, or points that go back in time.
pub fn decode_report(record: &[u8]) -> Option<Report> {
    let record: &[u8; size_of::<lt_report>()] = record.try_into().ok()?;
    let b = |offset: usize| record[offset];
    let h = |offset: usize| u16::from_ne_bytes([record[offset], record[offset + 1]]);
    let w = |offset: usize| u32::from(h(offset)) | u32::from(h(offset + 2)) << 16;
    let l = |offset: usize| u64::from(w(offset)) | u64::from(w(offset + 4)) << 32;
    let direction = b(offset_of!(lt_report, direction));
    let direction = *Direction::ALL.get(usize::from(direction))?;
    let end = *End::ALL.get(usize::from(b(offset_of!(lt_report, end))))?;
    let address = |offset: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&record[offset..offset + 16]);
        match b(offset_of!(lt_report, version)) {
            4 => Some(IpAddr::V4(Ipv4Addr::new(
                bytes[0], bytes[1], bytes[2], bytes[3],
            ))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(bytes))),
            _ => None,
        }
    };
    let mut points_ns = [None; 5];
    let mut last = 0;
    for (i, point) in points_ns.iter_mut().enumerate() {
        let value = w(offset_of!(lt_report, delta_ns) + 4 * i);
        if value != ABSENT {
            if value < last {
                return None;
            }
            last = value;
            *point = Some(value);
        }
    }
    let flags = u32::from(b(offset_of!(lt_report, flags)));
    let has = |flag: lt_flag| flags & flag.0 != 0;
    let some = |value: u32| (value != 0).then_some(value);
    let cookie = l(offset_of!(lt_report, cookie));
    let hardware_ns = l(offset_of!(lt_report, hardware_ns));
    Some(Report {
        base_ns: l(offset_of!(lt_report, base_ns)),
        points_ns,
        row: w(offset_of!(lt_report, row)),
        netns: NetnsId(w(offset_of!(lt_report, netns))),
        ordinal: w(offset_of!(lt_report, ordinal)),
        bytes: w(offset_of!(lt_report, bytes)),
        payload_bytes: w(offset_of!(lt_report, payload_bytes)),
        sequence: w(offset_of!(lt_report, sequence)),
        container_ifindex: some(w(offset_of!(lt_report, container_ifindex))),
        host_ifindex: w(offset_of!(lt_report, host_ifindex)),
        cookie: (cookie != 0).then_some(cookie),
        hardware_ns: (hardware_ns != 0).then_some(hardware_ns),
        source: address(offset_of!(lt_report, source))?,
        destination: address(offset_of!(lt_report, destination))?,
        source_port: h(offset_of!(lt_report, source_port)),
        destination_port: h(offset_of!(lt_report, destination_port)),
        segments: h(offset_of!(lt_report, segments)),
        direction,
        protocol: b(offset_of!(lt_report, protocol)),
        end,
        retransmit: has(lt_flag::LT_RETRANSMIT),
        encapsulated: has(lt_flag::LT_ENCAPSULATED),
        fragment: has(lt_flag::LT_FRAGMENT),
        merged: has(lt_flag::LT_MERGED),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_the_order_of_the_programs_numbers() {
        assert!(Direction::ALL.iter().map(|d| *d as usize).eq(0..2));
        assert!(Class::ALL.iter().map(|c| *c as usize).eq(0..4));
        assert!(End::ALL.iter().map(|e| *e as usize).eq(0..5));
        assert!(Miss::ALL.iter().map(|m| *m as usize).eq(0..Miss::COUNT));
        assert_eq!(Class::ALL.len(), lt_class::LT_CLASSES.0 as usize);
        assert_eq!(Direction::ALL.len(), lt_direction::LT_DIRECTIONS.0 as usize);
    }

    /// Generates numbers by splitmix64: the same at every run.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    /// Promise 76.
    #[test]
    fn any_record_is_refused_or_makes_sense() {
        let (mut state, mut believed, mut refused) = (1, 0, 0);
        for round in 0..50_000 {
            let mut record: Vec<u8> = (0..size_of::<lt_report>() / 8)
                .flat_map(|_| next(&mut state).to_ne_bytes())
                .collect();
            // Sets bytes and an order without which nearly all records would be refused; every
            // other record stays raw.
            if round % 2 == 0 {
                record[offset_of!(lt_report, direction)] &= 1;
                record[offset_of!(lt_report, end)] &= 3;
                record[offset_of!(lt_report, version)] = if round % 4 == 0 { 4 } else { 6 };
                let at = offset_of!(lt_report, delta_ns);
                let mut deltas: Vec<u32> = record[at..at + 20]
                    .chunks(4)
                    .map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
                    .collect();
                deltas.sort_unstable();
                for (i, delta) in deltas.iter().enumerate() {
                    record[at + 4 * i..][..4].copy_from_slice(&delta.to_ne_bytes());
                }
            }
            match decode_report(&record) {
                Some(report) => {
                    let points: Vec<u32> = report.points_ns.iter().flatten().copied().collect();
                    assert!(points.is_sorted(), "{report:?}");
                    believed += 1;
                }
                None => refused += 1,
            }
            let cut = (next(&mut state) % record.len() as u64) as usize;
            assert_eq!(decode_report(&record[..cut]), None);
        }
        assert!(
            believed > 20_000 && refused > 20_000,
            "{believed} {refused}"
        );
    }
}
