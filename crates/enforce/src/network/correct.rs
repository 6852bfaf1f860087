//! Charge and return by what the kernel offers anyway: weights and quotas.

use super::Network;
use super::container::Enforced;
use crate::journal::Journal;
use cofferdam_types::Means;
use std::path::{Path, PathBuf};
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
        if !self.may(Means::QuotaCorrection) || !enforced.has_quota {
            return;
        }
        let Some((directory, v2)) = enforced.place.cpu.clone() else {
            return;
        };
        let Some((file, quota_us, period_us)) = read_quota(&directory, v2) else {
            return;
        };
        let base = *enforced.quota.base.get_or_insert(quota_us);
        enforced.quota_cpus = Some(base / period_us);
        let value = (base - enforced.rates.owed() * period_us).max(1_000.0);
        let text = |value: f64| {
            if v2 {
                format!("{value:.0} {period_us:.0}")
            } else {
                format!("{value:.0}")
            }
        };
        enforced
            .quota
            .set(journal, &file, value, text, QUOTA_STEP, QUOTA_INTERVAL);
    }
}

/// File, quota and period in microseconds; `None` without a quota.
fn read_quota(directory: &Path, v2: bool) -> Option<(PathBuf, f64, f64)> {
    let read = |file: &str| std::fs::read_to_string(directory.join(file)).ok();
    let (file, quota, period) = if v2 {
        let text = read("cpu.max")?;
        let (quota, period) = text.trim().split_once(' ')?;
        ("cpu.max", quota.to_owned(), period.to_owned())
    } else {
        (
            "cpu.cfs_quota_us",
            read("cpu.cfs_quota_us")?,
            read("cpu.cfs_period_us")?,
        )
    };
    let quota: f64 = quota.trim().parse().ok()?;
    let period: f64 = period.trim().parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| (directory.join(file), quota, period))
}
