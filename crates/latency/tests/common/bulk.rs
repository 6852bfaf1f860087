//! Bulk TCP both ways, every byte of it in a report.

use super::{REPORTED, Watch};
use cofferdam_lab::fixtures::{Namespace, traffic};
use cofferdam_latency::{Class, Direction};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Who talks to whom.
pub struct Ends {
    /// Where the container listens, by its own address.
    pub here: SocketAddr,
    /// Where the peer finds it.
    pub door: SocketAddr,
    /// Where the peer listens.
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

/// Sends `bytes` each way, one after the other; every byte must be in some report, none twice.
#[track_caller]
pub fn transfer(web: &Namespace, peer: &Namespace, ends: &Ends, bytes: u64) -> Watch {
    transfer_seen(Watch::on(web), web, peer, ends, bytes)
}

/// The same, by a measurement that runs.
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
        assert_told(&watch, direction, ends, bytes);
    }
    watch
}

/// The same, where only packets = reports + misses is asserted, and reports of [`REPORTED`] of them.
#[track_caller]
pub fn send_both_ways(web: &Namespace, peer: &Namespace, ends: &Ends, bytes: u64) -> Watch {
    seen_both_ways(Watch::on(web), web, peer, ends, bytes)
}

/// The same, by a measurement that runs.
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
    watch.settle_unseen();
    for direction in Direction::ALL {
        watch.assert_nearly_covered(direction, Class::Tcp, bytes >> 16);
    }
    watch.assert_sound();
    watch
}

/// [`REPORTED`] of the bytes are in a report, and none in two.
#[track_caller]
pub fn assert_told(watch: &Watch, direction: Direction, ends: &Ends, bytes: u64) {
    let counts = watch.counts();
    let told = told(watch, direction, ends);
    assert!(
        told.bytes as f64 >= bytes as f64 * REPORTED,
        "{direction:?}: {told:?} of {bytes} bytes, {counts:?}"
    );
    // The receiver cannot know what is sent again; the sender marks it.
    if direction == Direction::Egress {
        assert_eq!(told.twice, 0, "{told:?}, {counts:?}");
    }
}

/// What reports say of the bulk streams.
#[derive(Debug, Default)]
struct ToldBytes {
    /// Bytes in some report.
    bytes: u64,
    /// Bytes in more than one that is not marked as sent again.
    twice: u64,
    /// The ranges that say so: where they begin and end, by which port.
    again: Vec<(u64, u64, u16)>,
}

/// The bytes that the container sent to the peer's port, or got at its own, by connection.
fn told(watch: &Watch, direction: Direction, ends: &Ends) -> ToldBytes {
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
    let mut told = ToldBytes::default();
    for (port, mut ranges) in connections {
        // Sequence numbers may wrap: counted from the first that was told.
        let first = ranges[0].0.wrapping_sub(1 << 31);
        ranges.sort_by_key(|r| r.0.wrapping_sub(first));
        let (mut end, mut end_once) = (0, 0);
        for (sequence, bytes, again) in ranges {
            let begin = u64::from(sequence.wrapping_sub(first));
            let stop = begin + u64::from(bytes);
            told.bytes += stop.saturating_sub(begin.max(end));
            end = end.max(stop);
            if !again {
                if begin < end_once {
                    told.twice += stop.min(end_once) - begin;
                    told.again.push((begin, stop, port));
                }
                end_once = end_once.max(stop);
            }
        }
    }
    told
}
