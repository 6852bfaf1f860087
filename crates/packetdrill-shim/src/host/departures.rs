//! Accounting for packets that leave and arrive: bursts, timestamps and `TCP_INFO`.

use super::Host;
use super::meter::SendLimit;
use crate::burst::{self, Bursts, SegmentShape};
use cofferdam_netstack::ConnectionInfo;

/// Minimum number of segments per burst, unless a sysctl says otherwise.
const LEAST_BURST_SEGMENTS: u32 = 2;

impl Host {
    /// Handles a packet that leaves the stack.
    pub(super) fn depart(&mut self, packet: Vec<u8>) {
        let segment = burst::shape(&packet).and_then(|shape| self.sent_by(&shape));
        let mut began = None;
        let (most, pushes) = match segment {
            Some((bits, mut info, shape)) => {
                let end = self.stream_end(&info, &shape);
                let now = self.now;
                let pushed = self.connections.get_mut(&bits).map(|conn| {
                    let again = end <= conn.sent_to;
                    info.srtt = conn.pace.srtt().or(info.srtt);
                    began = (!again).then(|| (bits, end.saturating_sub(shape.payload.into())));
                    conn.sent_to = conn.sent_to.max(end);
                    conn.meter.sent(shape.payload, again, now);
                    conn.notices.sent(end, now);
                    if shape.payload > 0 {
                        conn.pace.sent(end, again, now);
                    }
                    let (pushes, ends_piece) = conn.out.marks(end);
                    (pushes, ends_piece || again && conn.pace.ends_burst(end))
                });
                let least = (self.sysctls.as_ref()).map_or(LEAST_BURST_SEGMENTS, |sysctls| {
                    sysctls.least_burst_segments()
                });
                (burst::most_segments(&info, least), pushed)
            }
            None => (1, None),
        };
        let now = self.now;
        let leaving = match &mut self.bursts {
            Some(bursts) => bursts.add(packet, most, pushes),
            None => vec![packet],
        };
        let is_first = self.bursts.as_ref().is_some_and(Bursts::has_begun);
        if let Some((bits, start)) = began.filter(|_| is_first) {
            self.update(bits, |conn| conn.pace.burst_ended(start));
        }
        self.sent
            .extend(leaving.into_iter().map(|packet| (now, packet)));
    }

    /// Ends the current burst.
    pub(super) fn flush_burst(&mut self) {
        let now = self.now;
        let last = self.bursts.as_mut().and_then(|bursts| bursts.flush());
        self.sent.extend(last.map(|packet| (now, packet)));
    }

    /// Records a packet before the stack receives it.
    pub(super) fn arrived(&mut self, packet: &[u8]) {
        let Some(shape) = burst::shape(packet) else {
            return;
        };
        let now = self.now;
        let conn = (self.connections.values_mut())
            .find(|conn| conn.local == shape.remote && conn.remote == shape.local);
        if let Some(conn) = conn {
            conn.meter.received(shape.payload, now);
        }
    }

    /// Updates what limits each sender.
    pub(super) fn measure(&mut self) {
        let now = self.now;
        for conn in self.connections.values_mut() {
            let Some(info) = self.stack.connection(conn.id) else {
                conn.meter.set_limit(SendLimit::Idle, now);
                continue;
            };
            conn.last_info = Some(info);
            let waiting = info.send_queue_bytes.saturating_sub(info.flight_bytes);
            let window = info.peer_window_bytes.saturating_sub(info.flight_bytes);
            // Linux checks the congestion window first.
            let has_room = info.flight_bytes + info.mss_bytes <= info.cwnd_bytes;
            let limit = if info.send_queue_bytes + conn.out.len() == 0 {
                SendLimit::Idle
            } else if waiting > 0 && has_room && window < waiting.min(info.mss_bytes) {
                SendLimit::ByWindow
            } else if waiting == 0 && conn.out.was_full && has_room {
                SendLimit::ByBuffer
            } else {
                SendLimit::Busy
            };
            conn.meter.set_limit(limit, now);
        }
    }

    fn sent_by(&self, shape: &SegmentShape) -> Option<(u64, ConnectionInfo, SegmentShape)> {
        let (bits, conn) = (self.connections.iter())
            .find(|(_, conn)| conn.local == shape.local && conn.remote == shape.remote)?;
        let info = self.stack.connection(conn.id)?;
        Some((*bits, info, *shape))
    }

    /// Stream offset of the segment's end; the SYN does not count as a byte.
    fn stream_end(&self, info: &ConnectionInfo, shape: &SegmentShape) -> u64 {
        // `acked_bytes` includes the SYN; the first byte has sequence number 1.
        let una = info.initial_sequence.wrapping_add(info.acked_bytes);
        let ahead = shape.seq.wrapping_add(shape.payload).wrapping_sub(una) as i32;
        let acked = i64::from(info.acked_bytes.saturating_sub(1));
        u64::try_from(acked + i64::from(ahead)).unwrap_or(0)
    }
}
