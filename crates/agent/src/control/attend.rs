//! Attention of the control loop: the accounting mode that it orders, its use of estimates, and its
//! period.

use super::Control;
use crate::attention::{ExactReason, has_victim};
use crate::ledger::Ledger;
use cofferdam_accounting::ReadError;
use cofferdam_records::status::PAYS;
use cofferdam_types::{AccountingMode, Interval};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two steps while no rule changes the host.
const OBSERVING: Duration = Duration::from_secs(1);
/// Factor by which the period grows while no container pays for others.
const QUIET: u32 = 5;
/// Longest wait for exact accounting when a client begins to read, so that its first reading is no
/// estimate. Attaching the programs takes some milliseconds.
const BECOMES_EXACT: Duration = Duration::from_millis(100);
/// Shortest exact interval that shows a victim better than a window does.
const SAYS_ENOUGH: Duration = Duration::from_millis(50);

impl<L: Ledger> Control<L> {
    /// Applies the configured windows to the ledger.
    pub(super) fn switch_accounting(&mut self) {
        self.attention.configure(self.config.accounting);
        let sampled = self.config.accounting.mode == AccountingMode::Sampled;
        let windows = self.config.accounting.windows;
        if sampled && let Err(why) = self.readings.ledger().sample(windows) {
            tracing::error!("the ledger stays exact: {why}");
        }
    }

    /// Time at which [`Control::attend`] has work even if nothing happens.
    pub(super) fn attends_at(&self, now: Instant) -> Option<Instant> {
        let ledger = match self.readings.mode() {
            AccountingMode::Sampled => Some(self.signs.due(now)),
            AccountingMode::Exact => self.attention.ends(),
        };
        ledger.into_iter().chain(self.losses.due()).min()
    }

    /// Reads what containers lost, when it is due.
    pub(super) fn diagnose(&mut self) {
        let now = Instant::now();
        if self.losses.due().is_none_or(|due| now < due) {
            return;
        }
        let containers = self.readings.containers();
        let reserved = self.assigner.reserved();
        if self.losses.step(&containers, reserved, now) {
            match &self.losses.view.interval {
                Some(losses) => self.conditions.record_losses(losses, now),
                None => self.conditions.forget_losses(),
            }
        }
    }

    /// Evaluates the last window and the signs between windows, and orders the accounting mode that
    /// follows.
    pub(super) fn attend(&mut self) -> Result<(), ReadError> {
        let now = Instant::now();
        let mode = self.readings.mode();
        if let Some(seen) = self.readings.ledger().window()
            && !(self.window.as_ref()).is_some_and(|last| Arc::ptr_eq(last, &seen))
        {
            if self.has_victim_in(&seen) {
                self.attention.add_reason(ExactReason::VictimSuspected, now);
            }
            self.attention.note_traffic(&seen, now);
            self.window = Some(seen);
            // The control loop reads at once what the window adds to the ledger.
            self.due = now;
        }
        if self.page.was_watched() {
            self.note_watched(now);
        }
        match mode {
            AccountingMode::Exact => self.signs.forget(),
            AccountingMode::Sampled if self.signs.detect_rise(now) => {
                self.readings.ledger().look_now()
            }
            AccountingMode::Sampled => {}
        }
        let wanted = self.attention.wanted(now);
        if self.ordered != wanted {
            self.ordered = wanted;
            let exact = wanted == AccountingMode::Exact;
            self.readings.ledger().set_exact(exact)?;
        }
        if self.attention.is_now(mode) {
            // The next interval must be exact as a whole, or estimated as a whole.
            self.due = now;
            let record = self.attention.record();
            tracing::debug!("the ledger is {} from now on: {}", record.mode, record.why);
        }
        Ok(())
    }

    /// Makes the ledger exact for a client that reads it.
    pub(super) fn count_exactly(&mut self) {
        self.note_watched(Instant::now());
        if self.readings.mode() == AccountingMode::Exact && self.ordered == AccountingMode::Exact {
            return;
        }
        self.ordered = AccountingMode::Exact;
        if let Err(why) = self.readings.ledger().become_exact(BECOMES_EXACT) {
            // The next reading reports the error too, with its consequences.
            tracing::warn!("{why}");
        }
        self.readings.expire();
    }

    fn note_watched(&mut self, now: Instant) {
        self.attention.add_reason(ExactReason::Watched, now);
        self.losses.look_closely(now);
    }

    /// Whether `interval` is exact as a whole, so that containers may be judged by it.
    pub(super) fn judges(&self, interval: &Interval) -> bool {
        !interval.is_estimated() && self.readings.mode() == AccountingMode::Exact
    }

    /// Records the reasons to stay exact.
    pub(super) fn note_reasons(&mut self, judged: &Interval) {
        let now = Instant::now();
        if self.busy {
            self.attention.add_reason(ExactReason::Enforced, now);
        }
        let says_enough = judged.length >= SAYS_ENOUGH;
        if says_enough {
            self.attention.note_traffic(judged, now);
        }
        let suffers = self.conditions.now().iter().any(|c| c.name == PAYS);
        if suffers || (says_enough && self.has_victim_in(judged)) {
            self.attention.add_reason(ExactReason::VictimSuspected, now);
        }
    }

    pub(super) fn period(&self) -> Duration {
        let control = self.config.enforcement.control_period;
        match &self.effects {
            Some(_) if self.busy => control,
            Some(_) => (control * QUIET).min(OBSERVING).max(control),
            None => OBSERVING,
        }
    }

    /// Skips a step when there is nothing to do: a reading of many containers costs more than all
    /// else. Returns whether it did.
    pub(super) fn rests(&mut self) -> bool {
        let may = self.effects.as_ref().is_some_and(|e| e.can_rest());
        let lately = self.stepped.is_some_and(|at| at.elapsed() < OBSERVING);
        // The step itself reports a failed reading.
        if self.busy || !may || !lately || !self.readings.are_calm().unwrap_or(false) {
            return false;
        }
        self.due = Instant::now() + self.period();
        true
    }

    fn has_victim_in(&self, seen: &Interval) -> bool {
        has_victim(seen) || self.effects.as_ref().is_some_and(|e| e.may_act_on(seen))
    }
}

/// Interval without containers, which accuses none.
pub(super) fn nothing(interval: &Interval, length: Duration) -> Interval {
    Interval {
        time: interval.time,
        length,
        cpus: interval.cpus.clone(),
        containers: Vec::new(),
        unattributed_ns: BTreeMap::new(),
        health: interval.health,
        conservation: interval.conservation,
        sampling: None,
    }
}
