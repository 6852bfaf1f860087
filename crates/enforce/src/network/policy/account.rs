//! State of one enforced container: its rates, debts, packet costs, and the decisions that follow.

use super::contended::ContendedCpus;
use super::correction::CorrectionState;
use super::debt::{Bounds, Debts};
use super::decision::{Action, MeansSettings, NapiPlace};
use super::facts::{ContainerFacts, Facts, OwnQuota};
use super::offenders::Offenders;
use super::packets::PacketCosts;
use super::quota::Quota;
use super::rates::{Rates, Use};
use super::unused_share::UnusedShare;
use super::{Rules, uncharged};
use crate::tuning::network as tuning;
use cofferdam_types::{Container, ContainerLedger, Means};
use std::sync::Arc;
use std::time::Duration;

mod limit;
#[cfg(test)]
mod tests;

/// Enforced container with its measured rates and debts.
#[derive(Debug)]
pub(in crate::network) struct Account {
    pub container: Arc<Container>,
    /// Whether its CPU reservation owns its weight.
    pub weight_reserved: bool,
    /// Network CPU that the kernel billed to the container because enforcement arranged it,
    /// nanoseconds.
    pub charged_ns: u64,
    /// CPU time returned to the container for network CPU of others, nanoseconds.
    pub returned_ns: u64,
    /// CPUs by which its quota is raised now.
    pub(super) added_quota_cpus: f64,
    pub(super) contended: ContendedCpus,
    /// Time until which its means stay without being needed.
    enforced_until: Option<Duration>,
    /// Last time when a competitor wanted a CPU where the container causes work.
    waited_at: Option<Duration>,
    /// Last time when its packet limit dropped packets.
    bound_at: Option<Duration>,
    /// Last time when the means withheld CPU time or packets from it.
    throttled_at: Option<Duration>,
    rates: Rates,
    /// Whether its rates are of contended CPUs.
    is_measured: bool,
    debts: Debts,
    quota: Quota,
    packets: PacketCosts,
    /// Whether its NAPI threads must leave its cgroup because a quota does not stop them.
    unstoppable: bool,
    /// Whether its packets exceed what its weight can compensate, or are a flood. Stays until the
    /// means are reverted.
    exceeded_weight: bool,
    /// Whether its packets are mostly full segments that are answered, and no flood.
    streams: bool,
    /// Whether its NAPI threads are wanted. Stays until the means are reverted.
    threaded: bool,
    unused_share: UnusedShare,
    /// For how long its packets have exceeded what its weight can compensate.
    exceeding_for: Duration,
    /// For how long its packets have taken nearly all of its share while competitors waited.
    exhausted_for: Duration,
}

/// Contended CPU on which a container's use is bounded by its share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contest<'a> {
    pub cpu: u32,
    /// Part of the CPU that the container is entitled to.
    pub share: f64,
    /// All contended CPUs on which it causes work, with its share of each.
    pub shares: &'a [(u32, f64)],
    /// Containers whose weights are corrected, by CPU.
    pub offenders: &'a Offenders,
}

impl Account {
    pub fn new(container: Arc<Container>) -> Account {
        Account {
            container,
            weight_reserved: false,
            charged_ns: 0,
            returned_ns: 0,
            added_quota_cpus: 0.0,
            contended: ContendedCpus::default(),
            enforced_until: None,
            waited_at: None,
            bound_at: None,
            throttled_at: None,
            rates: Rates::default(),
            is_measured: false,
            debts: Debts::default(),
            quota: Quota::default(),
            packets: PacketCosts::default(),
            unstoppable: false,
            exceeded_weight: false,
            streams: false,
            threaded: false,
            unused_share: UnusedShare::default(),
            exceeding_for: Duration::ZERO,
            exhausted_for: Duration::ZERO,
        }
    }

    /// Whether its means bound it to its share and quota.
    pub fn is_enforced(&self) -> bool {
        self.enforced_until.is_some()
    }

    /// Whether its packets take a notable part of a CPU in softirqs.
    pub fn causes_work(&self) -> bool {
        self.rates.at_others_cost() > tuning::CAUSES_CPUS
    }

    pub fn is_under_quota(&self) -> bool {
        self.quota.cpus().is_some()
    }

    /// Whether its NAPI threads must leave its cgroup: a quota does not stop them.
    pub fn is_unstoppable(&self) -> bool {
        self.unstoppable
    }

    /// Whether its packets exceed what its weight can compensate.
    pub fn has_exceeded_weight(&self) -> bool {
        self.exceeded_weight
    }

    /// Whether its NAPI threads are to run in its cgroup.
    pub fn wants_napi(&self) -> bool {
        self.threaded
    }

    /// Debt against its shares of all CPUs, without its quota's debt, nanoseconds.
    pub fn debt_ns(&self) -> u64 {
        self.debts.ns()
    }

    /// Debt that was forgiven, nanoseconds.
    pub fn forgiven_ns(&self) -> u64 {
        self.debts.forgiven_ns()
    }

    /// Adds an interval. Returns the action to take, and the scheduled time that was withheld from
    /// the container in the interval, nanoseconds.
    pub(super) fn step(
        &mut self,
        rules: &Rules,
        facts: &Facts,
        own: &ContainerFacts,
        row: Option<&ContainerLedger>,
        contest: Option<Contest<'_>>,
    ) -> (Action, f64) {
        let length = facts.interval.length;
        let now = match contest {
            Some(contest) => {
                let others_ns = self.others_charged_ns(facts, contest);
                self.measure(facts, own, row, &[contest.cpu], others_ns)
            }
            None => self.measure(facts, own, row, &own.active.contended, 0.0),
        };
        if !own.is_alive {
            return (self.revert(), 0.0);
        }
        self.quota.set(own.quota_cpus, own.quota_period);
        // Time that it is charged for others also consumes its quota, and is returned to the quota.
        let of_quota = self.rates.caused().max(-self.rates.owed());
        if !own.active.contended.is_empty() || self.matters_to_quota(of_quota) {
            self.enforced_until = Some(facts.now + rules.linger);
        }
        match self.enforced_until {
            None => return (Action::Nothing, 0.0),
            Some(until) if facts.now >= until => {
                self.debts.lapse();
                self.quota.debt.lapse();
                return (self.revert(), 0.0);
            }
            Some(_) => {}
        }
        self.packets.learn(own, row, &now, &self.quota, length);
        self.streams = self.are_streams(row) && !own.is_flooded();
        // No limit can reduce the cost of dropping: as a debt it would only grow.
        let anywhere = (now.corrected_anywhere() - self.packets.dropping_cpus()).max(0.0);
        self.quota.update(anywhere, length, rules.debt_bound);
        let share = contest.map(|contest| contest.share);
        if let Some(Contest { cpu, share, .. }) = contest {
            self.waited_at = Some(facts.now);
            let used = self.counted(&now, share);
            let bounds = Bounds {
                debt: rules.debt_bound,
                credit: self.credit(facts.now, own),
                repayment_time: self.repayment_time(),
            };
            self.debts.update(cpu, used, share, length, bounds);
            // A limit's effect is not unused share. Softirq time that remains with a running NAPI
            // thread is the cost of dropping packets, except for streams, whose packets are not
            // dropped.
            self.exceeded_weight |= own.is_flooded();
            let takes_over = own.is_flooded()
                || (!self.streams && self.rates.napi() > tuning::UNUSED_SHARE_SCATTER_CPUS);
            match takes_over {
                true => self.unused_share = UnusedShare::default(),
                false => self.unused_share.update(&self.rates, share, length),
            }
        }
        let waited = contest.map_or(&[][..], |contest| contest.shares);
        self.debts
            .fade(|cpu| waited.iter().any(|(at, _)| *at == cpu), length);
        let settings = MeansSettings {
            packets: self.packets(rules, facts.now, own, row, share),
            weight: self.weight(rules, facts.now, own, contest),
            quota_us: self.quota_us(rules, facts.now, own),
            napi: self.napi(rules, facts, own, share),
        };
        let lowered = own.weight.is_some_and(|w| w.written.is_some()) || settings.weight.is_some();
        let withheld = share.filter(|_| lowered).map_or(0.0, |share| {
            self.rates.withheld(share) * length.as_nanos() as f64
        });
        (Action::Enforce(settings), withheld)
    }

    /// CPU time of an interval that counts against the container's share. Uncontended time on this
    /// CPU is free. Its tasks exceed the share when competitors pause, and the scheduler repays
    /// those. So only the network CPU beyond that counts, unless it exceeds what a weight can
    /// compensate.
    fn counted(&self, now: &Rates, share: f64) -> f64 {
        let used = now.corrected().min(1.0);
        match self.exceeded_weight {
            true => used,
            false => used.min(share + now.taken_beyond(share)),
        }
    }

    /// Time of its share that it may save. A stream that loses packets slows down too much and
    /// recovers slowly. While the means affect the container, it may therefore save more, so that
    /// it gets its share on average. Otherwise the credit covers only the scatter of measurements.
    fn credit(&mut self, now: Duration, own: &ContainerFacts) -> Duration {
        if own.is_throttled() {
            self.throttled_at = Some(now);
        }
        let is_recent = |at| now.saturating_sub(at) < tuning::THROTTLED;
        match self.throttled_at.is_some_and(is_recent) {
            true => tuning::THROTTLED_CREDIT,
            false => tuning::CREDIT,
        }
    }

    /// Time over which it repays a debt.
    fn repayment_time(&self) -> Duration {
        match self.exceeded_weight && !self.streams {
            true => tuning::FLOOD_REPAYMENT_TIME,
            false => tuning::REPAYMENT_TIME,
        }
    }

    fn revert(&mut self) -> Action {
        self.enforced_until = None;
        (self.waited_at, self.bound_at) = (None, None);
        (self.exceeded_weight, self.threaded) = (false, false);
        self.unused_share = UnusedShare::default();
        (self.exceeding_for, self.exhausted_for) = (Duration::ZERO, Duration::ZERO);
        self.added_quota_cpus = 0.0;
        Action::Revert
    }

    /// Whether network CPU of this size, in CPUs, warrants a correction of its quota.
    fn matters_to_quota(&self, cpus: f64) -> bool {
        let quota = self.quota.cpus();
        quota.is_some_and(|quota| cpus > tuning::CAUSES_CPUS * quota)
    }

    /// Network CPU that ran in the time of tasks whose weights are not corrected, with the cost of
    /// their interruptions, nanoseconds.
    fn others_charged_ns(&self, facts: &Facts, contest: Contest<'_>) -> f64 {
        let cpus = &facts.interval.cpus;
        let Some(at) = cpus.iter().position(|(cpu, _)| cpu.0 == contest.cpu) else {
            return 0.0;
        };
        let here = &cpus[at].1;
        let of = |column: &[u64]| column.get(at).copied().unwrap_or(0);
        let (mut charged, mut interruptions) = (here.charged_host_ns, here.interruptions);
        for row in &facts.interval.containers {
            let id = row.container.cgroup;
            if id == self.container.cgroup || contest.offenders.contains(id, contest.cpu) {
                interruptions = interruptions.saturating_sub(of(&row.interruptions_by_cpu));
            } else {
                charged += of(&row.charged_by_cpu_ns);
            }
        }
        charged as f64 + interruptions as f64 * facts.interruptions.on(contest.cpu)
    }

    /// Adds an interval's counts; where the CPU matters, those of `contended`. Returns the rates of
    /// the interval.
    fn measure(
        &mut self,
        facts: &Facts,
        own: &ContainerFacts,
        row: Option<&ContainerLedger>,
        contended: &[u32],
        others_charged_ns: f64,
    ) -> Rates {
        let interval = facts.interval;
        let ledger = row.map(|row| row.ledger).unwrap_or_default();
        let at_contended = |column: &[u64]| -> u64 {
            let cpus = interval.cpus.iter().zip(column);
            let contended = cpus.filter(|((cpu, _), _)| contended.contains(&cpu.0));
            contended.map(|(_, ns)| *ns).sum()
        };
        let caused = row.map_or(0, |row| at_contended(&row.caused_by_cpu_ns));
        let charged = row.map_or(0, |row| at_contended(&row.charged_by_cpu_ns));
        let uncharged_ns = row.map_or(0.0, |row| {
            uncharged::uncharged_ns(facts, row, contended, own.napi_ns)
        });
        let interrupted_ns = row.map_or(0.0, |row| {
            uncharged::interrupted_ns(facts, row, own.napi_ns)
        });
        let napi_ns = uncharged::napi_on(interval, contended, own.napi_ns);
        let used = Use {
            usage_ns: own.billed.all_ns,
            billed_ns: own.billed.on(contended),
            billed_here_ns: own.billed.known_on(contended),
            caused_ns: ledger.caused_ns() as f64 + uncharged_ns,
            charged_ns: charged as f64,
            others_charged_ns,
            owed_ns: ledger.owed_ns() as f64 + uncharged_ns - interrupted_ns,
            softirq_ns: (caused as f64 - napi_ns).max(0.0) + uncharged_ns,
            napi_ns,
        };
        let was_measured = std::mem::replace(&mut self.is_measured, !contended.is_empty());
        if self.is_measured && !was_measured {
            self.rates.begin(&used, interval.length);
        }
        self.rates.update(&used, interval.length);
        self.charged_ns += own.napi_ns;
        Rates::of(&used, interval.length)
    }

    /// Whether its weight can be lowered.
    fn is_by_weight(&self, rules: &Rules, own: &ContainerFacts) -> bool {
        let base = own.weight.and_then(|weight| weight.base);
        self.corrects_weight(rules) && base.is_some_and(|base| base >= tuning::LEAST_WEIGHT)
    }

    fn corrects_weight(&self, rules: &Rules) -> bool {
        rules.may(Means::WeightCorrection) && !self.weight_reserved
    }

    /// Lowers its weight by its softirq time on the contended CPUs.
    fn weight(
        &self,
        rules: &Rules,
        now: Duration,
        own: &ContainerFacts,
        contest: Option<Contest<'_>>,
    ) -> Option<f64> {
        if !self.corrects_weight(rules) {
            return None;
        }
        let file = own.weight?;
        let base = file.base?;
        let is_recent = |at| now.saturating_sub(at) < tuning::WEIGHT_STAYS;
        let nobody_waits = !self.waited_at.is_some_and(is_recent);
        if own.active.contended.is_empty() || nobody_waits || self.rates.runs_elsewhere() {
            // No CPU is contended, or the container does not run there. A low weight would withhold
            // its share, and `ksoftirqd` would get that time.
            file.written?;
            return file.rewrite(base, 0.0, tuning::WEIGHT_INTERVAL, now);
        }
        // A weight has no effect while no competitor waits, so nothing is learned.
        let Contest {
            cpu,
            share,
            offenders,
            ..
        } = contest?;
        let others = offenders.others_share(self.container.cgroup, cpu, share);
        let part = self
            .rates
            .weight_part(share, others, &self.debts.here(), self.unused_share);
        let value = base * part;
        file.rewrite(value, tuning::WEIGHT_STEP, tuning::WEIGHT_INTERVAL, now)
    }

    /// Deducts its debt from its quota, and adds the time that it was charged for others. A quota
    /// of a cgroup above also serves others and stays unchanged.
    fn quota_us(&mut self, rules: &Rules, now: Duration, own: &ContainerFacts) -> Option<f64> {
        self.added_quota_cpus = 0.0;
        if !rules.may(Means::QuotaCorrection) || !self.is_under_quota() {
            return None;
        }
        let found = own.own_quota?;
        let file = CorrectionState {
            base: own.quota.base.or(Some(found.quota_us)),
            ..own.quota
        };
        let base = OwnQuota {
            quota_us: file.base?,
            ..found
        };
        let limited = own.limiting.received;
        let left = self.quota.left_for_tasks(base.cpus(), &self.rates, limited);
        let value = (left * base.period_us).max(tuning::LOWEST_QUOTA_US);
        let written = file.rewrite(value, tuning::QUOTA_STEP, tuning::QUOTA_INTERVAL, now);
        let holds = written.or(file.written.map(|w| w.value));
        let holds = holds.unwrap_or(base.quota_us);
        self.added_quota_cpus = ((holds - base.quota_us) / base.period_us).max(0.0);
        written
    }

    /// Place of its NAPI threads. Once wanted they stay until the means are reverted: the work that
    /// they take over is no softirq any more, so the rates do not show whether they are still
    /// needed.
    fn napi(
        &mut self,
        rules: &Rules,
        facts: &Facts,
        own: &ContainerFacts,
        share: Option<f64>,
    ) -> NapiPlace {
        let length = facts.interval.length;
        let spends =
            share.is_some_and(|share| self.rates.softirq() > tuning::EXHAUSTED_PART * share);
        self.exhausted_for = match spends {
            true => (self.exhausted_for + length).min(tuning::EXHAUSTED),
            false => self.exhausted_for.saturating_sub(length),
        };
        // Without a waiting competitor an assumed share applies.
        let share = share.unwrap_or(tuning::UNCONTENDED_SHARE);
        self.exceeding_for = match self.rates.is_beyond_weight(share) {
            true => self.exceeding_for + length,
            false => Duration::ZERO,
        };
        let of_quota = self.matters_to_quota(self.rates.caused());
        self.exceeded_weight |= of_quota || self.exceeding_for >= tuning::BEYOND_WEIGHT;
        // A NAPI thread only receives; sending causes softirq work with it and without.
        let receives = self.packets.sent_part() < tuning::SENDER_PART;
        // Streams arrive in large merged segments. For a NAPI thread they are split again, and pass
        // a ring of 256 pieces. A weight is enough for them while it can still be lowered.
        let has_rest = self.exhausted_for < tuning::EXHAUSTED;
        let by_weight = self.streams && has_rest && self.is_by_weight(rules, own);
        self.threaded |=
            self.exceeded_weight && ((receives && !by_weight) || self.is_under_quota());
        self.unstoppable =
            rules.napi_in_container && self.is_under_quota() && !facts.quota_stops_threads;
        match self.threaded {
            _ if !rules.may(Means::NapiThread) => NapiPlace::Unchanged,
            _ if self.unstoppable => NapiPlace::Removed,
            true => NapiPlace::InContainer,
            false => NapiPlace::Unchanged,
        }
    }
}
