//! CPU quota of a container, and its division between tasks and packets.

use super::debt::{Bounds, Debt};
use super::rates::Rates;
use crate::tuning::network::{
    CREDIT, LOWEST_BUDGET_PART, QUOTA_HALF, QUOTA_QUARTER, REPAYMENT_TIME,
};
use std::time::Duration;

/// Tightest quota of one container and the cgroups above it.
#[derive(Debug, Default)]
pub(super) struct Quota {
    /// CPUs that it may use.
    cpus: Option<f64>,
    /// Period of its own quota, or the kernel's default.
    period: Duration,
    /// CPU time used beyond the quota.
    pub debt: Debt,
}

impl Quota {
    /// Sets the values of the files.
    pub fn set(&mut self, cpus: Option<f64>, period: Duration) {
        (self.cpus, self.period) = (cpus, period);
        if cpus.is_none() {
            self.debt.lapse();
        }
    }

    /// Time that its packets may save up. A task that has used up its quota reads nothing until the
    /// next period, and then everything that waits; the packets therefore come in bursts of a
    /// period. `None` without a quota.
    pub fn saves_up(&self) -> Option<Duration> {
        self.cpus.map(|_| self.period)
    }

    /// CPUs that it may use; `None` without a quota.
    pub fn cpus(&self) -> Option<f64> {
        self.cpus
    }

    /// Network CPU that counts against a budget, in CPUs: under a quota all of it, otherwise only
    /// the part at others' cost.
    pub fn counted(&self, rates: &Rates) -> f64 {
        match self.cpus {
            Some(_) => rates.caused(),
            None => rates.at_others_cost(),
        }
    }

    /// Adds an interval in which it used `used` CPUs, its packets included.
    pub fn update(&mut self, used: f64, length: Duration, bound: Duration) {
        if let Some(cpus) = self.cpus {
            let bounds = Bounds {
                debt: bound,
                credit: CREDIT,
                repayment_time: REPAYMENT_TIME,
            };
            self.debt.update(used, cpus, length, bounds);
        }
    }

    /// Network CPU, in CPUs, that it may cause anywhere: the part of the quota that its tasks
    /// leave. If both want more than half, each gets half, so that neither can stop the other. The
    /// cost of dropped packets, `dropping` CPUs, comes out of the packets' half, down to a quarter.
    pub fn budget(&self, rates: &Rates, dropping: f64) -> Option<f64> {
        let cpus = self.cpus?;
        let left = cpus - self.debt.repayment();
        let all = left - rates.own_work_anywhere() - dropping;
        let floor = (left * QUOTA_HALF - dropping).max(left * QUOTA_QUARTER);
        Some(all.max(floor).max(cpus * LOWEST_BUDGET_PART))
    }

    /// Part of its own quota `cpus` that is left for its tasks after its packets. With `bounded`
    /// its packets are limited and must repay the debt: the tasks keep their half. The cost of
    /// dropping grows with the flood, not with the container's activity.
    pub fn left_for_tasks(&self, cpus: f64, rates: &Rates, bounded: bool) -> f64 {
        let left = cpus - self.debt.repayment();
        let floor = if bounded { cpus * QUOTA_HALF } else { 0.0 };
        (left - rates.owed())
            .max(floor)
            .max(cpus * LOWEST_BUDGET_PART)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::Use;
    use super::*;

    const STEP: Duration = Duration::from_millis(20);
    const BOUND: Duration = Duration::from_secs(1);

    fn under(cpus: f64) -> Quota {
        Quota {
            cpus: Some(cpus),
            ..Quota::default()
        }
    }

    /// Model: packets cost what they may, tasks use `wants` or what the quota leaves. Dropping the
    /// rest of `offered` costs `dropping`.
    fn converge(quota: &mut Quota, offered: f64, wants: f64, dropping: f64) -> (f64, f64) {
        let (mut rates, mut packets, mut tasks) = (Rates::default(), offered, 0.0);
        let cpus = quota.cpus.unwrap();
        let ns = |part: f64| part * STEP.as_nanos() as f64;
        for _ in 0..600 {
            rates.update(
                &Use {
                    usage_ns: ns(tasks),
                    caused_ns: ns(packets + dropping),
                    owed_ns: ns(packets + dropping),
                    ..Use::default()
                },
                STEP,
            );
            quota.update(rates.corrected_anywhere() - dropping, STEP, BOUND);
            packets = quota.budget(&rates, dropping).unwrap().min(offered);
            tasks = quota.left_for_tasks(cpus, &rates, true).min(wants);
        }
        (packets, tasks)
    }

    /// Promise 33.
    #[test]
    fn neither_packets_nor_tasks_stop_the_other() {
        for (offered, wants) in [(1.0, 1.0), (1.0, 0.05), (0.02, 1.0)] {
            let (packets, tasks) = converge(&mut under(0.2), offered, wants, 0.0);
            let facts = format!("{offered} {wants}: {packets:.3} {tasks:.3}");
            assert!(packets + tasks < 0.21, "{facts}");
            assert!(
                packets + tasks > 0.19_f64.min(offered + wants) * 0.9,
                "{facts}"
            );
            assert!(tasks > 0.09_f64.min(wants * 0.9), "{facts}");
        }
    }

    /// Dropping alone costs more than the quota. A quarter of the quota still passes packets.
    /// Promise 33.
    #[test]
    fn a_flood_does_not_silence_its_victim() {
        let (packets, tasks) = converge(&mut under(0.2), 1.0, 0.03, 0.3);
        assert!((0.045..0.055).contains(&packets), "{packets:.3}");
        assert!(tasks > 0.029, "{tasks:.3}");
        // A cheap flood takes from the packets' half no more than it costs.
        let (packets, _) = converge(&mut under(0.2), 1.0, 1.0, 0.02);
        assert!((0.075..0.085).contains(&packets), "{packets:.3}");
    }
}
