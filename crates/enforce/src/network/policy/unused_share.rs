//! Unused share: the part of its share of a contended CPU that a container leaves.

use super::rates::Rates;
use crate::tuning::network::{UNUSED_SHARE_S, UNUSED_SHARE_SCATTER_CPUS};
use std::time::Duration;

/// Part of a weight correction that is dropped because the container stays below its share even
/// with its packets. Others already get the time that it leaves, and a lower weight would only
/// delay its wake-ups. A delayed stream leaves even more, so a weight that follows softirq time
/// alone would fall further and further.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct UnusedShare(f64);

impl UnusedShare {
    /// Adds an interval with `rates` of a container whose share is `share`. The value follows in
    /// about [`UNUSED_SHARE_S`] in both directions, and never exceeds the softirq work.
    pub fn update(&mut self, rates: &Rates, share: f64, length: Duration) {
        let left = share - rates.corrected() - UNUSED_SHARE_SCATTER_CPUS;
        let unused_share = self.0 + left * length.as_secs_f64() / UNUSED_SHARE_S;
        self.0 = unused_share.clamp(0.0, rates.softirq());
    }

    /// Unused share, CPUs.
    pub fn cpus(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::debt::Debt;
    use super::super::rates::Use;
    use super::*;

    const STEP: Duration = Duration::from_millis(20);

    /// Model of one CPU, shared equally with a task that takes all it can get. The container's
    /// tasks want `wants` of it, its packets take `softirq`. Returns its weight part and its use.
    fn converge(wants: f64, softirq: f64) -> (f64, f64) {
        let (mut unused_share, mut rates, mut part) =
            (UnusedShare::default(), Rates::default(), 1.0);
        let mut uses = 0.0;
        for _ in 0..300 {
            let fair = part / (part + 1.0) * (1.0 - softirq);
            // A task that waits longer for its turn also requests less.
            let own = fair.min(wants * (0.3 + 0.7 * part));
            uses = own + softirq;
            let ns = |cpus: f64| cpus * STEP.as_nanos() as f64;
            // Softirqs take an equal part of each task's time.
            let billed = own / (1.0 - softirq);
            rates.update(
                &Use {
                    usage_ns: ns(billed),
                    billed_ns: ns(billed),
                    caused_ns: ns(softirq),
                    charged_ns: ns(softirq * billed),
                    others_charged_ns: ns(softirq * (1.0 - billed)),
                    softirq_ns: ns(softirq),
                    ..Use::default()
                },
                STEP,
            );
            unused_share.update(&rates, 0.5, STEP);
            part = rates.weight_part(0.5, 0.5, &Debt::default(), unused_share);
        }
        (part, uses)
    }

    /// Promise 30.
    #[test]
    fn a_container_below_its_share_keeps_its_weight() {
        let (part, uses) = converge(0.2, 0.2);
        assert!(part > 0.99 && (0.39..0.41).contains(&uses), "{part} {uses}");
    }

    /// Promise 30.
    #[test]
    fn a_container_that_wants_more_gets_its_share() {
        for softirq in [0.05, 0.2, 0.4] {
            let (part, uses) = converge(1.0, softirq);
            assert!(
                part < 1.0 && (uses - 0.5).abs() < 0.03,
                "{softirq}: {part} {uses}"
            );
        }
    }

    /// Promise 30.
    #[test]
    fn unused_share_is_no_credit() {
        let mut unused_share = UnusedShare::default();
        let idle = Rates::default();
        unused_share.update(&idle, 0.5, Duration::from_secs(10));
        assert_eq!(
            unused_share.cpus(),
            0.0,
            "no softirq work, nothing to take off"
        );
    }
}
