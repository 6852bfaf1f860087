//! `TCP_INFO`: what the stack knows of a connection, as Linux lays it out.

use super::errors::Result;
use super::{Host, Role};
use cofferdam_netstack::{ConnectionInfo, Repair};
use std::time::Duration;

/// `tcpi_options` (linux/tcp.h).
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const SCALING: u8 = 4;
/// `tcpi_snd_ssthresh` before the first loss.
const NO_SSTHRESH: u32 = 0x7fff_ffff;
/// Segments that make a loss (RFC 6675, DupThresh): Linux's starting value of `tcpi_reordering`.
const REORDERING: u32 = 3;

/// States by Linux's numbers (include/net/tcp_states.h).
fn state(name: &str) -> u8 {
    const NAMES: [&str; 11] = [
        "ESTABLISHED",
        "SYN-SENT",
        "SYN-RECEIVED",
        "FIN-WAIT-1",
        "FIN-WAIT-2",
        "TIME-WAIT",
        "CLOSED",
        "CLOSE-WAIT",
        "LAST-ACK",
        LISTEN,
        "CLOSING",
    ];
    let place = NAMES.iter().position(|known| *known == name);
    place.map_or(0, |place| place as u8 + 1)
}

/// The structure up to `tcpi_rcv_wnd`.
const BYTES: usize = 236;
const LISTEN: &str = "LISTEN";
const CLOSED: &str = "CLOSED";

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

impl Host {
    /// `struct tcp_info` of linux/tcp.h, up to `tcpi_rcv_wnd`. What this stack does not measure is
    /// zero.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub(super) fn tcp_info(&mut self, file: i32) -> Result<Vec<u8>> {
        let listens = matches!(self.socket_of(file)?.role, Role::Listening { .. });
        let place = self.connection_of(file).ok().map(|place| place.id);
        let info = place.and_then(|id| self.stack.connection(id));
        let Some(info) = info else {
            let name = if listens { LISTEN } else { CLOSED };
            return Ok(lay_out(state(name), None, 0));
        };
        let headers = if info.local.is_ipv4() { 40 } else { 60 };
        let advertised = self.stack.config().mtu_bytes - headers;
        Ok(lay_out(state(info.state), Some(&info), advertised))
    }
}

/// The layout: eight bytes, 24 words, four long ones, six words, four long ones, two words, two long
/// ones, six words.
fn lay_out(state: u8, info: Option<&ConnectionInfo>, advertised: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(BYTES);
    let Some(info) = info else {
        out.push(state);
        out.resize(BYTES, 0);
        return out;
    };
    let repair = match info.repair {
        Repair::None => 0,
        Repair::Suspected => 1,
        Repair::Fast => 3,
        Repair::Timeout => 4,
    };
    let option = |agreed: bool, bit: u8| if agreed { bit } else { 0 };
    let options = option(info.timestamps, TIMESTAMPS)
        | option(info.sack, SACK)
        | option(info.window_scaling, SCALING);
    let (retransmits, probes) = if info.probing {
        (0, info.retries)
    } else {
        (info.retries, 0)
    };
    let scales = (info.peer_scale & 15) | (info.our_scale << 4);
    out.extend([
        state,
        repair,
        retransmits,
        probes,
        info.backoff,
        options,
        scales,
        0,
    ]);

    // Linux counts segments where we count bytes.
    let segments = |bytes: u32| bytes.div_ceil(info.mss_bytes.max(1));
    let headers = if info.local.is_ipv4() { 40 } else { 60 };
    let timestamps = if info.timestamps { 12 } else { 0 };
    let words = [
        micros(info.rto),
        0, // ato
        info.mss_bytes,
        0, // rcv_mss
        segments(info.flight_bytes),
        segments(info.sacked_bytes),
        segments(info.lost_bytes),
        segments(info.resent_bytes),
        0, // fackets
        0, // last_data_sent
        0, // last_ack_sent
        0, // last_data_recv
        0, // last_ack_recv
        info.mss_bytes + timestamps + headers,
        info.offered_window_bytes,
        info.srtt.map_or(0, micros),
        info.rttvar.map_or(0, micros),
        info.ssthresh_bytes.map_or(NO_SSTHRESH, segments),
        info.cwnd_bytes / info.mss_bytes.max(1),
        advertised,
        REORDERING,
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
    let not_sent = info.send_queue_bytes.saturating_sub(info.flight_bytes);
    // segs_out, segs_in, notsent_bytes, min_rtt, data_segs_in, data_segs_out; then delivery_rate,
    // busy_time, rwnd_limited, sndbuf_limited, delivered and delivered_ce, bytes_sent,
    // bytes_retrans, dsack_dups, reord_seen, rcv_ooopack.
    out.extend(
        [0, 0, not_sent, 0, 0, 0_u32]
            .iter()
            .flat_map(|word| word.to_ne_bytes()),
    );
    out.extend([0; 32 + 8 + 16 + 12]);
    out.extend(info.peer_window_bytes.to_ne_bytes());
    out.extend(info.offered_window_bytes.to_ne_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_linuxs_numbers() {
        let known = [
            "ESTABLISHED",
            "SYN-SENT",
            "CLOSED",
            "CLOSE-WAIT",
            "LISTEN",
            "CLOSING",
        ];
        assert_eq!(known.map(state), [1, 2, 7, 8, 10, 11]);
    }
}
