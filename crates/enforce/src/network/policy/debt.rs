//! Debt: CPU time that a container used beyond its share.

use crate::tuning::network::{FADES, REPAYMENT_TIME};
use std::collections::BTreeMap;
use std::time::Duration;

/// CPU time that a container used beyond its share while competitors waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Debt {
    ns: f64,
    forgiven_ns: f64,
    repayment_time: Duration,
}

impl Default for Debt {
    fn default() -> Debt {
        Debt {
            ns: 0.0,
            forgiven_ns: 0.0,
            repayment_time: REPAYMENT_TIME,
        }
    }
}

/// Bounds of a debt and of a credit, and the time in which a debt is repaid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Largest debt, CPU time.
    pub debt: Duration,
    /// Time whose share may be saved.
    pub credit: Duration,
    /// Time over which a debt is repaid. A credit is spent over [`REPAYMENT_TIME`].
    pub repayment_time: Duration,
}

impl Debt {
    /// Adds an interval in which `used` CPUs were used of an entitlement of `share`. Debt beyond
    /// the bound is forgiven and counted. A negative debt is a credit.
    pub fn update(&mut self, used: f64, share: f64, length: Duration, bounds: Bounds) {
        let ns = self.ns + (used - share) * length.as_secs_f64() * 1e9;
        let most = bounds.debt.as_secs_f64() * 1e9;
        let least = -share * bounds.credit.as_secs_f64() * 1e9;
        self.forgiven_ns += (ns - most).max(0.0);
        self.ns = ns.clamp(least, most);
        self.repayment_time = bounds.repayment_time;
    }

    /// Forgives part of the debt in an interval without waiting competitors. The victims have left,
    /// and a later competitor has nothing to get back. A short pause of theirs leaves most of the
    /// debt.
    pub fn fade(&mut self, length: Duration) {
        let owed = self.ns.max(0.0);
        let forgiven = owed * (1.0 - (-length.as_secs_f64() / FADES.as_secs_f64()).exp());
        self.forgiven_ns += forgiven;
        self.ns -= forgiven;
    }

    /// Forgives the whole debt: no competitor waits any more.
    pub fn lapse(&mut self) {
        self.forgiven_ns += self.ns.max(0.0);
        self.ns = 0.0;
    }

    /// CPUs to repay now; negative: CPUs that may be used beyond the share.
    pub fn repayment(&self) -> f64 {
        let over = match self.ns > 0.0 {
            true => self.repayment_time,
            false => REPAYMENT_TIME,
        };
        self.ns / over.as_nanos() as f64
    }

    /// Debt, nanoseconds; 0 for a credit.
    pub fn ns(&self) -> u64 {
        self.ns.max(0.0) as u64
    }

    /// Forgiven debt, nanoseconds, cumulative.
    pub fn forgiven_ns(&self) -> u64 {
        self.forgiven_ns as u64
    }
}

/// Debts of one container by CPU. Time left unused on one CPU repays no competitor on another.
#[derive(Clone, Debug, Default)]
pub(super) struct Debts {
    by_cpu: BTreeMap<u32, Debt>,
    /// CPU whose debt is repaid now, or was last.
    here: u32,
}

impl Debts {
    /// Debt on the CPU that is repaid now.
    pub fn here(&self) -> Debt {
        self.by_cpu.get(&self.here).copied().unwrap_or_default()
    }

    /// Adds an interval as [`Debt::update`] does, on `cpu`, which is repaid from now on.
    pub fn update(&mut self, cpu: u32, used: f64, share: f64, length: Duration, bounds: Bounds) {
        self.here = cpu;
        let debt = self.by_cpu.entry(cpu).or_default();
        debt.update(used, share, length, bounds);
    }

    /// Fades the debts as [`Debt::fade`] does, on all CPUs without waiting competitors.
    pub fn fade(&mut self, waited: impl Fn(u32) -> bool, length: Duration) {
        let rest = self.by_cpu.iter_mut().filter(|(cpu, _)| !waited(**cpu));
        rest.for_each(|(_, debt)| debt.fade(length));
    }

    /// Forgives all debts.
    pub fn lapse(&mut self) {
        self.by_cpu.values_mut().for_each(Debt::lapse);
    }

    /// Debt on all CPUs, nanoseconds.
    pub fn ns(&self) -> u64 {
        self.by_cpu.values().map(Debt::ns).sum()
    }

    /// Forgiven debt on all CPUs, nanoseconds, cumulative.
    pub fn forgiven_ns(&self) -> u64 {
        self.by_cpu.values().map(Debt::forgiven_ns).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        debt: Duration::from_secs(1),
        credit: Duration::from_millis(20),
        repayment_time: REPAYMENT_TIME,
    };

    /// Promise 34.
    #[test]
    fn debt_is_bounded_and_forgiven_debt_is_counted() {
        let mut debt = Debt::default();
        let (bounds, step) = (BOUNDS, Duration::from_secs(3));
        debt.update(1.0, 0.5, step, bounds);
        assert_eq!(
            (debt.ns(), debt.forgiven_ns()),
            (1_000_000_000, 500_000_000)
        );
        debt.update(0.3, 0.5, Duration::from_secs(1), bounds);
        assert_eq!(debt.ns(), 800_000_000);
        debt.update(0.0, 0.5, Duration::from_secs(100), bounds);
        assert_eq!((debt.ns(), debt.forgiven_ns()), (0, 500_000_000));
        assert!(
            (debt.repayment() + 0.02).abs() < 1e-9,
            "{}",
            debt.repayment()
        );
    }

    /// Promise 34.
    #[test]
    fn a_debt_fades_without_competitors_and_a_credit_stays() {
        let step = Duration::from_millis(20);
        let mut debt = Debt::default();
        debt.update(1.0, 0.5, Duration::from_millis(100), BOUNDS);
        assert_eq!(debt.ns(), 50_000_000);
        debt.fade(step);
        assert!((40_000_000..42_000_000).contains(&debt.ns()), "{debt:?}");
        (0..50).for_each(|_| debt.fade(step));
        assert!(debt.ns() < 10_000, "{debt:?}");
        assert_eq!(debt.ns() + debt.forgiven_ns(), 50_000_000 - 1);
        debt.update(0.0, 0.5, Duration::from_millis(100), BOUNDS);
        let credit = debt.repayment();
        debt.fade(step);
        assert_eq!(debt.repayment(), credit);
    }

    #[test]
    fn a_credit_lapses_when_less_may_be_saved() {
        let mut debt = Debt::default();
        let saving = Bounds {
            credit: Duration::from_millis(50),
            ..BOUNDS
        };
        debt.update(0.0, 0.5, Duration::from_secs(1), saving);
        assert!(
            (debt.repayment() + 0.05).abs() < 1e-9,
            "{}",
            debt.repayment()
        );
        debt.update(0.5, 0.5, Duration::from_millis(20), BOUNDS);
        assert!(
            (debt.repayment() + 0.02).abs() < 1e-9,
            "{}",
            debt.repayment()
        );
    }

    /// Promise 34.
    #[test]
    fn a_bound_speeds_up_repayment_but_no_credit() {
        let soon = Bounds {
            repayment_time: REPAYMENT_TIME / 2,
            ..BOUNDS
        };
        let repaid = |used, bounds| {
            let mut debt = Debt::default();
            debt.update(used, 0.5, Duration::from_millis(100), bounds);
            debt.repayment()
        };
        assert!((repaid(1.0, soon) - 2.0 * repaid(1.0, BOUNDS)).abs() < 1e-9);
        assert_eq!(repaid(0.0, soon), repaid(0.0, BOUNDS));
    }

    /// The container exceeded its share of CPU 1 while no competitor waited on CPU 0, where a
    /// victim now appears.
    /// Promise 34.
    #[test]
    fn a_debt_of_one_cpu_is_not_repaid_on_another() {
        let step = Duration::from_millis(100);
        let mut debts = Debts::default();
        debts.update(1, 1.0, 0.5, step, BOUNDS);
        debts.fade(|cpu| cpu == 1, step);
        assert_eq!(debts.here().ns(), 50_000_000);
        debts.update(0, 0.75, 0.5, step, BOUNDS);
        debts.fade(|_| true, step);
        assert_eq!((debts.here().ns(), debts.ns()), (25_000_000, 75_000_000));
        debts.fade(|cpu| cpu == 0, step);
        assert_eq!(debts.here().ns(), 25_000_000, "they wait for it");
        assert!((43_000_000..44_000_000).contains(&debts.ns()), "{debts:?}");
        debts.lapse();
        assert_eq!((debts.ns(), debts.forgiven_ns()), (0, 75_000_000));
    }
}
