use super::*;
use crate::api::{BufferId, Checksum, Chunk, InterfaceId, MacAddress, Payload};
use crate::wire::address::Addr;
use crate::wire::tcp::{FIN, Options, Segment};
use crate::wire::{ip, tcp};

const SEQ: u32 = u32::MAX - 150;

/// Headers and payload of a segment.
fn segment(v4: bool, seq: u32, flags: u8, len: u32) -> (Vec<u8>, Transmit) {
    let addr = |last| match v4 {
        true => Addr::from(std::net::IpAddr::from([10, 0, 0, last])),
        false => Addr::from(std::net::IpAddr::from([
            0xfd00,
            0,
            0,
            0,
            0,
            0,
            0,
            u16::from(last),
        ])),
    };
    let (local, remote) = (addr(1), addr(2));
    let header = Segment {
        source_port: 80,
        destination_port: 40_000,
        seq,
        ack: 77,
        flags,
        window: 500,
        urgent: 0,
        header_len: 0,
        options: Options {
            timestamps: Some((5, 6)),
            ..Options::default()
        },
    };
    let tcp_len = tcp::HEADER_BYTES + header.options.len();
    let total = tcp_len + len as usize;
    let mut out = vec![0; MAX_HEADER_BYTES];
    let kind = if v4 { ethernet::IPV4 } else { ethernet::IPV6 };
    ethernet::write(&mut out, MacAddress([1; 6]), MacAddress([2; 6]), kind);
    let at = ethernet::HEADER_BYTES;
    ip::write(&mut out[at..], &local, &remote, ip::TCP, 64, total);
    let at = at + ip::header_bytes(v4);
    let sum = ip::pseudo_sum(&local, &remote, ip::TCP, total);
    tcp::write(&mut out[at..], &header, sum);
    let mut payload = Payload::default();
    assert!(payload.push(Chunk {
        buffer: BufferId(1),
        offset: 0,
        len,
    }));
    let checksum = Checksum {
        start: at as u16,
        offset: CHECKSUM_AT,
        zero_means_none: false,
    };
    let transmit = Transmit {
        interface: InterfaceId(0),
        header_len: at + tcp_len,
        payload,
        cut: None,
        checksum: Some(checksum),
        release: None,
    };
    (out, transmit)
}

/// Promise 51.
#[test]
fn a_trains_headers_are_those_of_one_long_segment() {
    for v4 in [true, false] {
        let (first, transmit) = segment(v4, SEQ, ACK, 100);
        let mut train = Train::begin(&first, &transmit).expect("it begins");
        let (second, transmit) = segment(v4, SEQ.wrapping_add(100), ACK, 100);
        assert!(train.append(&second, &transmit));
        // This segment is past the wrap of the sequence number.
        let (last, transmit) = segment(v4, SEQ.wrapping_add(200), ACK | PSH, 40);
        assert!(train.append(&last, &transmit));
        let (whole, transmit) = segment(v4, SEQ, ACK | PSH, 240);
        assert_eq!(train.header(), &whole[..transmit.header_len], "v4: {v4}");
        assert_eq!(train.header(), &whole[..transmit.header_len], "again");
        assert_eq!((train.segments(), train.segment_bytes()), (3, 100));
        assert_eq!((train.payload_bytes, train.is_v4()), (240, v4));
        // The last segment was shorter, so the end of another one behind it could not be found.
        let (next, transmit) = segment(v4, SEQ.wrapping_add(240), ACK, 40);
        assert!(!train.append(&next, &transmit));
    }
}

/// Promise 51.
#[test]
fn coalesced_and_single_packets_form_one_train() {
    let several = |seq: u32, flags, len, cut| {
        let (header, transmit) = segment(true, seq, flags, len);
        let cut = Some(cut);
        (header, Transmit { cut, ..transmit })
    };
    let (first, transmit) = several(SEQ, ACK, 300, 100);
    let train = Train::begin(&first, &transmit).expect("it begins");
    assert_eq!((train.segments(), train.segment_bytes()), (3, 100));
    let next = SEQ.wrapping_add(300);
    for (len, flags, segments) in [(200, ACK, 2), (100, ACK, 1), (30, ACK | PSH, 1)] {
        let mut train = train;
        let (second, transmit) = match segments {
            2 => several(next, flags, len, 100),
            _ => segment(true, next, flags, len),
        };
        assert!(train.append(&second, &transmit), "{len}");
        assert_eq!(train.segments(), 3 + segments);
        let (whole, transmit) = segment(true, SEQ, flags, 300 + len);
        assert_eq!(train.header(), &whole[..transmit.header_len], "{len}");
        let (last, transmit) = segment(true, next.wrapping_add(len), ACK, 10);
        assert_eq!({ train }.append(&last, &transmit), len != 30);
    }
    let (other, transmit) = several(next, ACK, 180, 90);
    assert!(!{ train }.append(&other, &transmit), "of another size");
    let (single, transmit) = segment(true, SEQ, ACK, 100);
    let mut train = Train::begin(&single, &transmit).expect("it begins");
    let (several, transmit) = several(SEQ.wrapping_add(100), ACK, 200, 100);
    assert!(train.append(&several, &transmit), "behind a single one");
    assert_eq!(train.segments(), 3);
}

/// Promise 51.
#[test]
fn a_packet_that_does_not_fit_leaves_the_train_unchanged() {
    let (first, transmit) = segment(true, SEQ, ACK, 100);
    let train = Train::begin(&first, &transmit).expect("it begins");
    let next = SEQ.wrapping_add(100);
    let (good, good_transmit) = segment(true, next, ACK, 100);
    assert!({ train }.append(&good, &good_transmit));
    let refused = |header: &[u8], transmit: &Transmit, why: &str| {
        let mut tried = train;
        assert!(!tried.append(header, transmit), "{why}");
        assert_eq!(tried.segments(), 1, "{why}");
        assert_eq!(
            tried.header(),
            &first[..transmit.header_len.min(66)],
            "{why}"
        );
    };
    // Every byte of the headers matters but lengths, checksums and the IPv4 identification.
    for at in 0..good_transmit.header_len {
        let mut other = good.clone();
        other[at] ^= 1;
        let may_differ = [16, 17, 18, 19, 24, 25, 50, 51].contains(&at);
        let mut tried = train;
        assert_eq!(
            tried.append(&other, &good_transmit),
            may_differ,
            "byte {at}"
        );
    }
    let (header, transmit) = segment(true, next, ACK, 101);
    refused(&header, &transmit, "larger than those before");
    let (header, transmit) = segment(true, next.wrapping_add(1), ACK, 100);
    refused(&header, &transmit, "a gap");
    let (header, transmit) = segment(true, next, ACK | FIN, 100);
    refused(&header, &transmit, "the end of the stream");
    let (header, transmit) = segment(false, next, ACK, 100);
    refused(&header, &transmit, "another version of IP");
    refused(&good[..40], &good_transmit, "cut");
}

/// Promise 51.
#[test]
fn only_plain_data_begins_a_train_within_the_ip_limit() {
    for flags in [ACK | FIN, FIN, 0, ACK | 0x20, ACK | 0x40, ACK | 0x80] {
        let (header, transmit) = segment(true, SEQ, flags, 100);
        assert!(Train::begin(&header, &transmit).is_none(), "{flags:x}");
    }
    let (header, transmit) = segment(true, SEQ, ACK, 100);
    let released = Transmit {
        release: Some(BufferId(1)),
        ..transmit
    };
    assert!(Train::begin(&header, &released).is_none());
    let without = Transmit {
        checksum: None,
        ..transmit
    };
    assert!(Train::begin(&header, &without).is_none());
    assert!(Train::begin(&header[..50], &transmit).is_none());
    let (header, transmit) = segment(true, 0, ACK, 10_000);
    let mut train = Train::begin(&header, &transmit).expect("it begins");
    let mut n = 1;
    while let (header, transmit) = segment(true, n * 10_000, ACK, 10_000)
        && train.append(&header, &transmit)
    {
        n += 1;
    }
    assert_eq!((n, train.payload_bytes), (6, 60_000));
    // This fills an IP packet of 65,535 bytes, of which 52 are headers.
    let (header, transmit) = segment(true, 60_000, ACK, 5484);
    assert!(!train.append(&header, &transmit));
    let (header, transmit) = segment(true, 60_000, ACK, 5483);
    assert!(train.append(&header, &transmit));
    assert_eq!(train.header()[16..18], [0xff, 0xff]);
}
