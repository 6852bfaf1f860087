//! `TCP_INFO`: the state of a connection of the stack, in Linux's layout.

use cofferdam_netstack::{ConnectionInfo, Repair};
use std::time::Duration;

/// Bits of `tcpi_options` (linux/tcp.h).
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const SCALING: u8 = 4;
const SYN_DATA: u8 = 32;
/// Value of `tcpi_snd_ssthresh` before the first loss.
const NO_SSTHRESH: u32 = 0x7fff_ffff;
/// Duplicate acknowledgements that indicate a loss (RFC 6675, DupThresh): Linux's first value of
/// `tcpi_reordering`.
const REORDERING: u32 = 3;

/// State of a listening socket, as a name for [`tcp_info_of_state`].
pub const LISTEN: &str = "LISTEN";
/// State of a socket without a connection, as a name for [`tcp_info_of_state`].
pub const CLOSED: &str = "CLOSED";
/// Size of the whole structure in Linux 6.18.
pub const INFO_BYTES: usize = 280;

/// Linux's number of a state (include/net/tcp_states.h).
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
    let place = NAMES.iter().position(|other| *other == name);
    place.map_or(0, |place| place as u8 + 1)
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Values that the user of the stack measures for a socket. Zero: not measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketMeasurements {
    /// Segment size that our SYN offers, in bytes of payload.
    pub advertised_bytes: u32,
    /// Largest segment received, in bytes of payload.
    pub peer_segment_bytes: u32,
    /// Bytes that are written and were never sent.
    pub not_sent_bytes: u32,
    /// Bytes of data in our SYN.
    pub syn_bytes: u32,
    /// Bytes of data in our SYN that its acknowledgement accepted.
    pub syn_bytes_acked: u32,
    /// Milliseconds since data was last sent.
    pub data_sent_ago_ms: u32,
    /// Milliseconds since data was last received.
    pub data_received_ago_ms: u32,
    /// Milliseconds since an acknowledgement was last received.
    pub ack_received_ago_ms: u32,
    /// Segments sent.
    pub segments_out: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Segments sent with data.
    pub data_segments_out: u32,
    /// Segments received with data.
    pub data_segments_in: u32,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes of retransmissions.
    pub bytes_sent_again: u64,
    /// Largest distance in bytes by which data arrived out of order.
    pub reordered_bytes: u32,
    /// Time with data to send.
    pub busy: Duration,
    /// Part of `busy` in which the peer's window was the limit.
    pub window_limited: Duration,
    /// Part of `busy` in which the send buffer was the limit.
    pub buffer_limited: Duration,
}

/// `struct tcp_info` of a socket without a connection.
pub fn tcp_info_of_state(name: &str) -> Vec<u8> {
    let mut out = vec![state(name)];
    out.resize(INFO_BYTES, 0);
    out
}

/// `struct tcp_info` of linux/tcp.h: 8 bytes, 24 words, 4 long words, 6 words, 4 long words, 2
/// words, 2 long words, 6 words, 2 half words, 9 words. Fields that the stack does not measure are
/// zero, but the largest pacing rate is unlimited.
pub fn tcp_info(info: &ConnectionInfo, measured: &SocketMeasurements) -> Vec<u8> {
    let mut out = Vec::with_capacity(INFO_BYTES);
    let repair = match info.repair {
        Repair::None => 0,
        Repair::Suspected => 1,
        Repair::Fast => 3,
        Repair::Timeout => 4,
    };
    let option = |agreed: bool, bit: u8| if agreed { bit } else { 0 };
    let is_syn_acked_whole = measured.syn_bytes_acked == measured.syn_bytes;
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

    // Linux measured segments where the stack measured bytes.
    let segments = |bytes: u32| bytes.div_ceil(info.mss_bytes.max(1));
    let headers = if info.local.is_ipv4() { 40 } else { 60 };
    let timestamps = if info.timestamps { 12 } else { 0 };
    // The part of the SYN's data that its acknowledgement did not accept is sent again and pending
    // until it is acknowledged.
    let syn_bytes_again = match info.acked_bytes {
        0 => 0,
        acked => (measured.syn_bytes.saturating_sub(acked - 1)).min(info.flight_bytes),
    };
    let words = [
        micros(info.rto),
        0, // ato
        info.mss_bytes,
        measured.peer_segment_bytes,
        segments(info.flight_bytes),
        segments(info.sacked_bytes),
        segments(info.lost_bytes),
        segments(info.resent_bytes.max(syn_bytes_again)),
        0, // fackets
        measured.data_sent_ago_ms,
        0, // last_ack_sent
        measured.data_received_ago_ms,
        measured.ack_received_ago_ms,
        info.mss_bytes + timestamps + headers,
        info.offered_window_bytes,
        info.srtt.map_or(0, micros),
        info.rttvar.map_or(0, micros),
        info.ssthresh_bytes.map_or(NO_SSTHRESH, segments),
        info.cwnd_bytes / info.mss_bytes.max(1),
        measured.advertised_bytes,
        segments(measured.reordered_bytes).max(REORDERING),
        0, // rcv_rtt
        0, // rcv_space
        info.retransmits,
    ];
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    // The SYN is not a byte of the stream.
    let stream = |bytes: u32| u64::from(bytes.saturating_sub(1));
    let long = [
        0,
        u64::MAX,
        stream(info.acked_bytes),
        stream(info.received_bytes),
    ];
    out.extend(long.iter().flat_map(|word| word.to_ne_bytes()));
    let words = [
        measured.segments_out,
        measured.segments_in,
        measured.not_sent_bytes,
        0, // min_rtt
        measured.data_segments_in,
        measured.data_segments_out,
    ];
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    let micros = |time: Duration| time.as_micros() as u64;
    let long = [
        0, // delivery_rate
        micros(measured.busy),
        micros(measured.window_limited),
        micros(measured.buffer_limited),
    ];
    out.extend(long.iter().flat_map(|word| word.to_ne_bytes()));
    // The SYN measured as a delivered segment, together with its data, as in Linux.
    let stream = info
        .acked_bytes
        .saturating_sub(1 + measured.syn_bytes_acked);
    let delivered = match info.state {
        "SYN-SENT" | "SYN-RECEIVED" => 0,
        _ => segments(stream) + segments(info.sacked_bytes) + 1,
    };
    out.extend([delivered, 0].iter().flat_map(|word| word.to_ne_bytes()));
    let long = [measured.bytes_sent, measured.bytes_sent_again];
    out.extend(long.iter().flat_map(|word| word.to_ne_bytes()));
    let words = [
        0, // dsack_dups
        0, // reord_seen
        0, // rcv_ooopack
        info.peer_window_bytes,
        info.offered_window_bytes,
    ];
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    // The rest is zero: rehash, total_rto with its recoveries and time, and the counters of
    // Accurate ECN.
    out.resize(INFO_BYTES, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 62.
    #[test]
    fn states_have_linuxs_numbers() {
        let names = [
            "ESTABLISHED",
            "SYN-SENT",
            CLOSED,
            "CLOSE-WAIT",
            LISTEN,
            "CLOSING",
        ];
        assert_eq!(names.map(state), [1, 2, 7, 8, 10, 11]);
        assert_eq!(tcp_info_of_state(LISTEN).len(), INFO_BYTES);
    }
}
