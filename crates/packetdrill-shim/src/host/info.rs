//! `TCP_INFO`: the state of a connection, in Linux's layout.

use super::errors::Result;
use super::meter::Meter;
use super::{Host, Role};
use cofferdam_bsd::{CLOSED, LISTEN, SocketMeasurements, tcp_info, tcp_info_of_state};
use cofferdam_netstack::{ConnectionInfo, Time};
use nix::errno::Errno;

/// Measurements of a connection for `TCP_INFO`. `advertised` is the segment size that our SYN
/// offers, and `not_sent` the unsent data, both in bytes.
fn counts(meter: &Meter, advertised: u32, not_sent: u32, now: Time) -> SocketMeasurements {
    let ago_ms = |at: Option<Time>| {
        let ago = now.since(at.unwrap_or(meter.began));
        u32::try_from(ago.as_millis()).unwrap_or(u32::MAX)
    };
    SocketMeasurements {
        advertised_bytes: advertised,
        peer_segment_bytes: meter.peer_segment_bytes.unwrap_or(536.min(advertised)),
        not_sent_bytes: not_sent,
        syn_bytes: meter.syn_bytes,
        syn_bytes_acked: meter.syn_bytes_acked,
        data_sent_ago_ms: ago_ms(meter.data_sent_at),
        data_received_ago_ms: ago_ms(meter.data_received_at.or(meter.ack_received_at_first)),
        ack_received_ago_ms: ago_ms(meter.ack_received_at),
        segments_out: meter.segments_out,
        segments_in: meter.segments_in,
        data_segments_out: meter.data_segments_out,
        data_segments_in: meter.data_segments_in,
        bytes_sent: meter.bytes_sent,
        bytes_sent_again: meter.bytes_sent_again,
        reordered_bytes: 0,
        busy: meter.busy,
        window_limited: meter.window_limited,
        buffer_limited: meter.buffer_limited,
    }
}

impl Host {
    /// `struct tcp_info` of linux/tcp.h. Fields that this stack does not measure are zero.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub(super) fn tcp_info(&mut self, file: i32) -> Result<Vec<u8>> {
        let socket = self.socket_of(file)?;
        let listens = matches!(socket.role, Role::Listening { .. });
        let set = socket.settings.tcp.most_segment_bytes;
        let conn = self.connection_of(file).ok();
        let pending = conn.as_ref().map_or(0, |conn| conn.out.len());
        let parts = conn.map(|conn| (conn.id, conn.meter.clone(), conn.last_info));
        let found = parts.and_then(|(id, meter, last)| {
            // A connection that has ended keeps its last values.
            let closed = last.map(|info| ConnectionInfo {
                state: CLOSED,
                ..info
            });
            let reordered = self.stack.reordered_bytes(id).unwrap_or(0);
            Some((self.stack.connection(id).or(closed)?, meter, reordered))
        });
        let Some((info, meter, reordered)) = found else {
            return Ok(tcp_info_of_state(if listens { LISTEN } else { CLOSED }));
        };
        let headers = if info.local.is_ipv4() { 40 } else { 60 };
        let advertised = self.stack.config().interfaces[0].mtu_bytes - headers;
        let waiting = info.send_queue_bytes.saturating_sub(info.flight_bytes);
        let advertised = set.map_or(advertised, |set| set.min(advertised));
        let counts = SocketMeasurements {
            reordered_bytes: reordered,
            ..counts(&meter, advertised, waiting + pending, self.now)
        };
        Ok(tcp_info(&info, &counts))
    }

    /// SO_MEMINFO: memory in use and its limits, in the order of `SK_MEMINFO_`.
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
        let conn = self.connection_of(file).ok();
        let unread = conn.as_ref().map_or(0, |conn| conn.unread_bytes());
        let queued = conn.map_or(0, |conn| conn.unacknowledged_bytes() + conn.out.len());
        // Receive memory and limit, send memory and limit, forward allocation, write queue,
        // options, backlog, drops.
        let values = [unread, receive, 0, send, 0, queued, 0, 0, 0];
        Ok(values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect())
    }

    /// Answers an `ioctl`: the readable bytes (`SIOCINQ`), the unacknowledged bytes (`SIOCOUTQ`),
    /// the unsent bytes (`SIOCOUTQNSD`), or whether the next byte is urgent (`SIOCATMARK`).
    ///
    /// # Errors
    /// `EINVAL` for another request, and for a listening socket.
    pub fn queued_bytes(&mut self, file: i32, request: u64) -> Result<i32> {
        /// Value from linux/sockios.h.
        const SIOCOUTQNSD: u64 = 0x894b;
        /// Value from asm-generic/sockios.h.
        const SIOCATMARK: u64 = 0x8905;
        if matches!(self.socket_of(file)?.role, Role::Listening { .. }) {
            return Err(Errno::EINVAL);
        }
        if request == SIOCATMARK {
            let conn = self.connection_of(file);
            return Ok(conn.is_ok_and(|conn| conn.is_at_mark()).into());
        }
        if let Role::Datagrams(datagrams) = &self.socket_of(file)?.role {
            // A datagram leaves at once, so none is ever queued.
            return match request {
                libc::FIONREAD => Ok(datagrams.next_bytes() as i32),
                libc::TIOCOUTQ => Ok(0),
                _ => Err(Errno::EINVAL),
            };
        }
        let conn = self.connection_of(file).ok();
        let (unread, mut queued, pending) = conn.as_ref().map_or((0, 0, 0), |conn| {
            // The peer's FIN counts as a byte once nothing else is left to read (tcp_inq).
            let unread = conn.unread_bytes();
            (unread, conn.unacknowledged_bytes(), conn.out.len())
        });
        let id = conn.map(|conn| conn.id);
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
