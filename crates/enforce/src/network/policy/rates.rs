//! What a container did, smoothed, and the weight and budget that follow.

use super::debt::Debt;
use super::slack::Slack;
use crate::tuning::network::{
    BEYOND_WEIGHT_PART, LOWEST_BUDGET_PART, LOWEST_WEIGHT_PART, RATE_MEMORY_S, RUNS_THERE_PART,
};
use std::time::Duration;

/// What one container did in an interval. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Use {
    /// CPU time billed by the scheduler, wherever.
    pub usage_ns: f64,
    /// CPU time billed by the scheduler on the CPUs where others pay.
    pub billed_ns: f64,
    /// The same where the kernel tells it for each CPU; 0 where it does not.
    pub there_ns: f64,
    /// Network CPU caused anywhere, NAPI threads included.
    pub caused_ns: f64,
    /// Network CPU of anybody that ran in its time slices on the CPUs where others pay.
    pub charged_ns: f64,
    /// The same of all there whose weights stay as they are, `ksoftirqd` left out.
    pub others_charged_ns: f64,
    /// caused − charged on all CPUs, and the same of what softirqs take beside.
    pub owed_ns: f64,
    /// Of what it caused, softirq work on CPUs where others run: nobody schedules that.
    pub softirq_ns: f64,
    /// Time of its NAPI threads in its own cgroup: caused, and billed to it as it should be.
    pub napi_ns: f64,
}

/// Rates, in CPUs (ns per ns).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    usage: f64,
    billed: f64,
    there: f64,
    caused: f64,
    charged: f64,
    others_charged: f64,
    owed: f64,
    softirq: f64,
    napi: f64,
}

impl Rates {
    /// Those of one interval.
    pub fn of(used: &Use, length: Duration) -> Rates {
        let ns = (length.as_secs_f64() * 1e9).max(1.0);
        Rates {
            usage: used.usage_ns / ns,
            billed: used.billed_ns / ns,
            there: used.there_ns / ns,
            caused: used.caused_ns / ns,
            charged: used.charged_ns / ns,
            others_charged: used.others_charged_ns / ns,
            owed: used.owed_ns / ns,
            softirq: used.softirq_ns / ns,
            napi: used.napi_ns / ns,
        }
    }

    /// Begins anew, with an interval, on the CPUs where others pay: what was there before is of others, or of none.
    pub fn begin(&mut self, used: &Use, length: Duration) {
        *self = Rates {
            usage: self.usage,
            caused: self.caused,
            owed: self.owed,
            ..Rates::of(used, length)
        };
    }

    /// Takes an interval in.
    pub fn update(&mut self, used: &Use, length: Duration) {
        let now = Rates::of(used, length);
        let keep = (-length.as_secs_f64() / RATE_MEMORY_S).exp();
        let mix = |old: &mut f64, new: f64| *old = *old * keep + new * (1.0 - keep);
        mix(&mut self.usage, now.usage);
        mix(&mut self.billed, now.billed);
        mix(&mut self.there, now.there);
        mix(&mut self.caused, now.caused);
        mix(&mut self.charged, now.charged);
        mix(&mut self.others_charged, now.others_charged);
        mix(&mut self.owed, now.owed);
        mix(&mut self.softirq, now.softirq);
        mix(&mut self.napi, now.napi);
    }

    /// Caused in softirq where others run.
    pub fn softirq(&self) -> f64 {
        self.softirq
    }

    /// Time of its NAPI threads in its own cgroup.
    pub fn napi(&self) -> f64 {
        self.napi
    }

    /// Network CPU caused on the CPUs that it shares with others, its NAPI threads included.
    pub fn at_others_cost(&self) -> f64 {
        self.softirq + self.napi
    }

    /// What its packets took of the time of others, less what packets of anybody took of its own, and less what it was billed
    /// beyond `share`.
    pub fn taken_beyond(&self, share: f64) -> f64 {
        let had = (self.billed - share).max(0.0);
        (self.softirq - self.charged - had).max(0.0)
    }

    /// Network CPU caused, wherever it ran.
    pub fn caused(&self) -> f64 {
        self.caused
    }

    /// caused − charged, wherever.
    pub fn owed(&self) -> f64 {
        self.owed
    }

    /// It runs on other CPUs than those where others pay for it: next to none of the softirq time there
    /// fell into its time slices. A weight gives nothing back there then, and takes time where
    /// nobody pays. Softirqs may also be too few while it runs, as when its packets are dropped in bursts: where
    /// the kernel bills each CPU, that decides. (On cgroup v2 alone it does not; the ledger charges it.)
    pub fn runs_elsewhere(&self) -> bool {
        self.charged < RUNS_THERE_PART * self.usage * self.softirq
            && self.there <= RUNS_THERE_PART * self.usage
    }

    /// Its use of the CPUs that it shares with others, as it would read had every packet been
    /// billed to its owner.
    pub fn corrected(&self) -> f64 {
        self.own_work() + self.softirq + self.napi
    }

    /// Its use of all CPUs, as it would read had every packet been billed to its owner.
    pub fn corrected_anywhere(&self) -> f64 {
        (self.usage + self.owed).max(0.0)
    }

    /// What it uses beside its network CPU, wherever.
    pub fn own_work_anywhere(&self) -> f64 {
        (self.corrected_anywhere() - self.caused).max(0.0)
    }

    /// What it uses beside its network CPU.
    pub fn own_work(&self) -> f64 {
        (self.billed - self.charged).max(0.0)
    }

    /// The part of its weight that it should have, so that its scheduled time and its softirq
    /// time together come to `share` (0.02..=1). Of share F with softirq fraction s of a CPU, F − s is left for its
    /// tasks, and they are billed what softirqs take of their time, c: F − s + c. Those whose weights stay as they are shall
    /// have `others`, V, and are billed V + d with what softirqs take of theirs. Weights divide what is billed: so its own
    /// is multiplied by (F − s + c)/F · V/(V + d), whoever softirqs fall upon: (F − s)/F when all alike, or
    /// none because `ksoftirqd` does the work. Who uses more than its share at the moment comes down to it step by
    /// step: its use u stands for F then. Who leaves part of its share unused, `slack`, has that much less taken.
    pub fn weight_part(&self, share: f64, others: f64, debt: &Debt, slack: Slack) -> f64 {
        let reference = self.corrected().max(share);
        if reference <= 0.0 || others <= 0.0 {
            return 1.0;
        }
        let met = (self.charged - self.napi).clamp(0.0, self.softirq);
        let unmet = self.softirq - met;
        // What it leaves of its share counts against both in the same proportion.
        let counts = (1.0 - slack.cpus() / self.softirq.max(1e-9)).max(0.0);
        let own = 1.0 - (unmet * counts + debt.payment()) / reference;
        let part = own * others / (others + self.others_charged * counts);
        part.clamp(LOWEST_WEIGHT_PART, 1.0)
    }

    /// Its softirq work takes most of `share`: a weight can only give back what its tasks would take of
    /// it. Below, the weight does it alone, and leaves the container's packets their way: a NAPI thread
    /// waits for its turn as any task does, so a stream's acknowledgements come late, and it takes
    /// segmentation offload from those that send to it.
    pub fn is_beyond_weight(&self, share: f64) -> bool {
        self.softirq > BEYOND_WEIGHT_PART * share
    }

    /// Scheduled time, in CPUs, that it has less than `share` of what softirq leaves.
    pub fn withheld(&self, share: f64) -> f64 {
        (share * (1.0 - self.softirq) - self.own_work() - self.napi).max(0.0)
    }

    /// Network CPU that it may cause, in CPUs, so that with its other work it stays within
    /// `share`.
    pub fn budget(&self, share: f64, debt: &Debt) -> f64 {
        (share - self.own_work() - debt.payment()).max(share * LOWEST_BUDGET_PART)
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

    /// Beside one other that has the rest of the CPU.
    fn of(billed: f64, caused: f64, charged: f64, napi: f64) -> Rates {
        let ns = |part: f64| part * 20e6;
        steady(Use {
            usage_ns: ns(billed),
            billed_ns: ns(billed),
            there_ns: ns(billed),
            caused_ns: ns(caused),
            charged_ns: ns(charged),
            others_charged_ns: ns(caused - charged),
            owed_ns: ns(caused - charged),
            softirq_ns: ns(caused - napi),
            napi_ns: ns(napi),
        })
    }

    /// A model of one CPU: softirq takes `s` from whoever runs; two groups compete by weight.
    /// The weight part, applied again and again, ends where the offender has its share.
    /// Promise 29.
    #[test]
    fn the_weight_ends_where_the_share_is_met() {
        for (share, s) in [(0.5, 0.1), (0.5, 0.4), (0.8, 0.3), (0.2, 0.1)] {
            let mut part = 1.0;
            for _ in 0..300 {
                let (offender, victim) = (share * part, 1.0 - share);
                let billed = offender / (offender + victim);
                let rates = of(billed, s, billed * s, 0.0);
                part = rates.weight_part(share, 1.0 - share, &Debt::default(), Slack::default());
            }
            let (offender, victim) = (share * part, 1.0 - share);
            let left = victim / (offender + victim) * (1.0 - s);
            assert!((left - (1.0 - share)).abs() < 0.005, "{share} {s}: {left}");
        }
    }

    /// Nobody paid for it so far. It uses as much as it does from the first step on, not a third of it.
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

    /// A sender whose packets make work for another CPU: it never runs there.
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
        // Half of the CPU is its own, and so is half of the softirq time.
        assert!(!steady(used(1.5e6)).runs_elsewhere());
        // Held down to the least: it hardly runs at all, but there.
        let least = Use {
            usage_ns: 0.4e6,
            ..used(3e6 * 0.02)
        };
        assert!(!steady(least).runs_elsewhere());
        // It runs there, and next to no softirq meets it.
        let unmet = Use {
            there_ns: 1e6,
            ..used(0.0)
        };
        assert!(!steady(unmet).runs_elsewhere());
        assert!(!Rates::default().runs_elsewhere());
    }

    #[test]
    fn what_the_kernel_charges_itself_needs_no_correction() {
        let rates = of(0.5, 0.4, 0.4, 0.4);
        assert!(
            (rates.weight_part(0.5, 0.5, &Debt::default(), Slack::default()) - 1.0).abs() < 1e-6
        );
    }

    /// Who sleeps most of the time is not pushed below its share for it.
    /// Promise 29.
    #[test]
    fn a_container_below_its_share_keeps_the_weight_that_its_share_needs() {
        let rates = of(0.4, 0.1, 0.05, 0.0);
        let part = rates.weight_part(0.5, 0.5, &Debt::default(), Slack::default());
        assert!((part - 0.9 * 0.5 / 0.55).abs() < 1e-6, "{part}");
    }

    #[test]
    fn what_the_weight_takes_is_what_is_withheld() {
        let rates = of(0.2, 0.3, 0.1, 0.0);
        assert!((rates.withheld(0.5) - (0.5 * 0.7 - 0.1)).abs() < 1e-6);
        assert_eq!(of(0.9, 0.1, 0.0, 0.0).withheld(0.5), 0.0);
    }

    #[test]
    fn the_budget_is_what_own_work_leaves() {
        let rates = of(0.3, 0.2, 0.1, 0.0);
        assert!((rates.budget(0.5, &Debt::default()) - 0.3).abs() < 1e-6);
        let busy = of(0.9, 0.2, 0.1, 0.0);
        assert!(busy.budget(0.5, &Debt::default()) > 0.0);
    }
}
