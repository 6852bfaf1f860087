//! From what was measured to what is to be done: smoothed rates, debt, weight, quota. Pure.

use std::time::Duration;

/// Rates forget the past with this time constant, seconds: a few control periods.
const MEMORY_S: f64 = 0.06;
/// Debt is paid back over this time, seconds.
const PAY_BACK_S: f64 = 0.5;
/// A weight is never lowered below this part of its own: the container must be able to run.
const LOWEST_WEIGHT: f64 = 0.02;
/// What was used less than the share is kept for so long a time of it, seconds: what is measured
/// scatters, and who is held to its share on average must be given the average.
const CREDIT_S: f64 = 0.02;
/// Part of its share that a container's traffic always keeps: it must be able to end its
/// connections, and to be seen.
pub(super) const LOWEST_BUDGET: f64 = 0.05;

/// What one container did in an interval. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Use {
    /// CPU time billed by the scheduler, wherever.
    pub usage_ns: f64,
    /// CPU time billed by the scheduler on the CPUs where others pay.
    pub billed_ns: f64,
    /// Network CPU caused anywhere, NAPI threads included.
    pub caused_ns: f64,
    /// Network CPU of anybody that ran in its time slices on the CPUs where others pay.
    pub charged_ns: f64,
    /// caused − charged on all CPUs.
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
    caused: f64,
    charged: f64,
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
            caused: used.caused_ns / ns,
            charged: used.charged_ns / ns,
            owed: used.owed_ns / ns,
            softirq: used.softirq_ns / ns,
            napi: used.napi_ns / ns,
        }
    }

    /// Takes an interval in.
    pub fn update(&mut self, used: &Use, length: Duration) {
        let now = Rates::of(used, length);
        let keep = (-length.as_secs_f64() / MEMORY_S).exp();
        let mix = |old: &mut f64, new: f64| *old = *old * keep + new * (1.0 - keep);
        mix(&mut self.usage, now.usage);
        mix(&mut self.billed, now.billed);
        mix(&mut self.caused, now.caused);
        mix(&mut self.charged, now.charged);
        mix(&mut self.owed, now.owed);
        mix(&mut self.softirq, now.softirq);
        mix(&mut self.napi, now.napi);
    }

    /// Caused in softirq where others run.
    pub fn softirq(&self) -> f64 {
        self.softirq
    }

    /// Network CPU caused on the CPUs that it shares with others, its NAPI threads included.
    pub fn at_others_cost(&self) -> f64 {
        self.softirq + self.napi
    }

    /// Network CPU caused, wherever it ran.
    pub fn caused(&self) -> f64 {
        self.caused
    }

    /// caused − charged, wherever.
    pub fn owed(&self) -> f64 {
        self.owed
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
    /// time together come to `share` (0.02..=1). With softirq fraction s of a CPU and share F,
    /// scheduled time must be F − s of what is left, 1 − s; by weights that is (F − s)/F of its
    /// own weight. Who uses more than its share at the moment comes down to it step by step: its
    /// use u stands for F then.
    pub fn weight_part(&self, share: f64, debt: &Debt) -> f64 {
        let reference = self.corrected().max(share);
        let stolen = self.softirq() + debt.payment();
        if reference <= 0.0 {
            return 1.0;
        }
        (1.0 - stolen / reference).clamp(LOWEST_WEIGHT, 1.0)
    }

    /// Scheduled time, in CPUs, that it has less than `share` of what softirq leaves.
    pub fn withheld(&self, share: f64) -> f64 {
        (share * (1.0 - self.softirq) - self.own_work() - self.napi).max(0.0)
    }

    /// Network CPU that it may cause, in CPUs, so that with its other work it stays within
    /// `share`.
    pub fn budget(&self, share: f64, debt: &Debt) -> f64 {
        (share - self.own_work() - debt.payment()).max(share * LOWEST_BUDGET)
    }
}

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

/// What a container may spend on packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spending {
    /// Network CPU, in CPUs.
    pub cpus: f64,
    /// What one received packet costs, nanoseconds.
    pub ns_per_rx_packet: f64,
    /// What one sent packet costs, nanoseconds.
    pub ns_per_tx_packet: f64,
    /// What it may save up while it causes nothing: so long a time of `cpus`.
    pub saves_up: Duration,
}

/// Cost of a packet, smoothed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PacketCost {
    ns: f64,
    packets: f64,
}

impl PacketCost {
    /// Takes an interval in.
    pub fn update(&mut self, caused_ns: f64, packets: f64, length: Duration) {
        let keep = (-length.as_secs_f64() / MEMORY_S).exp();
        self.ns = self.ns * keep + caused_ns;
        self.packets = self.packets * keep + packets;
    }

    /// All of the cost, smoothed; to compare.
    pub fn ns(&self) -> f64 {
        self.ns
    }

    /// Nanoseconds; between 100 ns and 1 ms, whatever was measured.
    pub fn ns_per_packet(&self) -> f64 {
        if self.packets < 1.0 {
            return 1_000.0;
        }
        (self.ns / self.packets).clamp(100.0, 1e6)
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

    fn of(billed: f64, caused: f64, charged: f64, napi: f64) -> Rates {
        let ns = |part: f64| part * 20e6;
        steady(Use {
            usage_ns: ns(billed),
            billed_ns: ns(billed),
            caused_ns: ns(caused),
            charged_ns: ns(charged),
            owed_ns: ns(caused - charged),
            softirq_ns: ns(caused - napi),
            napi_ns: ns(napi),
        })
    }

    /// A model of one CPU: softirq takes `s` from whoever runs; two groups compete by weight.
    /// The weight part, applied again and again, ends where the offender has its share.
    #[test]
    fn the_weight_ends_where_the_share_is_met() {
        for (share, s) in [(0.5, 0.1), (0.5, 0.4), (0.8, 0.3), (0.2, 0.1)] {
            let mut part = 1.0;
            for _ in 0..300 {
                let (offender, victim) = (share * part, 1.0 - share);
                let billed = offender / (offender + victim);
                let rates = of(billed, s, billed * s, 0.0);
                part = rates.weight_part(share, &Debt::default());
            }
            let (offender, victim) = (share * part, 1.0 - share);
            let left = victim / (offender + victim) * (1.0 - s);
            assert!((left - (1.0 - share)).abs() < 0.005, "{share} {s}: {left}");
        }
    }

    #[test]
    fn what_the_kernel_charges_itself_needs_no_correction() {
        let rates = of(0.5, 0.4, 0.4, 0.4);
        assert!((rates.weight_part(0.5, &Debt::default()) - 1.0).abs() < 1e-6);
    }

    /// Who sleeps most of the time is not pushed below its share for it.
    #[test]
    fn who_uses_less_than_its_share_keeps_the_weight_that_its_share_needs() {
        let rates = of(0.1, 0.1, 0.05, 0.0);
        let part = rates.weight_part(0.5, &Debt::default());
        assert!((part - 0.8).abs() < 1e-6, "{part}");
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
