//! The ledger as estimated from windows, and as counted while everything is.
//!
//! Pure: readings of the raw counts go in with the times that they stand for. The raw counts only grow
//! inside windows; the estimate grows by what a window saw times the time since the one before over the
//! window's length. While everything is counted, it grows by what is counted.

use crate::reading::Reading;
use cofferdam_bpf::{PairReading, RowReading, reason_row};
use cofferdam_types::{AccountingMode, CgroupId, Moments, Reason, Sampling, Spread};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Cumulative counts, part of them estimated.
pub(crate) struct Estimate {
    /// The counts up to `covered`.
    base: Reading,
    /// What the programs had counted then.
    taken: Reading,
    covered: Instant,
    mode: AccountingMode,
    /// The last window since windows began.
    last: Option<Last>,
    /// Without its spreads.
    sampling: Sampling,
    /// By row.
    spreads: Vec<Spread>,
    pairs: HashMap<(u32, u32), Pair>,
    /// On each CPU: counted in the open window for rows that have a new owner since, nanoseconds.
    orphaned_ns: Vec<u64>,
}

/// A window.
struct Last {
    seen: Reading,
    length: Duration,
    /// The time that it stands for, nanoseconds.
    period: f64,
    /// Of what it saw, to its estimate.
    scale: f64,
}

/// Packets from one row to another.
#[derive(Clone, Copy, Default)]
struct Pair {
    base: u64,
    taken: u64,
}

impl Estimate {
    /// Begins with what is counted, all of it.
    pub(crate) fn new(raw: Reading, pairs: &[PairReading], now: Instant) -> Estimate {
        let mut estimate = Estimate {
            base: raw.clone(),
            taken: raw,
            covered: now,
            mode: AccountingMode::Exact,
            last: None,
            sampling: Sampling::default(),
            spreads: Vec::new(),
            pairs: HashMap::new(),
            orphaned_ns: Vec::new(),
        };
        estimate.take_pairs(pairs, 1.0);
        estimate
    }

    pub(crate) fn mode(&self) -> AccountingMode {
        self.mode
    }

    /// Until when the counts hold, now being `now`.
    pub(crate) fn covered(&self, now: Instant) -> Instant {
        match self.mode {
            AccountingMode::Exact => now,
            AccountingMode::Sampled => self.covered,
        }
    }

    /// The counts, where the programs' are `raw` now. Not used while windows are taken: what an open one
    /// has counted is not taken yet.
    pub(crate) fn live(&self, raw: &Reading) -> Reading {
        let mut now = self.base.clone();
        now.add(&raw.since(&self.taken), 1.0);
        now
    }

    /// The counts up to [`Estimate::covered`] while windows are taken.
    pub(crate) fn held(&self) -> Reading {
        self.base.clone()
    }

    /// Everything was counted until `closed`; windows follow.
    pub(crate) fn close(&mut self, raw: Reading, pairs: &[PairReading], closed: Instant) {
        self.advance(raw, pairs, 1.0);
        self.covered = closed.max(self.covered);
        self.mode = AccountingMode::Sampled;
        self.last = None;
    }

    /// A window saw what has been counted since the last; it stands for the time since then.
    pub(crate) fn window(
        &mut self,
        raw: Reading,
        pairs: &[PairReading],
        (opened, closed): (Instant, Instant),
    ) {
        let length = closed
            .saturating_duration_since(opened)
            .max(Duration::from_nanos(1));
        let period = closed.saturating_duration_since(self.covered).max(length);
        let (length_ns, period) = (length.as_nanos() as f64, period.as_nanos() as f64);
        let scale = period / length_ns;
        let seen = self.advance(raw, pairs, scale);
        self.covered = closed.max(self.covered);
        self.sampling.windows += 1;
        self.sampling.observed_ns += length_ns as u64;
        self.count_period(0.0, period);
        self.spread(&seen, |seen| Moments::of_window(seen, period, scale));
        self.last = Some(Last {
            seen,
            length,
            period,
            scale,
        });
    }

    /// Everything is counted from `opened` on. The time since the last window is taken to have been like
    /// that.
    pub(crate) fn open(&mut self, opened: Instant) {
        let gap = opened.saturating_duration_since(self.covered);
        self.covered = opened.max(self.covered);
        self.mode = AccountingMode::Exact;
        let gap_ns = gap.as_nanos() as f64;
        let Some(last) = self.last.take() else {
            self.count_period(0.0, gap_ns);
            return;
        };
        let more = gap_ns / last.length.as_nanos() as f64;
        self.base.add(&last.seen, more);
        let (period, scale) = (last.period + gap_ns, last.scale + more);
        self.count_period(last.period, period);
        self.spread(&last.seen, |seen| {
            let before = Moments::of_window(seen, last.period, last.scale);
            Moments::of_window(seen, period, scale) - before
        });
    }

    /// A row has a new owner, and the programs' counts of it are `raw`. Returns what it counts from.
    pub(crate) fn begin_row(&mut self, row: u32, raw: &[RowReading]) -> Vec<RowReading> {
        if let Some(spread) = self.spreads.get_mut(row as usize) {
            *spread = Spread::default();
        }
        if self.mode == AccountingMode::Sampled {
            // What the open window has counted for the owner before is nobody's, and so is what the last
            // one did, should it stand for more time.
            let pending = self.taken.replace_row(row, raw);
            self.orphaned_ns.resize(pending.len(), 0);
            for (orphaned, ns) in self.orphaned_ns.iter_mut().zip(pending) {
                *orphaned += ns;
            }
            if let Some(last) = &mut self.last {
                let none = vec![RowReading::default(); raw.len()];
                let seen: Vec<u64> = last.seen.caused_of(row);
                last.seen.replace_row(row, &none);
                last.seen.give(unknown(), &seen);
            }
            return self.base.row(row);
        }
        let mut base = self.base.row(row);
        for ((base, now), taken) in base.iter_mut().zip(raw).zip(self.taken.row(row)) {
            *base = base.plus(&now.minus(&taken), 1.0);
        }
        base
    }

    /// How well estimated the rows of these cgroups are.
    pub(crate) fn sampling(&self, cgroup_of_row: &HashMap<u32, CgroupId>) -> Sampling {
        let spreads = self.spreads.iter().enumerate();
        let spreads: BTreeMap<CgroupId, Spread> = spreads
            .filter(|(_, spread)| **spread != Spread::default())
            .filter_map(|(row, spread)| Some((*cgroup_of_row.get(&(row as u32))?, *spread)))
            .collect();
        Sampling {
            mode: self.mode,
            spreads,
            ..self.sampling.clone()
        }
    }

    /// Packets from one row to another, where the programs have counted `raw`.
    pub(crate) fn pairs(&self, raw: Vec<PairReading>) -> Vec<PairReading> {
        raw.into_iter()
            .map(|pair| {
                let known = self.pairs.get(&(pair.sender, pair.receiver));
                let known = known.copied().unwrap_or_default();
                let live = match self.mode {
                    AccountingMode::Exact => pair.packets.saturating_sub(known.taken),
                    AccountingMode::Sampled => 0,
                };
                PairReading {
                    packets: known.base + live,
                    ..pair
                }
            })
            .collect()
    }

    /// The last window, as it was seen: its counts and its length.
    pub(crate) fn last_window(&self) -> Option<(&Reading, Duration)> {
        let last = self.last.as_ref()?;
        Some((&last.seen, last.length))
    }

    /// Takes in what was counted since the last time, times `scale`; returns it unscaled.
    fn advance(&mut self, raw: Reading, pairs: &[PairReading], scale: f64) -> Reading {
        let mut seen = raw.since(&self.taken);
        let orphaned = std::mem::take(&mut self.orphaned_ns);
        seen.give(unknown(), &orphaned);
        self.base.add(&seen, scale);
        self.taken = raw;
        self.take_pairs(pairs, scale);
        seen
    }

    fn take_pairs(&mut self, pairs: &[PairReading], scale: f64) {
        // Those that gave way, or whose rows have other owners, begin anew.
        let mut known = std::mem::take(&mut self.pairs);
        for pair in pairs {
            let key = (pair.sender, pair.receiver);
            let old = known.remove(&key).unwrap_or_default();
            let anew = pair.packets < old.taken;
            let old = if anew { Pair::default() } else { old };
            let seen = pair.packets - old.taken;
            let pair = Pair {
                base: old.base + (seen as f64 * scale).round() as u64,
                taken: pair.packets,
            };
            self.pairs.insert(key, pair);
        }
    }

    fn count_period(&mut self, before: f64, now: f64) {
        self.sampling.estimated_ns += (now - before) as u64;
        self.sampling.period_squares += now * now - before * before;
    }

    fn spread(&mut self, seen: &Reading, moments: impl Fn(f64) -> Moments) {
        let sums = seen.sums();
        if self.spreads.len() < sums.len() {
            self.spreads.resize(sums.len(), Spread::default());
        }
        for (spread, (caused, charged)) in self.spreads.iter_mut().zip(sums) {
            if caused > 0 || charged > 0 {
                let (caused, charged) = (caused as f64, charged as f64);
                spread.caused.add(moments(caused));
                spread.charged.add(moments(charged));
                spread.owed.add(moments(caused - charged));
            }
        }
    }
}

/// The row of time whose owner is not known.
fn unknown() -> u32 {
    reason_row(Reason::UnknownNamespace)
}

#[cfg(test)]
mod tests;
