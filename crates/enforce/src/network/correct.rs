//! Charge and return by what the kernel offers anyway: weights and quotas.

use super::Network;
use super::container::Enforced;
use super::quota;
use crate::journal::Journal;
use cofferdam_types::Means;
use std::time::Duration;

/// Weights are written when they change by this part, and at most so often.
const WEIGHT_STEP: f64 = 0.03;
const WEIGHT_INTERVAL: Duration = Duration::from_millis(15);
/// Writing a quota refills it, so it is written seldom.
const QUOTA_STEP: f64 = 0.1;
const QUOTA_INTERVAL: Duration = Duration::from_millis(500);

impl Network {
    /// Lowers its weight by what it takes in softirq of the CPUs that others want too.
    pub(super) fn correct_weight(&self, journal: &mut Journal, enforced: &mut Enforced) {
        if !self.may(Means::WeightCorrection) || enforced.weight_reserved {
            return;
        }
        // Where nobody waits a weight says nothing, and nothing new is learned.
        let Some(share) = enforced.share else {
            return;
        };
        let Some((file, base)) = enforced.base_weight() else {
            return;
        };
        let value = base * enforced.rates.weight_part(share, &enforced.debt);
        let lowest = if file.ends_with("cpu.weight") {
            1.0
        } else {
            2.0
        };
        let text = |value: f64| format!("{:.0}", value.max(lowest));
        enforced
            .weight
            .set(journal, &file, value, text, WEIGHT_STEP, WEIGHT_INTERVAL);
    }

    /// Takes what it owes off its quota, gives what it paid for others back to it.
    pub(super) fn correct_quota(&self, journal: &mut Journal, enforced: &mut Enforced) {
        if !self.may(Means::QuotaCorrection) || enforced.limit.cpus().is_none() {
            return;
        }
        let Some((directory, v2)) = enforced.place.cpu.clone() else {
            return;
        };
        // Where only a cgroup above has one, that is for others too, and left alone.
        let Some(found) = quota::read(&directory, v2) else {
            return;
        };
        let period_us = found.period_us;
        let base = *enforced.quota.base.get_or_insert(found.quota_us);
        enforced.quota_cpus = Some(base / period_us);
        let limited = self.ingress.limits(enforced.container.cgroup);
        let left = enforced
            .limit
            .left_for_tasks(base / period_us, &enforced.rates, limited);
        let value = (left * period_us).max(1_000.0);
        let text = |value: f64| {
            if v2 {
                format!("{value:.0} {period_us:.0}")
            } else {
                format!("{value:.0}")
            }
        };
        enforced.quota.set(
            journal,
            &found.file,
            value,
            text,
            QUOTA_STEP,
            QUOTA_INTERVAL,
        );
    }
}
