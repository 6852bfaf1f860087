//! Smoothed rates of a container, and the weight and the budget that follow from them.

use super::debt::Debt;
use super::unused_share::UnusedShare;
use crate::tuning::network::{
    BEYOND_WEIGHT_PART, LOWEST_BUDGET_PART, LOWEST_WEIGHT_PART, RATE_MEMORY_S, RUNS_THERE_PART,
};
use std::time::Duration;

/// CPU time of one container in an interval, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Use {
    /// Time billed by the scheduler on all CPUs.
    pub usage_ns: f64,
    /// Time billed by the scheduler on the contended CPUs, or on all where the kernel reports only
    /// the sum.
    pub billed_ns: f64,
    /// Time billed by the scheduler on the contended CPUs; 0 where the kernel reports only the sum.
    pub billed_here_ns: f64,
    /// Network CPU caused on all CPUs, NAPI threads included.
    pub caused_ns: f64,
    /// Network CPU of all containers that ran in its time slices on the contended CPUs.
    pub charged_ns: f64,
    /// Network CPU charged there to all tasks whose weights are not corrected, without `ksoftirqd`.
    pub others_charged_ns: f64,
    /// Caused − charged on all CPUs, with the cost of interruptions that the ledger does not see.
    pub owed_ns: f64,
    /// Softirq work that it caused on contended CPUs: nobody schedules that.
    pub softirq_ns: f64,
    /// Time of its NAPI threads in its own cgroup: caused, and correctly billed.
    pub napi_ns: f64,
}

/// Rates, in CPUs (ns per ns).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    usage: f64,
    billed: f64,
    billed_here: f64,
    caused: f64,
    charged: f64,
    others_charged: f64,
    owed: f64,
    softirq: f64,
    napi: f64,
}

impl Rates {
    /// Rates of one interval.
    pub fn of(used: &Use, length: Duration) -> Rates {
        let ns = (length.as_secs_f64() * 1e9).max(1.0);
        Rates {
            usage: used.usage_ns / ns,
            billed: used.billed_ns / ns,
            billed_here: used.billed_here_ns / ns,
            caused: used.caused_ns / ns,
            charged: used.charged_ns / ns,
            others_charged: used.others_charged_ns / ns,
            owed: used.owed_ns / ns,
            softirq: used.softirq_ns / ns,
            napi: used.napi_ns / ns,
        }
    }

    /// Resets the rates to one interval's values for the contended CPUs; earlier values belong to
    /// other CPUs.
    pub fn begin(&mut self, used: &Use, length: Duration) {
        *self = Rates {
            usage: self.usage,
            caused: self.caused,
            owed: self.owed,
            ..Rates::of(used, length)
        };
    }

    /// Adds an interval.
    pub fn update(&mut self, used: &Use, length: Duration) {
        let now = Rates::of(used, length);
        let keep = (-length.as_secs_f64() / RATE_MEMORY_S).exp();
        let mix = |old: &mut f64, new: f64| *old = *old * keep + new * (1.0 - keep);
        mix(&mut self.usage, now.usage);
        mix(&mut self.billed, now.billed);
        mix(&mut self.billed_here, now.billed_here);
        mix(&mut self.caused, now.caused);
        mix(&mut self.charged, now.charged);
        mix(&mut self.others_charged, now.others_charged);
        mix(&mut self.owed, now.owed);
        mix(&mut self.softirq, now.softirq);
        mix(&mut self.napi, now.napi);
    }

    /// Softirq work caused on the contended CPUs.
    pub fn softirq(&self) -> f64 {
        self.softirq
    }

    /// Time of its NAPI threads in its own cgroup.
    pub fn napi(&self) -> f64 {
        self.napi
    }

    /// Network CPU caused on the contended CPUs, NAPI threads included.
    pub fn at_others_cost(&self) -> f64 {
        self.softirq + self.napi
    }

    /// Time that its packets took from others beyond `share`: without the time that packets took
    /// from its own tasks, and without the time that it was billed beyond `share`.
    pub fn taken_beyond(&self, share: f64) -> f64 {
        let had = (self.billed - share).max(0.0);
        (self.softirq - self.charged - had).max(0.0)
    }

    /// Network CPU caused on all CPUs.
    pub fn caused(&self) -> f64 {
        self.caused
    }

    /// Caused − charged on all CPUs.
    pub fn owed(&self) -> f64 {
        self.owed
    }

    /// Whether it runs on other CPUs than those where its packets have victims: next to no softirq
    /// there ran in its time slices. There a lower weight returns nothing, and takes time where
    /// there is no victim. Softirqs may also miss a running container, as when its packets are
    /// dropped in bursts. Where the kernel bills each CPU, its bill decides.
    pub fn runs_elsewhere(&self) -> bool {
        self.charged < RUNS_THERE_PART * self.usage * self.softirq
            && self.billed_here <= RUNS_THERE_PART * self.usage
    }

    /// CPU time on the contended CPUs as if every packet had been billed to its owner.
    pub fn corrected(&self) -> f64 {
        self.own_work() + self.softirq + self.napi
    }

    /// CPU time on all CPUs as if every packet had been billed to its owner.
    pub fn corrected_anywhere(&self) -> f64 {
        (self.usage + self.owed).max(0.0)
    }

    /// CPU time on all CPUs without its network CPU.
    pub fn own_work_anywhere(&self) -> f64 {
        (self.corrected_anywhere() - self.caused).max(0.0)
    }

    /// CPU time on the contended CPUs without network CPU.
    pub fn own_work(&self) -> f64 {
        (self.billed - self.charged).max(0.0)
    }

    /// Part (0.02..=1) of its weight at which its scheduled time and its softirq time together
    /// equal `share`.
    ///
    /// A share F with softirq part s leaves F − s for its tasks. They are billed F − s + c,
    /// where c is the softirq time in their slices. The tasks with uncorrected weights shall have
    /// `others`, V, and are billed V + d, where d is the softirq time in theirs. Weights divide
    /// billed time, so the weight is multiplied by (F − s + c)/F · V/(V + d), whichever tasks
    /// softirqs interrupt. That is (F − s)/F if they interrupt all alike, or none because
    /// `ksoftirqd` does the work.
    ///
    /// A container above its share approaches it step by step: its use u replaces F. Unused share,
    /// `unused_share`, is deducted from s.
    pub fn weight_part(
        &self,
        share: f64,
        others: f64,
        debt: &Debt,
        unused_share: UnusedShare,
    ) -> f64 {
        let reference = self.corrected().max(share);
        if reference <= 0.0 || others <= 0.0 {
            return 1.0;
        }
        let interrupted = (self.charged - self.napi).clamp(0.0, self.softirq);
        let not_interrupted = self.softirq - interrupted;
        // The unused share reduces both factors in proportion.
        let counts = (1.0 - unused_share.cpus() / self.softirq.max(1e-9)).max(0.0);
        let own = 1.0 - (not_interrupted * counts + debt.repayment()) / reference;
        let part = own * others / (others + self.others_charged * counts);
        part.clamp(LOWEST_WEIGHT_PART, 1.0)
    }

    /// Whether its softirq work takes most of `share`: a weight can return only the part that its
    /// tasks would take. Below that the weight suffices and leaves the packets' path unchanged. A
    /// NAPI thread waits for its turn like any task, which delays a stream's acknowledgements, and
    /// disables segmentation offload for its senders.
    pub fn is_beyond_weight(&self, share: f64) -> bool {
        self.softirq > BEYOND_WEIGHT_PART * share
    }

    /// Scheduled time, in CPUs, by which it is below `share` of the time that softirqs leave.
    pub fn withheld(&self, share: f64) -> f64 {
        (share * (1.0 - self.softirq) - self.own_work() - self.napi).max(0.0)
    }

    /// Network CPU, in CPUs, that it may cause while its other work and its packets stay within
    /// `share`.
    pub fn budget(&self, share: f64, debt: &Debt) -> f64 {
        (share - self.own_work() - debt.repayment()).max(share * LOWEST_BUDGET_PART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(used: Use) -> Rates {
        let mut rates = Rates::default();
        for _ in 0..200 {
            rates.update(&used, Duration::from_nanos(20_000_000));
        }
        rates
    }

    /// Rates of a container with one competitor that has the rest of the CPU.
    fn of(billed: f64, caused: f64, charged: f64, napi: f64) -> Rates {
        let ns = |part: f64| part * 20e6;
        steady(Use {
            usage_ns: ns(billed),
            billed_ns: ns(billed),
            billed_here_ns: ns(billed),
            caused_ns: ns(caused),
            charged_ns: ns(charged),
            others_charged_ns: ns(caused - charged),
            owed_ns: ns(caused - charged),
            softirq_ns: ns(caused - napi),
            napi_ns: ns(napi),
        })
    }

    /// Model of one CPU: softirqs take `s` from the running tasks, and two groups compete by
    /// weight. Applied repeatedly, the weight part converges where the offender has its share.
    /// Promise 29.
    #[test]
    fn the_weight_converges_to_the_share() {
        for (share, s) in [(0.5, 0.1), (0.5, 0.4), (0.8, 0.3), (0.2, 0.1)] {
            let mut part = 1.0;
            for _ in 0..300 {
                let (offender, victim) = (share * part, 1.0 - share);
                let billed = offender / (offender + victim);
                let rates = of(billed, s, billed * s, 0.0);
                part =
                    rates.weight_part(share, 1.0 - share, &Debt::default(), UnusedShare::default());
            }
            let (offender, victim) = (share * part, 1.0 - share);
            let left = victim / (offender + victim) * (1.0 - s);
            assert!((left - (1.0 - share)).abs() < 0.005, "{share} {s}: {left}");
        }
    }

    /// The container had no victims so far. From the first step on its full use counts, not a third
    /// of it.
    /// Promise 30.
    #[test]
    fn the_first_interval_on_a_cpu_stands_for_itself() {
        let length = Duration::from_nanos(20_000_000);
        let used = |softirq_ns: f64| Use {
            softirq_ns,
            ..Use::default()
        };
        let mut rates = Rates::default();
        rates.update(&used(0.0), length);
        rates.begin(&used(16e6), length);
        rates.update(&used(16e6), length);
        assert_eq!(rates.softirq(), 0.8);
        rates.update(&used(0.0), length);
        assert!((0.5..0.6).contains(&rates.softirq()), "{rates:?}");
    }

    /// A sender whose packets cause work on a CPU where it never runs.
    /// Promise 29.
    /// Promise 30.
    #[test]
    fn a_container_runs_where_softirqs_fall_into_its_time() {
        let used = |charged_ns: f64| Use {
            usage_ns: 10e6,
            softirq_ns: 3e6,
            charged_ns,
            ..Use::default()
        };
        assert!(steady(used(0.0)).runs_elsewhere());
        // The container has half of the CPU, and so half of the softirq time.
        assert!(!steady(used(1.5e6)).runs_elsewhere());
        // At its lowest weight it hardly runs, but on this CPU.
        let least = Use {
            usage_ns: 0.4e6,
            ..used(3e6 * 0.02)
        };
        assert!(!steady(least).runs_elsewhere());
        // The container runs there, and next to no softirq interrupts it.
        let not_interrupted = Use {
            billed_here_ns: 1e6,
            ..used(0.0)
        };
        assert!(!steady(not_interrupted).runs_elsewhere());
        assert!(!Rates::default().runs_elsewhere());
    }

    #[test]
    fn time_that_the_kernel_bills_itself_needs_no_correction() {
        let rates = of(0.5, 0.4, 0.4, 0.4);
        assert!(
            (rates.weight_part(0.5, 0.5, &Debt::default(), UnusedShare::default()) - 1.0).abs()
                < 1e-6
        );
    }

    /// A container that sleeps for most of the time is not pushed below its share.
    /// Promise 29.
    #[test]
    fn a_container_below_its_share_keeps_its_weight() {
        let rates = of(0.4, 0.1, 0.05, 0.0);
        let part = rates.weight_part(0.5, 0.5, &Debt::default(), UnusedShare::default());
        assert!((part - 0.9 * 0.5 / 0.55).abs() < 1e-6, "{part}");
    }

    #[test]
    fn withheld_time_is_the_time_that_the_weight_takes() {
        let rates = of(0.2, 0.3, 0.1, 0.0);
        assert!((rates.withheld(0.5) - (0.5 * 0.7 - 0.1)).abs() < 1e-6);
        assert_eq!(of(0.9, 0.1, 0.0, 0.0).withheld(0.5), 0.0);
    }

    #[test]
    fn the_budget_is_the_rest_after_own_work() {
        let rates = of(0.3, 0.2, 0.1, 0.0);
        assert!((rates.budget(0.5, &Debt::default()) - 0.3).abs() < 1e-6);
        let busy = of(0.9, 0.2, 0.1, 0.0);
        assert!(busy.budget(0.5, &Debt::default()) > 0.0);
    }
}
