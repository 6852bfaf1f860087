//! One report, decoded.

use crate::skeleton::latency_types::lt_report;
use cofferdam_types::NetnsId;
use serde::{Deserialize, Serialize};
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which way a packet went, seen from the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Out of the container.
    Egress,
    /// Into the container.
    Ingress,
}

impl Direction {
    /// Both.
    pub const ALL: [Direction; 2] = [Direction::Egress, Direction::Ingress];

    /// As it is written in records.
    pub fn label(self) -> &'static str {
        match self {
            Direction::Egress => "egress",
            Direction::Ingress => "ingress",
        }
    }
}

/// What packets are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// ICMP and ICMPv6.
    Icmp,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// Other protocols, and fragments.
    Other,
}

impl Class {
    /// All, in the order of the counts.
    pub const ALL: [Class; 4] = [Class::Icmp, Class::Udp, Class::Tcp, Class::Other];

    /// As it is written in records.
    pub fn label(self) -> &'static str {
        match self {
            Class::Icmp => "icmp",
            Class::Udp => "udp",
            Class::Tcp => "tcp",
            Class::Other => "other",
        }
    }
}

/// Where a report ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// Egress: handed to the last host device.
    Device,
    /// Ingress: copied to the reader.
    Copied,
    /// Ingress: in the socket; its copy is not seen (TCP, or the table was full).
    Ready,
    /// Ingress: the container's kernel was the receiver.
    Kernel,
    /// Ingress: on the container's device; what came then was not seen.
    Arrived,
}

impl End {
    /// As it is written in records.
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

/// Why a packet has no report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Miss {
    /// The kernel dropped it on the way.
    Dropped,
    /// It never reached a device of the host.
    Local,
    /// Ingress: no host device received it; the host itself sent it.
    NoStart,
    /// What arrived is not what left.
    Content,
    /// The table was full.
    Evicted,
    /// A TCP segment whose whole was not found.
    Segment,
    /// Its end was not seen in time.
    Unseen,
}

impl Miss {
    /// How many reasons there are.
    pub const COUNT: usize = 7;
    /// All, in the order of the counts.
    pub const ALL: [Miss; Self::COUNT] = [
        Miss::Dropped,
        Miss::Local,
        Miss::NoStart,
        Miss::Content,
        Miss::Evicted,
        Miss::Segment,
        Miss::Unseen,
    ];

    /// As it is written in records.
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

/// Points that a packet may pass, by the kernel's programs' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Egress 0: queued to the container's device.
    QueueIn,
    /// Egress 1: left the queue of the container's device.
    XmitIn,
    /// Egress 2: received on the host's side.
    RecvHost,
    /// Egress 3, ingress 0: queued to the last host device.
    QueueHost,
    /// Egress 4, ingress 1: left the queue of the last host device.
    XmitHost,
    /// Ingress 2: received on the container's device.
    RecvIn,
    /// Ingress 3: in the socket.
    Ready,
    /// Ingress 4: copied to the reader.
    Copied,
}

/// One packet in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// CLOCK_MONOTONIC of the first point, ns.
    pub base_ns: u64,
    /// Points after the first, ns after it; `None` where the packet did not pass or no hook
    /// shows. [`Report::at`] names them.
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
    /// The container's device; `None` where no hook names it.
    pub container_ifindex: Option<u32>,
    /// Egress: the last host device; ingress: the first.
    pub host_ifindex: u32,
    /// Socket cookie; `None` when no socket was seen.
    pub cookie: Option<u64>,
    /// Ingress: when the first device received it by the device's own clock, ns; `None` where its
    /// hardware does not stamp.
    pub hardware_ns: Option<u64>,
    /// Source and destination as the container sees them.
    pub source: IpAddr,
    /// See `source`.
    pub destination: IpAddr,
    /// UDP and TCP port; ICMP: the echo's identifier.
    pub source_port: u16,
    /// UDP and TCP port; ICMP: type and code.
    pub destination_port: u16,
    /// Packets that this record stands for (GSO, GRO).
    pub segments: u16,
    /// Which way.
    pub direction: Direction,
    /// IP protocol number.
    pub protocol: u8,
    /// Where it ends.
    pub end: End,
    /// TCP: a retransmission.
    pub retransmit: bool,
    /// Left the host inside a tunnel.
    pub encapsulated: bool,
    /// Part of a datagram.
    pub fragment: bool,
    /// TCP: several segments that were merged on the way; its begin is that of the first.
    pub merged: bool,
}

const ABSENT: u32 = u32::MAX;

impl Report {
    /// Nanoseconds from the first point to `point`.
    pub fn at(&self, point: Point) -> Option<u32> {
        use Direction::{Egress, Ingress};
        let index = match (self.direction, point) {
            (Egress, Point::QueueIn) => 0,
            (Egress, Point::XmitIn) => 1,
            (Egress, Point::RecvHost) => 2,
            (Egress, Point::QueueHost) => 3,
            (Egress, Point::XmitHost) => 4,
            (Ingress, Point::QueueHost) => 0,
            (Ingress, Point::XmitHost) => 1,
            (Ingress, Point::RecvIn) => 2,
            (Ingress, Point::Ready) => 3,
            (Ingress, Point::Copied) => 4,
            _ => return None,
        };
        self.points_ns[index]
    }

    /// What it is counted as.
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

/// One record of the ring. `None` for what this version does not know or cannot trust: too
/// short, an unknown direction, end or IP version, points that go back in time.
pub fn decode_report(record: &[u8]) -> Option<Report> {
    let record: &[u8; size_of::<lt_report>()] = record.try_into().ok()?;
    let b = |offset: usize| record[offset];
    let h = |offset: usize| u16::from_ne_bytes([record[offset], record[offset + 1]]);
    let w = |offset: usize| u32::from(h(offset)) | u32::from(h(offset + 2)) << 16;
    let l = |offset: usize| u64::from(w(offset)) | u64::from(w(offset + 4)) << 32;
    let direction = match b(offset_of!(lt_report, direction)) {
        0 => Direction::Egress,
        1 => Direction::Ingress,
        _ => return None,
    };
    let end = match b(offset_of!(lt_report, end)) {
        0 => End::Device,
        1 => End::Copied,
        2 => End::Ready,
        3 => End::Kernel,
        4 => End::Arrived,
        _ => return None,
    };
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
    let flags = b(offset_of!(lt_report, flags));
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
        retransmit: flags & 1 != 0,
        encapsulated: flags & 2 != 0,
        fragment: flags & 4 != 0,
        merged: flags & 8 != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// splitmix64: the same bytes at every run.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    #[test]
    fn any_record_is_refused_or_makes_sense() {
        let (mut state, mut believed, mut refused) = (1, 0, 0);
        for round in 0..50_000 {
            let mut record: Vec<u8> = (0..size_of::<lt_report>() / 8)
                .flat_map(|_| next(&mut state).to_ne_bytes())
                .collect();
            // Bytes and order by which nearly all would be refused; every other record is raw.
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
