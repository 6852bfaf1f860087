//! Debt: CPU time that a container had beyond its share.

use crate::tuning::network::{CREDIT_S, PAY_BACK_S};
use std::time::Duration;

/// CPU time that a container had beyond its share while others waited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Debt {
    ns: f64,
    forgiven_ns: f64,
}

impl Debt {
    /// Takes in an interval in which `used` CPUs were used of an entitlement of `share`. Grows
    /// to `bound` at most; the rest is forgiven, and counted. Below zero it is a small credit.
    pub fn update(&mut self, used: f64, share: f64, length: Duration, bound: Duration) {
        let ns = self.ns + (used - share) * length.as_secs_f64() * 1e9;
        let bound = bound.as_secs_f64() * 1e9;
        self.forgiven_ns += (ns - bound).max(0.0);
        self.ns = ns.clamp(-share * CREDIT_S * 1e9, bound);
    }

    /// Lets it lapse: nobody waits any more.
    pub fn lapse(&mut self) {
        self.forgiven_ns += self.ns.max(0.0);
        self.ns = 0.0;
    }

    /// CPUs that should be paid now; below zero: that may be had more.
    pub fn payment(&self) -> f64 {
        self.ns / 1e9 / PAY_BACK_S
    }

    /// Nanoseconds.
    pub fn ns(&self) -> u64 {
        self.ns.max(0.0) as u64
    }

    /// Nanoseconds, cumulative.
    pub fn forgiven_ns(&self) -> u64 {
        self.forgiven_ns as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debt_is_bounded_and_what_is_forgiven_is_counted() {
        let mut debt = Debt::default();
        let (bound, step) = (Duration::from_secs(1), Duration::from_secs(3));
        debt.update(1.0, 0.5, step, bound);
        assert_eq!(
            (debt.ns(), debt.forgiven_ns()),
            (1_000_000_000, 500_000_000)
        );
        debt.update(0.3, 0.5, Duration::from_secs(1), bound);
        assert_eq!(debt.ns(), 800_000_000);
        debt.update(0.0, 0.5, Duration::from_secs(100), bound);
        assert_eq!((debt.ns(), debt.forgiven_ns()), (0, 500_000_000));
        assert!((debt.payment() + 0.02).abs() < 1e-9, "{}", debt.payment());
    }
}
