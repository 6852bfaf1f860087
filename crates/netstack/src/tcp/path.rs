//! Black hole detection for paths that silently drop large packets: shorter segments after repeated
//! timeouts of full ones, then probes for longer ones (RFC 4821, 7).

use super::context::Context;
use super::segment::Outgoing;
use super::seq;
use super::state::Tcb;
use crate::api::PathProbing;
use crate::tuning::black_hole::{
    BASE_MSS_V4_BYTES, CLOSE_ENOUGH_BYTES, LEAST_MSS_V4_BYTES, LEAST_MSS_V6_BYTES, SEGMENTS_BEHIND,
    TIMEOUTS,
};

/// Search for the longest segment that the path carries, in bytes without options.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathSearch {
    /// Longest size that the path may carry; zero without a search.
    high: u16,
    /// Probe in flight: its size, its start and its end.
    probe: Option<(u16, u32, u32)>,
}

impl PathSearch {
    /// Size of the next probe, halfway above `mss`, if a probe is useful now.
    const fn next_size(&self, mss: u16) -> Option<u16> {
        let is_far = self.high >= mss.saturating_add(CLOSE_ENOUGH_BYTES);
        if is_far && self.probe.is_none() {
            Some(mss + (self.high - mss) / 2)
        } else {
            None
        }
    }

    /// Limits the search to `most`, as reported by a router.
    pub fn limit(&mut self, most: u16) {
        self.high = self.high.min(most);
    }

    /// Processes the acknowledgement of everything up to `ack`. Returns the probe's size if it was
    /// acknowledged.
    pub fn acknowledged(&mut self, ack: u32) -> Option<u16> {
        let (size, _, _) = self.probe.filter(|(_, _, end)| seq::le(*end, ack))?;
        self.probe = None;
        Some(size)
    }

    /// Records a retransmission from `start` on: a probe at or behind it was too long.
    pub fn retransmitted(&mut self, start: u32) {
        if let Some((size, from, _)) = self.probe
            && seq::le(start, from)
        {
            (self.high, self.probe) = (size - 1, None);
        }
    }
}

impl Tcb {
    /// Handles a retransmission timeout. Full segments that time out repeatedly may be dropped for
    /// their length (RFC 4821, 7.7; RFC 2923, 2.1), so the segment size shrinks.
    pub fn suspect_black_hole(&mut self, context: &mut Context<'_>) {
        let mss = self.terms.mss();
        let is_full = self.sender.flight() >= self.payload_mss();
        let is_off = context.config.path_probing == PathProbing::Off;
        if is_off || self.timers.retries() < TIMEOUTS || !is_full {
            return;
        }
        let (base, least) = if self.key.local.is_v4() {
            (BASE_MSS_V4_BYTES, LEAST_MSS_V4_BYTES)
        } else {
            (LEAST_MSS_V6_BYTES, LEAST_MSS_V6_BYTES)
        };
        let shorter = if mss > base {
            base
        } else {
            (mss / 2).max(least)
        };
        if self.terms.limit_mss(shorter) {
            self.path.high = self.path.high.max(mss);
            context.counters.path_mtu_reduced += 1;
        }
    }

    /// Sends a probe that is longer than the confirmed segment size (RFC 4821, 7.3), if enough data
    /// follows to detect its loss and no other loss is suspected.
    pub fn probe_path(&mut self, context: &mut Context<'_>) -> Option<Outgoing> {
        let size = self.path.next_size(self.terms.mss())?;
        let (start, mss) = (self.sender.next(), self.payload_mss());
        let len = u32::from(size - self.terms.mss()) + mss;
        let enough = len + SEGMENTS_BEHIND * mss;
        let cwnd = self.sender.window.cwnd();
        let is_time = self.has_uniform_segments()
            && start == self.sender.max()
            && !self.timers.is_probing()
            && seq::distance(start, self.sender.end()) >= enough
            && seq::distance(start, self.sender.edge(0)) >= enough
            && self.sender.flight() + enough <= cwnd;
        if !is_time {
            return None;
        }
        let segment = self.segment(start, len, false, context);
        let end = start.wrapping_add(segment.len);
        if segment.len == len {
            self.path.probe = Some((size, start, end));
            context.counters.path_probes += 1;
        }
        self.new_data_sent(start, &segment, segment.len, context);
        Some(segment)
    }

    /// Processes an acknowledgement: the size of an acknowledged probe becomes the segment size.
    pub fn path_acknowledged(&mut self, ack: u32) {
        if let Some(size) = self.path.acknowledged(ack) {
            self.terms.raise_mss(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches on a path that carries segments of `carries` bytes. Returns the size found and the
    /// number of probes.
    fn search(mut mss: u16, high: u16, carries: u16) -> (u16, u32) {
        let mut search = PathSearch { high, probe: None };
        let (mut at, mut probes) = (0, 0);
        while let Some(size) = search.next_size(mss) {
            let end = at + u32::from(size);
            search.probe = Some((size, at, end));
            assert_eq!(search.next_size(mss), None, "one at a time");
            probes += 1;
            if size <= carries {
                assert_eq!(search.acknowledged(end - 1), None);
                mss = search.acknowledged(end).expect("it got through");
            } else {
                search.retransmitted(end);
                search.retransmitted(at);
                assert_eq!(search.acknowledged(end), None, "it was lost");
            }
            at = end;
        }
        (mss, probes)
    }

    /// RFC 4821, 7.3: the search ends within 8 bytes of the path's size after few probes.
    /// Promise 59.
    #[test]
    fn the_longest_segment_is_found_by_bisection() {
        for carries in [1024, 1100, 1400, 1452, 1460] {
            let (found, probes) = search(1024, 1460, carries);
            assert!(
                found <= carries && carries - found <= CLOSE_ENOUGH_BYTES,
                "{carries}: {found}"
            );
            assert!(probes <= 8, "{carries}: {probes} probes");
        }
        assert_eq!(search(1460, 1460, 1460), (1460, 0));
        assert_eq!(PathSearch::default().next_size(1460), None);
    }

    /// A size reported by a router limits the search.
    /// Promise 59.
    #[test]
    fn a_router_mtu_limits_the_probing() {
        let mut search = PathSearch {
            high: 1460,
            probe: None,
        };
        search.limit(1200);
        assert_eq!(search.next_size(1024), Some(1112));
        search.limit(1024);
        assert_eq!(search.next_size(1024), None);
    }
}
