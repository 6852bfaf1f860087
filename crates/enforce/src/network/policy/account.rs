//! What is kept about one container, and what its share and its quota leave it.

use super::correction::Standing;
use super::debt::{Bounds, Debt};
use super::decision::{Action, Hold, NapiPlace, PacketLimit, Packets, Spending};
use super::facts::{ContainerFacts, Facts, OwnQuota};
use super::packets::PacketCosts;
use super::pressed::PressedCpus;
use super::quota::Quota;
use super::rates::{Rates, Use};
use super::slack::Slack;
use super::{Rules, unseen};
use crate::tuning::network as tuning;
use cofferdam_types::{Container, ContainerLedger, Means};
use std::sync::Arc;
use std::time::Duration;

/// One container whose network CPU is enforced.
#[derive(Debug)]
pub(in crate::network) struct Account {
    pub container: Arc<Container>,
    /// Its weight is its reservation's.
    pub weight_reserved: bool,
    /// Network CPU that the kernel charged to it on our arrangement, nanoseconds.
    pub charged_ns: u64,
    /// CPU time returned to it because it had paid for others, nanoseconds.
    pub returned_ns: u64,
    /// CPUs by which its quota is raised now.
    pub(super) added_quota_cpus: f64,
    pub(super) pressed: PressedCpus,
    /// Until when its means stay in place without being needed.
    held_until: Option<Duration>,
    /// When the limit on its packets last bound, or could have.
    bound_at: Option<Duration>,
    /// When the means last took something from it.
    held_back: Option<Duration>,
    rates: Rates,
    debt: Debt,
    quota: Quota,
    packets: PacketCosts,
    /// Its NAPI threads must not run in its cgroup, because a quota does not stop them.
    unstoppable: bool,
    /// Its NAPI threads are wanted, until it is let go.
    threaded: bool,
    slack: Slack,
}

/// The CPU that a container is held to: others want to run there while it causes work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contest {
    pub cpu: u32,
    /// The part of it that the container is entitled to.
    pub share: f64,
}

impl Account {
    pub fn new(container: Arc<Container>) -> Account {
        Account {
            container,
            weight_reserved: false,
            charged_ns: 0,
            returned_ns: 0,
            added_quota_cpus: 0.0,
            pressed: PressedCpus::default(),
            held_until: None,
            bound_at: None,
            held_back: None,
            rates: Rates::default(),
            debt: Debt::default(),
            quota: Quota::default(),
            packets: PacketCosts::default(),
            unstoppable: false,
            threaded: false,
            slack: Slack::default(),
        }
    }

    /// Whether it is held to its share and quota.
    pub fn is_held(&self) -> bool {
        self.held_until.is_some()
    }

    pub fn is_under_quota(&self) -> bool {
        self.quota.cpus().is_some()
    }

    /// Its NAPI threads must not run in its cgroup: a quota does not stop them.
    pub fn is_unstoppable(&self) -> bool {
        self.unstoppable
    }

    /// Its packets take more than its weight can give back: its NAPI threads are to run in its cgroup.
    pub fn wants_napi(&self) -> bool {
        self.threaded
    }

    /// Of its share, not of its quota; nanoseconds.
    pub fn debt_ns(&self) -> u64 {
        self.debt.ns()
    }

    /// Debt that was forgiven, nanoseconds.
    pub fn forgiven_ns(&self) -> u64 {
        self.debt.forgiven_ns()
    }

    /// Takes an interval in. Returns what is to be done, and the scheduled time that was withheld
    /// from it in the interval, nanoseconds.
    pub(super) fn step(
        &mut self,
        rules: &Rules,
        facts: &Facts,
        own: &ContainerFacts,
        row: Option<&ContainerLedger>,
        contest: Option<Contest>,
    ) -> (Action, f64) {
        let length = facts.interval.length;
        let now = match contest {
            Some(contest) => self.measure(facts, own, row, &[contest.cpu]),
            None => self.measure(facts, own, row, &own.active.pressed),
        };
        if !own.is_alive {
            return (self.let_go(), 0.0);
        }
        self.quota.set(own.quota_cpus, own.quota_period);
        let quota_cpus = self.quota.cpus();
        let charges_quota =
            quota_cpus.is_some_and(|cpus| self.rates.caused() > tuning::CAUSES_CPUS * cpus);
        if !own.active.pressed.is_empty() || charges_quota {
            self.held_until = Some(facts.now + rules.linger);
        }
        match self.held_until {
            None => return (Action::Nothing, 0.0),
            Some(until) if facts.now >= until => {
                self.debt.lapse();
                self.quota.debt.lapse();
                return (self.let_go(), 0.0);
            }
            Some(_) => {}
        }
        self.packets.learn(own, row, &now, &self.quota, length);
        // What dropping costs no limit can lower: as a debt it would only grow.
        let anywhere = (now.corrected_anywhere() - self.packets.dropping()).max(0.0);
        self.quota.update(anywhere, length, rules.debt_bound);
        let share = contest.map(|contest| contest.share);
        if let Some(share) = share {
            // Beyond this CPU it may use what nobody else wants.
            let used = now.corrected().min(1.0);
            let bounds = Bounds {
                debt: rules.debt_bound,
                credit: self.credit(facts.now, own),
            };
            self.debt.update(used, share, length, bounds);
            // What a limit keeps from it is not left by it, and what is in softirq once a NAPI thread has
            // taken over is what it costs to drop packets.
            self.threaded |= own.is_flooded();
            match self.threaded {
                true => self.slack = Slack::default(),
                false => self.slack.update(&self.rates, share, length),
            }
        }
        let hold = Hold {
            packets: self.packets(rules, facts.now, own, row, share),
            weight: self.weight(rules, facts.now, own, share),
            quota_us: self.quota_us(rules, facts.now, own),
            napi: self.napi(rules, facts, share),
        };
        let lowered = own.weight.is_some_and(|w| w.written.is_some()) || hold.weight.is_some();
        let withheld = share.filter(|_| lowered).map_or(0.0, |share| {
            self.rates.withheld(share) * length.as_nanos() as f64
        });
        (Action::Hold(hold), withheld)
    }

    /// What it may save of its share. A stream that loses packets slows down by more than it must,
    /// and comes back slowly: while the means hold it back, more is saved than for scatter, so that
    /// it has its share on average. A container that sleeps of its own accord saves no more than
    /// the scatter.
    fn credit(&mut self, now: Duration, own: &ContainerFacts) -> Duration {
        if own.is_held_back() {
            self.held_back = Some(now);
        }
        let is_recent = |at| now.saturating_sub(at) < tuning::HELD_BACK;
        match self.held_back.is_some_and(is_recent) {
            true => tuning::HELD_BACK_CREDIT,
            false => tuning::CREDIT,
        }
    }

    fn let_go(&mut self) -> Action {
        self.held_until = None;
        self.bound_at = None;
        self.threaded = false;
        self.slack = Slack::default();
        self.added_quota_cpus = 0.0;
        Action::LetGo
    }

    /// Takes an interval's counts in, those of the CPUs `pressed` where that matters. Returns the rates
    /// in it.
    fn measure(
        &mut self,
        facts: &Facts,
        own: &ContainerFacts,
        row: Option<&ContainerLedger>,
        pressed: &[u32],
    ) -> Rates {
        let interval = facts.interval;
        let ledger = row.map(|row| row.ledger).unwrap_or_default();
        let at_pressed = |column: &[u64]| -> u64 {
            let cpus = interval.cpus.iter().zip(column);
            let pressed = cpus.filter(|((cpu, _), _)| pressed.contains(&cpu.0));
            pressed.map(|(_, ns)| *ns).sum()
        };
        let caused = row.map_or(0, |row| at_pressed(&row.caused_by_cpu_ns));
        let charged = row.map_or(0, |row| at_pressed(&row.charged_by_cpu_ns));
        let unseen_ns = row.map_or(0.0, |row| {
            let interrupted_ns = &facts.interrupted_ns;
            unseen::unseen_ns(interrupted_ns, row, interval, pressed, own.napi_ns)
        });
        let napi_ns = unseen::napi_on(interval, pressed, own.napi_ns);
        let used = Use {
            usage_ns: own.billed.all_ns,
            billed_ns: own.billed.on(pressed),
            caused_ns: ledger.caused_ns() as f64 + unseen_ns,
            charged_ns: charged as f64,
            owed_ns: ledger.owed_ns() as f64 + unseen_ns,
            softirq_ns: (caused as f64 - napi_ns).max(0.0) + unseen_ns,
            napi_ns,
        };
        self.rates.update(&used, interval.length);
        self.charged_ns += own.napi_ns;
        Rates::of(&used, interval.length)
    }

    /// Network CPU that it may cause, in CPUs, within its share of the CPUs where others wait and
    /// within its quota; as [`Quota::counted`] counts it.
    fn budget(&self, share: Option<f64>) -> Option<f64> {
        let of_quota = self.quota.budget(&self.rates, self.packets.dropping());
        let of_share = share.map(|share| {
            let counted = self.quota.counted(&self.rates);
            let scale = counted / self.rates.at_others_cost().max(1e-6);
            self.rates.budget(share, &self.debt) * scale.max(1.0)
        });
        match (of_share, of_quota) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
    }

    /// The limit on its packets. Once in place, it stays until it has not bound for a while: nobody
    /// waits, or its NAPI thread does all of its network work in its own time.
    fn packets(
        &mut self,
        rules: &Rules,
        now: Duration,
        own: &ContainerFacts,
        row: Option<&ContainerLedger>,
        share: Option<f64>,
    ) -> Packets {
        let may_rx = rules.may(Means::IngressDrop);
        let may_tx = rules.may(Means::EgressDrop);
        if !may_rx && !may_tx {
            return Packets::Kept;
        }
        let budget = self.budget(share);
        let over = budget.is_some_and(|cpus| self.quota.counted(&self.rates) > cpus);
        let is_limited = own.limiting.received || own.limiting.sent;
        if budget.is_some() || self.bound_at.is_none() {
            self.bound_at = Some(now);
        }
        let is_idle = |at| now.saturating_sub(at) >= tuning::LIMIT_IDLE;
        match is_limited {
            false if !over => return Packets::Kept,
            true if self.bound_at.is_some_and(is_idle) => return Packets::Freed,
            _ => {}
        }
        let ledger = row.map(|row| row.ledger).unwrap_or_default();
        Packets::Limited(PacketLimit {
            spending: Spending {
                cpus: budget,
                ns_per_rx_packet: self.packets.rx.ns_per_packet(),
                ns_per_tx_packet: self.packets.tx.ns_per_packet(),
                saves_up: self.quota.saves_up().unwrap_or_default().max(tuning::BURST),
            },
            received: may_rx,
            sent: may_tx && (self.packets.sends() > tuning::SENDS_PART || own.limiting.sent),
            large: ledger.rx_bytes >= tuning::LARGE_BYTES * ledger.rx_packets,
            // Without a NAPI thread of its own the last place to drop is its own interface, when
            // the other end of it is no host that forwards.
            at_own_interface: (!rules.may(Means::NapiThread) || self.unstoppable)
                && self.container.interfaces.len() == 1,
        })
    }

    /// Lowers its weight by what it takes in softirq of the CPUs that others want too.
    fn weight(
        &self,
        rules: &Rules,
        now: Duration,
        own: &ContainerFacts,
        share: Option<f64>,
    ) -> Option<f64> {
        if !rules.may(Means::WeightCorrection) || self.weight_reserved {
            return None;
        }
        let standing = own.weight?;
        let base = standing.base?;
        if own.active.pressed.is_empty() || self.rates.runs_elsewhere() {
            // Nobody pays any more, as when its NAPI thread has come into its cgroup, or not where it
            // runs: a weight that stayed low would withhold what it is entitled to.
            standing.written?;
            return standing.rewrite(base, 0.0, tuning::WEIGHT_INTERVAL, now);
        }
        // Where nobody waits a weight says nothing, and nothing new is learned.
        let value = base * self.rates.weight_part(share?, &self.debt, self.slack);
        standing.rewrite(value, tuning::WEIGHT_STEP, tuning::WEIGHT_INTERVAL, now)
    }

    /// Takes what it owes off its quota, gives what it paid for others back to it. Where only a
    /// cgroup above has a quota, that is for others too, and left alone.
    fn quota_us(&mut self, rules: &Rules, now: Duration, own: &ContainerFacts) -> Option<f64> {
        self.added_quota_cpus = 0.0;
        if !rules.may(Means::QuotaCorrection) || !self.is_under_quota() {
            return None;
        }
        let found = own.own_quota?;
        let standing = Standing {
            base: own.quota.base.or(Some(found.quota_us)),
            ..own.quota
        };
        let base = OwnQuota {
            quota_us: standing.base?,
            ..found
        };
        let limited = own.limiting.received;
        let left = self.quota.left_for_tasks(base.cpus(), &self.rates, limited);
        let value = (left * base.period_us).max(tuning::LOWEST_QUOTA_US);
        let written = standing.rewrite(value, tuning::QUOTA_STEP, tuning::QUOTA_INTERVAL, now);
        let holds = written.or(standing.written.map(|w| w.value));
        let holds = holds.unwrap_or(base.quota_us);
        self.added_quota_cpus = ((holds - base.quota_us) / base.period_us).max(0.0);
        written
    }

    /// Once they are wanted they stay until it is let go: what they take over is no softirq any more, and
    /// says nothing about what would be without them.
    fn napi(&mut self, rules: &Rules, facts: &Facts, share: Option<f64>) -> NapiPlace {
        if !rules.may(Means::NapiThread) {
            return NapiPlace::Untouched;
        }
        // Where nobody waits at the moment a weight says nothing: as beside one other then.
        let share = share.unwrap_or(tuning::NOBODY_WAITS_SHARE);
        let beyond_weight = self.rates.is_beyond_weight(share);
        self.threaded |= self.is_under_quota() || beyond_weight;
        self.unstoppable =
            rules.napi_in_container && self.is_under_quota() && !facts.quota_stops_threads;
        match self.threaded {
            _ if self.unstoppable => NapiPlace::KeptOut,
            true => NapiPlace::Engaged,
            false => NapiPlace::Untouched,
        }
    }
}
