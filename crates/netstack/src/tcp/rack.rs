//! RACK (RFC 8985, 6): after a segment has arrived, a segment that was sent long enough before it
//! and has not arrived is lost.

use super::sent_log::{SentLog, Tick, duration};
use super::seq;
use crate::api::Time;
use crate::tuning::loss::{REORDER_KEPT, REORDER_MOST};
use std::time::Duration;

/// Latest sent segment that has arrived (RFC 8985, 5.2: RACK.segment, RACK.xmit_ts, RACK.rtt).
#[derive(Debug, Clone, Copy)]
struct Newest {
    end: u32,
    sent: Tick,
    /// Round trip of the last arrival (RACK.rtt), in ticks.
    rtt: u32,
    /// Whether it was a retransmission.
    again: bool,
}

/// Send times and the reordering window.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rack {
    /// Send times of new data, and of retransmissions since the repair last began with the first
    /// segment.
    first: SentLog,
    again: SentLog,
    newest: Option<Newest>,
    /// Smallest round trip in ticks; zero before the first measurement.
    least_rtt: u32,
    /// Whether a segment arrived after one that was sent later, and the largest distance in bytes.
    is_reordered: bool,
    reordered_bytes: u32,
    /// Quarters of the smallest round trip by which the reordering window exceeds one quarter.
    /// Spurious retransmissions increase it, recoveries without one reset it (RFC 8985, 6.2, step
    /// 4).
    more_quarters: u8,
    calm_recoveries: u8,
    /// End of the round trip in which the last spurious retransmission was counted.
    spurious_until: Option<u32>,
}

/// Result of loss detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LossReport {
    /// Everything missing below this number that was sent once is lost.
    pub first: Option<u32>,
    /// Everything missing below this number that was retransmitted is lost again.
    pub again: Option<u32>,
    /// Time of the next detection, if one is needed.
    pub ask_at: Option<Time>,
}

/// Sending.
impl Rack {
    /// Records that new data up to `end` is sent.
    #[inline]
    pub fn sent(&mut self, end: u32, now: Time) {
        self.first.sent(end, Tick::of(now));
    }

    /// Records that `start..end` is retransmitted.
    pub fn retransmitted(&mut self, start: u32, end: u32, now: Time) {
        self.again.retransmitted(start, end, Tick::of(now));
    }

    /// Forgets the retransmissions because the repair starts with the first segment again.
    pub fn forget_retransmissions(&mut self) {
        self.again.clear();
    }

    /// Forgets all send times because everything is sent again after a timeout.
    pub fn timed_out(&mut self) {
        (self.newest, self.calm_recoveries) = (None, 0);
        self.first.clear();
        self.again.clear();
    }
}

/// Processing of acknowledgements.
impl Rack {
    /// Forgets the send times below `una`; `is_all`: no data is in flight.
    #[inline]
    pub fn advance(&mut self, una: u32, is_all: bool) {
        self.first.advance(una);
        self.again.advance(una);
        if is_all {
            self.newest = None;
        }
    }

    /// Records the arrival of a segment that ends at `end`; `again`: it was retransmitted (6.2,
    /// steps 1 and 2). Returns its round trip if that is unambiguous.
    pub fn arrived(&mut self, end: u32, again: bool, now: Time) -> Option<Duration> {
        let log = if again { &self.again } else { &self.first };
        let sent = log.time_of(end.wrapping_sub(1))?;
        let rtt = Tick::of(now).since(sent);
        if again {
            // The first copy arrived, and the retransmission was spurious.
            if rtt < self.least_rtt {
                return None;
            }
        } else if self.least_rtt == 0 || rtt < self.least_rtt {
            self.least_rtt = rtt.max(1);
        }
        let is_newer = self.newest.is_none_or(|newest| {
            sent.is_after(newest.sent) || sent == newest.sent && seq::lt(newest.end, end)
        });
        if is_newer {
            self.newest = Some(Newest {
                end,
                sent,
                rtt,
                again,
            });
        } else if let Some(newest) = &mut self.newest {
            // RACK.rtt is the round trip of the last arrival, whenever it was sent.
            newest.rtt = rtt;
        }
        (!again).then(|| duration(rtt))
    }

    /// Records that a segment which was sent once arrived after one that was sent later (6.2, step
    /// 3), at a distance of `bytes`.
    pub fn reordered(&mut self, bytes: u32) {
        self.is_reordered = true;
        self.reordered_bytes = self.reordered_bytes.max(bytes);
    }

    /// Largest distance in bytes of a reordered segment, for reports only.
    pub const fn reordered_bytes(&self) -> u32 {
        self.reordered_bytes
    }

    /// Whether the path reorders segments: the number of segments above a hole then proves no loss.
    pub const fn is_reordered(&self) -> bool {
        self.is_reordered
    }

    /// Records that the peer got a segment twice (RFC 2883). The reordering window grows, at most
    /// once a round trip (6.2, step 4).
    pub fn spurious_retransmission(&mut self, una: u32, max: u32) {
        if self.spurious_until.is_none_or(|until| seq::le(until, una)) {
            self.more_quarters = (self.more_quarters + 1).min(REORDER_MOST);
            self.spurious_until = Some(max);
            self.calm_recoveries = 0;
        }
    }

    /// Records that a recovery has ended.
    pub fn recovered(&mut self) {
        self.calm_recoveries = self.calm_recoveries.saturating_add(1);
        if self.calm_recoveries >= REORDER_KEPT {
            (self.more_quarters, self.spurious_until) = (0, None);
        }
    }
}

/// Loss detection.
impl Rack {
    /// Reordering window in ticks (6.2, step 4). `is_clear`: recovery is active, or enough has
    /// arrived above a hole. Reordering is then waited for only on a path that reorders.
    fn patience(&self, is_clear: bool, srtt: Option<Duration>) -> u32 {
        if is_clear && !self.is_reordered {
            return 0;
        }
        let quarters = u64::from(self.more_quarters) + 1;
        let most = srtt.map_or(u64::MAX, |srtt| srtt.as_nanos() as u64 >> 10);
        (quarters * u64::from(self.least_rtt / 4)).min(most).max(1) as u32
    }

    /// Data that is lost by now (6.2, step 5). `una` is the first missing byte.
    pub fn lost(&self, una: u32, is_clear: bool, srtt: Option<Duration>, now: Time) -> LossReport {
        let Some(newest) = self.newest else {
            return LossReport::default();
        };
        let patience = self.patience(is_clear, srtt);
        let old = Tick::of(now).before(newest.rtt.saturating_add(patience));
        let late = |again: bool, moment: Option<Tick>| {
            let log = if again { &self.again } else { &self.first };
            let is_late = |sent: Tick| {
                let is_before =
                    newest.sent.is_after(sent) || sent == newest.sent && again == newest.again;
                is_before && moment.is_none_or(|moment| !sent.is_after(moment))
            };
            let (end, sent) = log.late_front(is_late)?;
            // At equal send times, only the data below `newest` was sent before it.
            let end = if sent == newest.sent {
                seq::min(end, newest.end)
            } else {
                end
            };
            Some(end).filter(|end| seq::lt(una, *end))
        };
        let (first, again) = (late(false, Some(old)), late(true, Some(old)));
        // The last of the missing data is judged later.
        let later = late(false, None) != first || late(true, None) != again;
        let wait = || {
            let due = newest.rtt.saturating_add(patience);
            now + duration(due.saturating_sub(Tick::of(now).since(newest.sent)).max(1))
        };
        LossReport {
            first,
            again,
            ask_at: (patience > 0 && later).then(wait),
        }
    }
}
