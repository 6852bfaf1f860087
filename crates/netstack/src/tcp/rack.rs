//! Loss by the time of sending (RFC 8985, 6: RACK): once something has arrived, what was sent long
//! enough before it and has not is lost.

use super::sent_log::{SentLog, Tick, duration};
use super::seq;
use crate::api::Time;
use crate::tuning::loss::{REORDER_KEPT, REORDER_MOST};
use std::time::Duration;

/// The newest segment that has arrived (RFC 8985, 5.2: RACK.segment, RACK.xmit_ts, RACK.rtt).
#[derive(Debug, Clone, Copy)]
struct Newest {
    end: u32,
    sent: Tick,
    /// The round trip of what arrived last (RACK.rtt), in ticks.
    rtt: u32,
    /// It had been sent again.
    again: bool,
}

/// What is known of times.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rack {
    /// New data, and what was sent again since the repair last began with the first segment.
    first: SentLog,
    again: SentLog,
    newest: Option<Newest>,
    /// The least round trip, in ticks; zero before the first.
    least_rtt: u32,
    /// Something arrived after what had been sent later, by so many bytes at most.
    is_reordered: bool,
    reordered_bytes: u32,
    /// Quarters of the least round trip that reordering is waited for, more than one: grows with
    /// retransmissions that were not needed, and recoveries without one (RFC 8985, 6.2, step 4).
    more_quarters: u8,
    calm_recoveries: u8,
    /// Where the round trip ends in which the last needless retransmission was counted.
    needless_until: Option<u32>,
}

/// What was found lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// All below this that is missing and was sent once.
    pub first: Option<u32>,
    /// All below this that is missing and was sent again.
    pub again: Option<u32>,
    /// When more will be known.
    pub ask_at: Option<Time>,
}

/// Sending.
impl Rack {
    /// New data up to `end` goes out.
    #[inline]
    pub fn sent(&mut self, end: u32, now: Time) {
        self.first.sent(end, Tick::of(now));
    }

    /// `start..end` goes out again.
    pub fn sent_again(&mut self, start: u32, end: u32, now: Time) {
        self.again.sent_again(start, end, Tick::of(now));
    }

    /// The repair begins with the first segment (again).
    pub fn repair_anew(&mut self) {
        self.again.clear();
    }

    /// All is sent again, as if for the first time.
    pub fn timed_out(&mut self) {
        (self.newest, self.calm_recoveries) = (None, 0);
        self.first.clear();
        self.again.clear();
    }
}

/// Arrivals.
impl Rack {
    /// All up to `una` is acknowledged; `is_all`: nothing is under way.
    #[inline]
    pub fn advance(&mut self, una: u32, is_all: bool) {
        self.first.advance(una);
        self.again.advance(una);
        if is_all {
            self.newest = None;
        }
    }

    /// A segment that ends at `end` has arrived; `again`: it had been sent again (6.2, steps 1 and 2).
    /// Returns its round trip, if that is certain.
    pub fn arrived(&mut self, end: u32, again: bool, now: Time) -> Option<Duration> {
        let log = if again { &self.again } else { &self.first };
        let sent = log.time_of(end.wrapping_sub(1))?;
        let rtt = Tick::of(now).since(sent);
        if again {
            // It was the first one that arrived, and the second was not needed.
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
            // RACK.rtt is that of what has arrived last, whenever it was sent: the path took as long.
            newest.rtt = rtt;
        }
        (!again).then(|| duration(rtt))
    }

    /// What was sent once arrived after something that was sent later (6.2, step 3), `bytes` behind
    /// it.
    pub fn reordered(&mut self, bytes: u32) {
        self.is_reordered = true;
        self.reordered_bytes = self.reordered_bytes.max(bytes);
    }

    /// Most bytes by which something arrived too late: it is only reported.
    pub const fn reordered_bytes(&self) -> u32 {
        self.reordered_bytes
    }

    /// Whether segments come out of order on this path: how many lie above a hole says nothing then.
    pub const fn is_reordered(&self) -> bool {
        self.is_reordered
    }

    /// The peer had got a segment twice (RFC 2883): it is to be waited for longer, once a round trip
    /// at most (6.2, step 4).
    pub fn needless(&mut self, una: u32, max: u32) {
        if self.needless_until.is_none_or(|until| seq::le(until, una)) {
            self.more_quarters = (self.more_quarters + 1).min(REORDER_MOST);
            self.needless_until = Some(max);
            self.calm_recoveries = 0;
        }
    }

    /// A recovery has ended.
    pub fn recovered(&mut self) {
        self.calm_recoveries = self.calm_recoveries.saturating_add(1);
        if self.calm_recoveries >= REORDER_KEPT {
            (self.more_quarters, self.needless_until) = (0, None);
        }
    }
}

/// Loss.
impl Rack {
    /// How long reordering is waited for, in ticks (6.2, step 4). `is_clear`: recovery is under way,
    /// or enough has arrived above a hole, so that it is not waited for unless it was seen.
    fn patience(&self, is_clear: bool, srtt: Option<Duration>) -> u32 {
        if is_clear && !self.is_reordered {
            return 0;
        }
        let quarters = u64::from(self.more_quarters) + 1;
        let most = srtt.map_or(u64::MAX, |srtt| srtt.as_nanos() as u64 >> 10);
        (quarters * u64::from(self.least_rtt / 4)).min(most).max(1) as u32
    }

    /// What is lost by now (6.2, step 5). `una`: the first byte that is missing.
    pub fn lost(&self, una: u32, is_clear: bool, srtt: Option<Duration>, now: Time) -> Lost {
        let Some(newest) = self.newest else {
            return Lost::default();
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
            // Of what was sent at the same moment only what lies before it was sent before it.
            let end = if sent == newest.sent {
                seq::min(end, newest.end)
            } else {
                end
            };
            Some(end).filter(|end| seq::lt(una, *end))
        };
        let (first, again) = (late(false, Some(old)), late(true, Some(old)));
        // The newest of what is waited for is known last.
        let later = late(false, None) != first || late(true, None) != again;
        let wait = || {
            let due = newest.rtt.saturating_add(patience);
            now + duration(due.saturating_sub(Tick::of(now).since(newest.sent)).max(1))
        };
        Lost {
            first,
            again,
            ask_at: (patience > 0 && later).then(wait),
        }
    }
}
