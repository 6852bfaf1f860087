//! `TCP_INFO`: what the stack knows of a connection, as Linux lays it out.

use super::errors::Result;
use super::meter::Meter;
use super::{Host, Role};
use cofferdam_netstack::{ConnectionInfo, Repair, Time};
use nix::errno::Errno;
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

/// The whole structure, as of Linux 6.18.
pub(super) const BYTES: usize = 280;
const LISTEN: &str = "LISTEN";
const CLOSED: &str = "CLOSED";

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// What [`lay_out`] puts together.
struct Known<'a> {
    info: &'a ConnectionInfo,
    meter: &'a Meter,
    advertised: u32,
    not_sent: u32,
    now: Time,
}

impl Host {
    /// `struct tcp_info` of linux/tcp.h. What this stack does not measure is zero.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub(super) fn tcp_info(&mut self, file: i32) -> Result<Vec<u8>> {
        let socket = self.socket_of(file)?;
        let listens = matches!(socket.role, Role::Listening { .. });
        let set = socket.settings.most_segment_bytes;
        let place = self.connection_of(file).ok();
        let pending = place.as_ref().map_or(0, |place| place.out.len());
        let known = place.map(|place| (place.id, place.meter.clone(), place.last_info));
        let known = known.and_then(|(id, meter, last)| {
            // One that has ended is remembered as it was.
            let closed = last.map(|info| ConnectionInfo {
                state: CLOSED,
                ..info
            });
            Some((self.stack.connection(id).or(closed)?, meter))
        });
        let Some((info, meter)) = known else {
            let mut out = vec![state(if listens { LISTEN } else { CLOSED })];
            out.resize(BYTES, 0);
            return Ok(out);
        };
        let headers = if info.local.is_ipv4() { 40 } else { 60 };
        let advertised = self.stack.config().mtu_bytes - headers;
        let waiting = info.send_queue_bytes.saturating_sub(info.flight_bytes);
        Ok(lay_out(&Known {
            info: &info,
            meter: &meter,
            advertised: set.map_or(advertised, |set| set.min(advertised)),
            not_sent: waiting + pending,
            now: self.now,
        }))
    }

    /// SO_MEMINFO: what a socket's buffers hold and may hold, in `SK_MEMINFO_` order.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub(super) fn memory_info(&mut self, file: i32) -> Result<Vec<u8>> {
        let number = |bytes: Vec<u8>| {
            let first = bytes.first_chunk().copied().unwrap_or_default();
            u32::from_ne_bytes(first)
        };
        let receive = number(self.option(file, libc::SOL_SOCKET, libc::SO_RCVBUF)?);
        let send = number(self.option(file, libc::SOL_SOCKET, libc::SO_SNDBUF)?);
        let place = self.connection_of(file).ok();
        let unread = place.as_ref().map_or(0, |place| place.unread_bytes());
        let queued = place.map_or(0, |place| place.unacknowledged_bytes() + place.out.len());
        // Read and its limit, written, its limit, reserve, queue, options, backlog, drops.
        let values = [unread, receive, 0, send, 0, queued, 0, 0, 0];
        Ok(values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect())
    }

    /// Bytes that `read` would give (`SIOCINQ`), that are not acknowledged (`SIOCOUTQ`), or not
    /// sent (`SIOCOUTQNSD`).
    ///
    /// # Errors
    /// `EINVAL` for another request, and for a socket that listens.
    pub fn queued_bytes(&mut self, file: i32, request: u64) -> Result<i32> {
        /// linux/sockios.h.
        const SIOCOUTQNSD: u64 = 0x894b;
        if matches!(self.socket_of(file)?.role, Role::Listening { .. }) {
            return Err(Errno::EINVAL);
        }
        if let Role::Datagrams(datagrams) = &self.socket_of(file)?.role {
            // What is sent leaves at once.
            return match request {
                libc::FIONREAD => Ok(datagrams.next_bytes() as i32),
                libc::TIOCOUTQ => Ok(0),
                _ => Err(Errno::EINVAL),
            };
        }
        let place = self.connection_of(file).ok();
        let (unread, mut queued, pending) = place.as_ref().map_or((0, 0, 0), |place| {
            // The peer's FIN counts as a byte once it is all there is (tcp_inq).
            let unread = place.unread_bytes();
            (unread, place.unacknowledged_bytes(), place.out.len())
        });
        let id = place.map(|place| place.id);
        let info = id.and_then(|id| self.stack.connection(id));
        queued += pending;
        let waiting = info.map_or(0, |info| {
            info.send_queue_bytes.saturating_sub(info.flight_bytes)
        });
        let bytes = match request {
            libc::FIONREAD => unread,
            libc::TIOCOUTQ => queued,
            SIOCOUTQNSD => waiting + pending,
            _ => return Err(Errno::EINVAL),
        };
        Ok(i32::try_from(bytes).unwrap_or(i32::MAX))
    }
}

/// The layout: eight bytes, 24 words, four long ones, six words, four long ones, two words, two long
/// ones, six words, two halves, nine words.
fn lay_out(known: &Known<'_>) -> Vec<u8> {
    let (info, meter) = (known.info, known.meter);
    let mut out = Vec::with_capacity(BYTES);
    let repair = match info.repair {
        Repair::None => 0,
        Repair::Suspected => 1,
        Repair::Fast => 3,
        Repair::Timeout => 4,
    };
    let option = |agreed: bool, bit: u8| if agreed { bit } else { 0 };
    let options = option(info.timestamps, TIMESTAMPS)
        | option(info.sack, SACK)
        | option(info.window_scaling, SCALING)
        | option(info.syn_data && meter.is_syn_acked_whole(), SYN_DATA);
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

    // Linux counts segments where we count bytes.
    let segments = |bytes: u32| bytes.div_ceil(info.mss_bytes.max(1));
    let headers = if info.local.is_ipv4() { 40 } else { 60 };
    let timestamps = if info.timestamps { 12 } else { 0 };
    let ago_ms = |at: Option<Time>| {
        let ago = known.now.since(at.unwrap_or(meter.began));
        u32::try_from(ago.as_millis()).unwrap_or(u32::MAX)
    };
    let words = [
        micros(info.rto),
        0, // ato
        info.mss_bytes,
        meter
            .peer_segment_bytes
            .unwrap_or(536.min(known.advertised)),
        segments(info.flight_bytes),
        segments(info.sacked_bytes),
        segments(info.lost_bytes),
        segments(info.resent_bytes.max(meter.syn_bytes_again(info))),
        0, // fackets
        ago_ms(meter.data_sent_at),
        0, // last_ack_sent
        ago_ms(meter.data_received_at.or(meter.ack_received_at_first)),
        ago_ms(meter.ack_received_at),
        info.mss_bytes + timestamps + headers,
        info.offered_window_bytes,
        info.srtt.map_or(0, micros),
        info.rttvar.map_or(0, micros),
        info.ssthresh_bytes.map_or(NO_SSTHRESH, segments),
        info.cwnd_bytes / info.mss_bytes.max(1),
        known.advertised,
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
    let words = [
        meter.segments_out,
        meter.segments_in,
        known.not_sent,
        0, // min_rtt
        meter.data_segments_in,
        meter.data_segments_out,
    ];
    out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    let micros = |time: Duration| time.as_micros() as u64;
    let long = [
        0, // delivery_rate
        micros(meter.busy),
        micros(meter.window_limited),
        micros(meter.buffer_limited),
    ];
    out.extend(long.iter().flat_map(|word| word.to_ne_bytes()));
    // The SYN counts as delivered, as in Linux, and what went with it as a part of it.
    let stream = info.acked_bytes.saturating_sub(1 + meter.syn_bytes_acked);
    let delivered = match info.state {
        "SYN-SENT" | "SYN-RECEIVED" => 0,
        _ => segments(stream) + segments(info.sacked_bytes) + 1,
    };
    out.extend([delivered, 0].iter().flat_map(|word| word.to_ne_bytes()));
    let long = [meter.bytes_sent, meter.bytes_sent_again];
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
    out.resize(BYTES, 0);
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
