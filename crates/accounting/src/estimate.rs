//! The ledger as estimated from windows, or as counted while everything is counted.
//!
//! Pure: takes readings of the raw counts with the times that they represent. The raw counts grow
//! only inside windows. A window adds its counts to the estimate, times the time since the window
//! before over the window's length. While everything is counted, the estimate grows by the raw
//! counts.

use crate::reading::Reading;
use cofferdam_bpf::{PairReading, RowReading, reason_row};
use cofferdam_types::{AccountingMode, CgroupId, Moments, Reason, Sampling, Spread};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Cumulative counts, part of them estimated.
pub(crate) struct Estimate {
    /// Counts up to `covered`.
    base: Reading,
    /// Counts of the programs at that time.
    taken: Reading,
    covered: Instant,
    mode: AccountingMode,
    /// LastWindow window since sampling began.
    last: Option<LastWindow>,
    /// Totals of the windows; its own spreads are unused.
    sampling: Sampling,
    /// By row.
    spreads: Vec<Spread>,
    pairs: HashMap<(u32, u32), PairCount>,
    /// Time that the open window has counted for rows with a new owner, per CPU, nanoseconds.
    orphaned_ns: Vec<u64>,
}

/// LastWindow window.
struct LastWindow {
    seen: Reading,
    length: Duration,
    /// Time that it represents, nanoseconds.
    period: f64,
    /// Factor from its counts to its estimate.
    scale: f64,
}

/// Packets from one row to another.
#[derive(Clone, Copy, Default)]
struct PairCount {
    base: u64,
    taken: u64,
}

impl Estimate {
    /// Begins with the counts so far, all of them exact.
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

    /// Returns the time up to which the counts are valid at the time `now`.
    pub(crate) fn covered(&self, now: Instant) -> Instant {
        match self.mode {
            AccountingMode::Exact => now,
            AccountingMode::Sampled => self.covered,
        }
    }

    /// Returns the counts, if the programs' are `raw` now. Only for the exact mode: the counts of
    /// an open window are not in the estimate yet.
    pub(crate) fn current_counts(&self, raw: &Reading) -> Reading {
        let mut now = self.base.clone();
        now.add(&raw.since(&self.taken), 1.0);
        now
    }

    /// Returns the counts up to [`Estimate::covered`], for the sampling mode.
    pub(crate) fn covered_counts(&self) -> Reading {
        self.base.clone()
    }

    /// Begins sampling: everything was counted until `closed`.
    pub(crate) fn close(&mut self, raw: Reading, pairs: &[PairReading], closed: Instant) {
        self.advance(raw, pairs, 1.0);
        self.covered = closed.max(self.covered);
        self.mode = AccountingMode::Sampled;
        self.last = None;
    }

    /// Adds a window with the counts since the last one; it represents the time since then.
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
        self.last = Some(LastWindow {
            seen,
            length,
            period,
            scale,
        });
    }

    /// Begins exact counting at `opened`. The time since the last window is estimated from that
    /// window.
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

    /// Begins a row with a new owner, at the programs' counts `raw`. Returns the row's base.
    pub(crate) fn begin_row(&mut self, row: u32, raw: &[RowReading]) -> Vec<RowReading> {
        if let Some(spread) = self.spreads.get_mut(row as usize) {
            *spread = Spread::default();
        }
        if self.mode == AccountingMode::Sampled {
            // The open window has counts of the former owner: they are unattributed. So are those
            // of the last window, if it will represent more time.
            let pending = self.taken.replace_row(row, raw);
            self.orphaned_ns.resize(pending.len(), 0);
            for (orphaned, ns) in self.orphaned_ns.iter_mut().zip(pending) {
                *orphaned += ns;
            }
            if let Some(last) = &mut self.last {
                let none = vec![RowReading::default(); raw.len()];
                let seen: Vec<u64> = last.seen.caused_of(row);
                last.seen.replace_row(row, &none);
                last.seen.add_to_row(unknown(), &seen);
            }
            return self.base.row(row);
        }
        let mut base = self.base.row(row);
        for ((base, now), taken) in base.iter_mut().zip(raw).zip(self.taken.row(row)) {
            *base = base.plus(&now.minus(&taken), 1.0);
        }
        base
    }

    /// Returns the quality of the estimates for the rows of these cgroups.
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

    /// Returns the packets from one row to another, if the programs have counted `raw`.
    pub(crate) fn pairs(&self, raw: Vec<PairReading>) -> Vec<PairReading> {
        raw.into_iter()
            .map(|pair| {
                let count = self.pairs.get(&(pair.sender, pair.receiver));
                let count = count.copied().unwrap_or_default();
                let live = match self.mode {
                    AccountingMode::Exact => pair.packets.saturating_sub(count.taken),
                    AccountingMode::Sampled => 0,
                };
                PairReading {
                    packets: count.base + live,
                    ..pair
                }
            })
            .collect()
    }

    /// Returns the unscaled counts of the last window, and its length.
    pub(crate) fn last_window(&self) -> Option<(&Reading, Duration)> {
        let last = self.last.as_ref()?;
        Some((&last.seen, last.length))
    }

    /// Adds the counts since the last call, times `scale`; returns them unscaled.
    fn advance(&mut self, raw: Reading, pairs: &[PairReading], scale: f64) -> Reading {
        let mut seen = raw.since(&self.taken);
        let orphaned = std::mem::take(&mut self.orphaned_ns);
        seen.add_to_row(unknown(), &orphaned);
        self.base.add(&seen, scale);
        self.taken = raw;
        self.take_pairs(pairs, scale);
        seen
    }

    fn take_pairs(&mut self, pairs: &[PairReading], scale: f64) {
        // Pairs that were evicted, or whose rows have new owners, start again.
        let mut counts = std::mem::take(&mut self.pairs);
        for pair in pairs {
            let key = (pair.sender, pair.receiver);
            let old = counts.remove(&key).unwrap_or_default();
            let restarted = pair.packets < old.taken;
            let old = if restarted { PairCount::default() } else { old };
            let seen = pair.packets - old.taken;
            let pair = PairCount {
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

/// Returns the row of time whose owner is unknown.
fn unknown() -> u32 {
    reason_row(Reason::UnknownNamespace)
}

#[cfg(test)]
mod tests;
