//! `TCP_INFO`: a connection as the stack knows it, as Linux lays it out.

use cofferdam_netstack::{ConnectionInfo, Repair};
use std::time::Duration;

/// `tcpi_options` (linux/tcp.h).
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const SCALING: u8 = 4;
const SYN_DATA: u8 = 32;
/// `tcpi_snd_ssthresh` before the first loss.
const NO_SSTHRESH: u32 = 0x7fff_ffff;
/// Segments that make a loss (RFC 6675, DupThresh): Linux's starting value of `tcpi_reordering`.
const REORDERING: u32 = 3;

/// The state of a socket that listens, by the name that [`only_state`] takes.
pub const LISTEN: &str = "LISTEN";
/// The state of one that has no connection.
pub const CLOSED: &str = "CLOSED";
/// Bytes of the whole structure, as of Linux 6.18.
pub const INFO_BYTES: usize = 280;

/// States by Linux's numbers (include/net/tcp_states.h).
fn state(name: &str) -> u8 {
    const NAMES: [&str; 11] = [
        "ESTABLISHED",
        "SYN-SENT",
        "SYN-RECEIVED",
        "FIN-WAIT-1",
        "FIN-WAIT-2",
        "TIME-WAIT",
        CLOSED,
        "CLOSE-WAIT",
        "LAST-ACK",
        LISTEN,
        "CLOSING",
    ];
    let place = NAMES.iter().position(|known| *known == name);
    place.map_or(0, |place| place as u8 + 1)
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// What a host has counted beside the stack; zero is reported where it has not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// The segment size that our SYN offers, in bytes of payload.
    pub advertised_bytes: u32,
    /// The largest segment that came, likewise.
    pub peer_segment_bytes: u32,
    /// Written and not sent for the first time, in bytes.
    pub not_sent_bytes: u32,
    /// Data of our SYN, and what of it its acknowledgement took.
    pub syn_bytes: u32,
    /// See `syn_bytes`.
    pub syn_bytes_acked: u32,
    /// Since data was sent last, in milliseconds.
    pub data_sent_ago_ms: u32,
    /// Since data was received.
    pub data_received_ago_ms: u32,
    /// Since an acknowledgement was.
    pub ack_received_ago_ms: u32,
    /// Segments.
    pub segments_out: u32,
    /// See `segments_out`.
    pub segments_in: u32,
    /// Of them, those with data.
    pub data_segments_out: u32,
    /// See `data_segments_out`.
    pub data_segments_in: u32,
    /// Payload that was sent, the first time and again.
    pub bytes_sent: u64,
    /// Of it, again.
    pub bytes_sent_again: u64,
    /// Most bytes by which something arrived out of order.
    pub reordered_bytes: u32,
    /// With something to send.
    pub busy: Duration,
    /// Of that, held back by the peer's window.
    pub window_limited: Duration,
    /// Of that, by its own buffer.
    pub buffer_limited: Duration,
}

/// `struct tcp_info` of a socket that has no connection.
pub fn only_state(name: &str) -> Vec<u8> {
    let mut out = vec![state(name)];
    out.resize(INFO_BYTES, 0);
    out
}

/// `struct tcp_info` of linux/tcp.h: eight bytes, 24 words, four long ones, six words, four long
/// ones, two words, two long ones, six words, two halves, nine words. What nobody measures is zero.
pub fn tcp_info(info: &ConnectionInfo, counts: &Counts) -> Vec<u8> {
    let mut out = Vec::with_capacity(INFO_BYTES);
    let repair = match info.repair {
        Repair::None => 0,
        Repair::Suspected => 1,
        Repair::Fast => 3,
        Repair::Timeout => 4,
    };
    let option = |agreed: bool, bit: u8| if agreed { bit } else { 0 };
    let is_syn_acked_whole = counts.syn_bytes_acked == counts.syn_bytes;
    let options = option(info.timestamps, TIMESTAMPS)
        | option(info.sack, SACK)
        | option(info.window_scaling, SCALING)
        | option(info.syn_data && is_syn_acked_whole, SYN_DATA);
    let (retransmits, probes) = if info.probing {
        (0, info.retries)
    } else {
        (info.retries, 0)
    };
    let scales = (info.peer_scale & 15) | (info.our_scale << 4);
    out.extend([
        state(info.state),
        repair,
        retransmits,
        probes,
        info.backoff,
        options,
        scales,
        0,
    ]);

    // Linux counts segments where the stack counts bytes.
    let segments = |bytes: u32| bytes.div_ceil(info.mss_bytes.max(1));
    let headers = if info.local.is_ipv4() { 40 } else { 60 };
    let timestamps = if info.timestamps { 12 } else { 0 };
    // What the SYN had and its acknowledgement did not take is sent again, until it is acknowledged.
    let syn_bytes_again = match info.acked_bytes {
        0 => 0,
        acked => (counts.syn_bytes.saturating_sub(acked - 1)).min(info.flight_bytes),
    };
    let words = [
        micros(info.rto),
        0, // ato
        info.mss_bytes,
        counts.peer_segment_bytes,
        segments(info.flight_bytes),
        segments(info.sacked_bytes),
        segments(info.lost_bytes),
        segments(info.resent_bytes.max(syn_bytes_again)),
        0, // fackets
        counts.data_sent_ago_ms,
        0, // last_ack_sent
        counts.data_received_ago_ms,
        counts.ack_received_ago_ms,
        info.mss_bytes + timestamps + headers,
        info.offered_window_bytes,
        info.srtt.map_or(0, micros),
        info.rttvar.map_or(0, micros),
        info.ssthresh_bytes.map_or(NO_SSTHRESH, segments),
        info.cwnd_bytes / info.mss_bytes.max(1),
        counts.advertised_bytes,
        segments(counts.reordered_bytes).max(REORDERING),
        0, // rcv_rtt
        0, // rcv_space
        info.retransmits,
    ];
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    // The SYN is no byte of the stream.
    let stream = |bytes: u32| u64::from(bytes.saturating_sub(1));
    let long = [
        0,
        u64::MAX,
        stream(info.acked_bytes),
        stream(info.received_bytes),
    ];
    out.extend(long.iter().flat_map(|word| word.to_ne_bytes()));
    let words = [
        counts.segments_out,
        counts.segments_in,
        counts.not_sent_bytes,
        0, // min_rtt
        counts.data_segments_in,
        counts.data_segments_out,
    ];
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    let micros = |time: Duration| time.as_micros() as u64;
    let long = [
        0, // delivery_rate
        micros(counts.busy),
        micros(counts.window_limited),
        micros(counts.buffer_limited),
    ];
    out.extend(long.iter().flat_map(|word| word.to_ne_bytes()));
    // The SYN counts as delivered, as in Linux, and what went with it as a part of it.
    let stream = info.acked_bytes.saturating_sub(1 + counts.syn_bytes_acked);
    let delivered = match info.state {
        "SYN-SENT" | "SYN-RECEIVED" => 0,
        _ => segments(stream) + segments(info.sacked_bytes) + 1,
    };
    out.extend([delivered, 0].iter().flat_map(|word| word.to_ne_bytes()));
    let long = [counts.bytes_sent, counts.bytes_sent_again];
    out.extend(long.iter().flat_map(|word| word.to_ne_bytes()));
    let words = [
        0, // dsack_dups
        0, // reord_seen
        0, // rcv_ooopack
        info.peer_window_bytes,
        info.offered_window_bytes,
    ];
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    // rehash, total_rto and its recoveries and time, and Accurate ECN's counters.
    out.resize(INFO_BYTES, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 62.
    #[test]
    fn states_have_linuxs_numbers() {
        let known = [
            "ESTABLISHED",
            "SYN-SENT",
            CLOSED,
            "CLOSE-WAIT",
            LISTEN,
            "CLOSING",
        ];
        assert_eq!(known.map(state), [1, 2, 7, 8, 10, 11]);
        assert_eq!(only_state(LISTEN).len(), INFO_BYTES);
    }
}
