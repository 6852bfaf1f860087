//! Bulk TCP both ways, every byte of it in a report.

use super::{REPORTED, Watch};
use cofferdam_lab::fixtures::{Namespace, traffic};
use cofferdam_latency::{Class, Direction};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Addresses of both ends.
pub struct Ends {
    /// Address at which the container listens, its own.
    pub here: SocketAddr,
    /// Address at which the peer reaches the container.
    pub door: SocketAddr,
    /// Address at which the peer listens.
    pub there: SocketAddr,
}

impl Ends {
    pub fn plain(here: &str, there: &str) -> Ends {
        let parse = |text: &str| text.parse().expect("an address");
        Ends {
            here: parse(here),
            door: parse(here),
            there: parse(there),
        }
    }
}

/// Sends `bytes` each way in turn; every byte must be in a report, none in two.
#[track_caller]
pub fn transfer(web: &Namespace, peer: &Namespace, ends: &Ends, bytes: u64) -> Watch {
    transfer_seen(Watch::on(web), web, peer, ends, bytes)
}

/// Sends as [`transfer`] does, with a running measurement.
#[track_caller]
pub fn transfer_seen(
    watch: Watch,
    web: &Namespace,
    peer: &Namespace,
    ends: &Ends,
    bytes: u64,
) -> Watch {
    let watch = seen_both_ways(watch, web, peer, ends, bytes);
    for direction in Direction::ALL {
        assert_reported(&watch, direction, ends, bytes);
    }
    watch
}

/// Sends `bytes` each way; asserts only packets = reports + misses, and reports of [`REPORTED`] of
/// them.
#[track_caller]
pub fn send_both_ways(web: &Namespace, peer: &Namespace, ends: &Ends, bytes: u64) -> Watch {
    seen_both_ways(Watch::on(web), web, peer, ends, bytes)
}

/// Sends as [`send_both_ways`] does, with a running measurement.
#[track_caller]
pub fn seen_both_ways(
    mut watch: Watch,
    web: &Namespace,
    peer: &Namespace,
    ends: &Ends,
    bytes: u64,
) -> Watch {
    let sink = traffic::tcp_sink(peer, None, ends.there);
    traffic::tcp_send(web, None, ends.there, bytes).finish();
    assert_eq!(sink.finish()[0], bytes);
    watch.read();
    let sink = traffic::tcp_sink(web, None, ends.here);
    traffic::tcp_send(peer, None, ends.door, bytes).finish();
    assert_eq!(sink.finish()[0], bytes);
    watch.read_all_slowly();
    for direction in Direction::ALL {
        watch.assert_nearly_covered(direction, Class::Tcp, bytes >> 16);
    }
    watch.assert_sound();
    watch
}

/// Asserts that [`REPORTED`] of the bytes are in a report, and none in two.
#[track_caller]
pub fn assert_reported(watch: &Watch, direction: Direction, ends: &Ends, bytes: u64) {
    let counts = watch.counts();
    let reported = reported(watch, direction, ends);
    assert!(
        reported.bytes as f64 >= bytes as f64 * REPORTED,
        "{direction:?}: {reported:?} of {bytes} bytes, {counts:?}"
    );
    // The receiver cannot recognize a retransmission; the sender marks it.
    if direction == Direction::Egress {
        assert_eq!(reported.twice, 0, "{reported:?}, {counts:?}");
    }
}

/// Bytes of the bulk streams in reports.
#[derive(Debug, Default)]
struct ReportedBytes {
    /// Bytes in some report.
    bytes: u64,
    /// Bytes in more than one report that is not marked as a retransmission.
    twice: u64,
    /// The ranges of such bytes: begin, end and port.
    again: Vec<(u64, u64, u16)>,
}

/// Sums up the bytes that the container sent to the peer's port, or got at its own, by connection.
fn reported(watch: &Watch, direction: Direction, ends: &Ends) -> ReportedBytes {
    let port = match direction {
        Direction::Egress => ends.there.port(),
        Direction::Ingress => ends.here.port(),
    };
    let mut connections: BTreeMap<u16, Vec<(u32, u32, bool)>> = BTreeMap::new();
    for sample in watch.of(direction, Class::Tcp) {
        let r = &sample.report;
        if r.destination_port == port && r.payload_bytes > 0 {
            let ranges = connections.entry(r.source_port).or_default();
            ranges.push((r.sequence, r.payload_bytes, r.retransmit));
        }
    }
    let mut reported = ReportedBytes::default();
    for (port, mut ranges) in connections {
        // Sequence numbers may wrap: counted from the first reported one.
        let first = ranges[0].0.wrapping_sub(1 << 31);
        ranges.sort_by_key(|r| r.0.wrapping_sub(first));
        let (mut end, mut end_once) = (0, 0);
        for (sequence, bytes, again) in ranges {
            let begin = u64::from(sequence.wrapping_sub(first));
            let stop = begin + u64::from(bytes);
            reported.bytes += stop.saturating_sub(begin.max(end));
            end = end.max(stop);
            if !again {
                if begin < end_once {
                    reported.twice += stop.min(end_once) - begin;
                    reported.again.push((begin, stop, port));
                }
                end_once = end_once.max(stop);
            }
        }
    }
    reported
}
