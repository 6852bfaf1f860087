//! CPU that a container was entitled to and did not get, and why.

use crate::{CgroupId, Container, CpuId};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One container's CPU in an interval. Nanoseconds of CPU time.
///
/// Invariant: the four losses add up to [`CpuLoss::lost_ns`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLoss {
    /// What its reservation, or its weight among those that compete, gave it.
    pub entitled_ns: u64,
    /// What its threads ran.
    pub got_ns: u64,
    /// Lost to forced runqueue sharing: it had a thread waiting on a CPU while others ran there.
    pub forced_sharing_ns: u64,
    /// Lost as phantom CPU time: it waited while a CPU was idle, or what it waited was idle on
    /// other CPUs in the same scheduling period, left by others that were throttled.
    pub phantom_ns: u64,
    /// Lost to its own quota.
    pub throttled_ns: u64,
    /// Lost for want of a runnable thread: it slept.
    pub lack_ns: u64,
}

/// What the scheduler's counters say of a container, before it is set against what the
/// container was entitled to. Nanoseconds, summed over CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleTime {
    /// Its threads ran.
    pub run_ns: u64,
    /// It had threads waiting on a CPU while others ran there, phantom time left out.
    pub shared_ns: u64,
    /// Waits while other CPUs were idle, or that idle CPUs could compensate in the same period.
    pub phantom_ns: u64,
    /// It had threads on a CPU and its quota had run out.
    pub throttled_ns: u64,
}

impl std::ops::Sub for ScheduleTime {
    type Output = ScheduleTime;

    fn sub(self, old: ScheduleTime) -> ScheduleTime {
        ScheduleTime {
            run_ns: self.run_ns.saturating_sub(old.run_ns),
            shared_ns: self.shared_ns.saturating_sub(old.shared_ns),
            phantom_ns: self.phantom_ns.saturating_sub(old.phantom_ns),
            throttled_ns: self.throttled_ns.saturating_sub(old.throttled_ns),
        }
    }
}

impl CpuLoss {
    /// Splits what is missing of `entitled_ns`.
    ///
    /// A thread that wanted to run shows as waiting or throttled. The rest was not withheld by
    /// others: the container lacked threads. If it waited for more than it is missing (it has more
    /// threads than claims), each cause bears its share.
    pub fn split(entitled_ns: u64, time: &ScheduleTime) -> CpuLoss {
        let lost = entitled_ns.saturating_sub(time.run_ns);
        let wanted = [time.shared_ns, time.phantom_ns, time.throttled_ns];
        let sum: u64 = wanted.iter().sum();
        let mut parts = wanted;
        if sum > lost {
            let part = |ns: u64| (u128::from(ns) * u128::from(lost) / u128::from(sum)) as u64;
            parts = wanted.map(part);
            // Rounding goes to the largest, so that nothing is lost.
            let rest = lost - parts.iter().sum::<u64>();
            if let Some(most) = (0..parts.len()).max_by_key(|i| wanted[*i]) {
                parts[most] += rest;
            }
        }
        CpuLoss {
            entitled_ns,
            got_ns: time.run_ns,
            forced_sharing_ns: parts[0],
            phantom_ns: parts[1],
            throttled_ns: parts[2],
            lack_ns: lost - parts.iter().sum::<u64>(),
        }
    }

    /// Entitled − got where that is positive, else 0.
    pub fn lost_ns(&self) -> u64 {
        self.entitled_ns.saturating_sub(self.got_ns)
    }

    /// What others took: forced runqueue sharing and phantom CPU time.
    pub fn taken_ns(&self) -> u64 {
        self.forced_sharing_ns + self.phantom_ns
    }
}

/// Where a container's entitlement comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entitlement {
    /// The amount that a rule reserves for it.
    Reserved,
    /// Its weight among the groups that compete.
    Weight,
    /// Its own quota, which is less than its weight would give.
    Quota,
    /// The CPUs of its cpuset, which are fewer than its weight would give.
    Cpuset,
}

impl Entitlement {
    /// Every value.
    pub const ALL: [Entitlement; 4] = [
        Entitlement::Reserved,
        Entitlement::Weight,
        Entitlement::Quota,
        Entitlement::Cpuset,
    ];

    /// Its name in data.
    pub fn label(self) -> &'static str {
        match self {
            Entitlement::Reserved => "reserved",
            Entitlement::Weight => "weight",
            Entitlement::Quota => "quota",
            Entitlement::Cpuset => "cpuset",
        }
    }
}

impl fmt::Display for Entitlement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

/// A container with its diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiagnosedContainer {
    /// Who.
    #[serde(skip)]
    pub container: Arc<Container>,
    /// What it was entitled to, what it got, and the losses.
    pub loss: CpuLoss,
    /// Where the entitlement comes from.
    pub entitlement: Entitlement,
    /// What the counters say.
    pub time: ScheduleTime,
    /// What it waited behind most since the diagnosis started; `None` if it did not wait.
    pub neighbour: Option<Neighbour>,
}

/// Whom a container waited behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Neighbour {
    /// Tasks of no container.
    Host,
    /// A container, by name.
    Container(String),
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Neighbour::Host => "the host",
            Neighbour::Container(name) => name,
        })
    }
}

/// Part of a container's lost time that one neighbour took on one CPU: the wait there is divided among
/// all who ran meanwhile, in proportion to what they ran.
///
/// Invariant: the shares of a victim add up to no more than its [`CpuLoss::taken_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossShare {
    /// The container that waited.
    pub victim: CgroupId,
    /// The one that ran; `None` for tasks of the host without a row.
    pub neighbour: Option<CgroupId>,
    /// Where.
    pub cpu: CpuId,
    /// The part, nanoseconds.
    pub ns: u64,
}

/// Time of one CPU that no container ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusedTime {
    /// The CPU.
    pub cpu: CpuId,
    /// It was idle, nanoseconds.
    pub idle_ns: u64,
    /// Tasks of the host without a row ran, `ksoftirqd` among them, nanoseconds.
    pub host_ns: u64,
}

/// Failures of the diagnosis. Cumulative counts, so that nothing is lost silently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagnosisHealth {
    /// Containers that found no row free; they count as the host.
    pub containers_without_slot: u64,
    /// Segments whose end did not name the task they began with: the kernel hid a switch, or
    /// a task was moved to another cgroup while it ran.
    pub mismatches: u64,
    /// Segments of impossible length, thrown away.
    pub segments_rejected: u64,
}

/// What happened between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduleInterval {
    /// Length.
    pub length: Duration,
    /// Of it, the time in which everything was counted; the rest is estimated from that.
    pub counted: Duration,
    /// CPUs that switched at least once since the start.
    pub cpus: usize,
    /// Idle time of all CPUs, nanoseconds.
    pub idle_ns: u64,
    /// Of it, what followed the throttling of a container, nanoseconds.
    pub left_idle_ns: u64,
    /// Time of tasks of no container, all CPUs, nanoseconds.
    pub host_ns: u64,
    /// Every container that was there at both readings.
    pub containers: Vec<DiagnosedContainer>,
    /// What the lost time of those who lost much is divided into.
    pub shares: Vec<LossShare>,
    /// Each CPU on which one of `shares` is.
    pub unused: Vec<UnusedTime>,
    /// What went wrong.
    pub health: DiagnosisHealth,
}

impl ScheduleInterval {
    /// What probably happened in `length`, of which this interval was counted.
    #[must_use]
    pub fn standing_for(mut self, length: Duration) -> ScheduleInterval {
        if length <= self.length || self.length.is_zero() {
            return self;
        }
        let factor = length.as_secs_f64() / self.length.as_secs_f64();
        let of = |ns: u64| (ns as f64 * factor) as u64;
        for one in &mut self.containers {
            let time = &mut one.time;
            *time = ScheduleTime {
                run_ns: of(time.run_ns),
                shared_ns: of(time.shared_ns),
                phantom_ns: of(time.phantom_ns),
                throttled_ns: of(time.throttled_ns),
            };
            one.loss = CpuLoss::split(of(one.loss.entitled_ns), time);
        }
        for share in &mut self.shares {
            share.ns = of(share.ns);
        }
        for unused in &mut self.unused {
            (unused.idle_ns, unused.host_ns) = (of(unused.idle_ns), of(unused.host_ns));
        }
        ScheduleInterval {
            length,
            idle_ns: of(self.idle_ns),
            left_idle_ns: of(self.left_idle_ns),
            host_ns: of(self.host_ns),
            ..self
        }
    }

    /// Whether a part of it is estimated.
    pub fn is_estimated(&self) -> bool {
        self.counted < self.length
    }

    /// Its containers, those that lost most to others first.
    pub fn worst_first(&self) -> Vec<&DiagnosedContainer> {
        let mut all: Vec<_> = self.containers.iter().collect();
        all.sort_by_key(|c| {
            let (lost, got) = (Reverse(c.loss.taken_ns()), Reverse(c.loss.got_ns));
            (lost, got, c.container.cgroup)
        });
        all
    }
}

impl DiagnosedContainer {
    /// One line for people: what it got of what it was promised over `length`, and where the
    /// rest went.
    pub fn words(&self, length: Duration) -> String {
        let cpus = |ns: u64| ns as f64 / length.as_nanos().max(1) as f64;
        let loss = &self.loss;
        let (name, got) = (&self.container.name, cpus(loss.got_ns));
        let entitled = cpus(loss.entitled_ns);
        let head = format!("{name} got {got:.2} of {entitled:.2} CPUs it was promised");
        let with = match &self.neighbour {
            Some(who) => format!(" with {who}"),
            None => String::new(),
        };
        let parts = [
            (
                loss.forced_sharing_ns,
                format!("forced runqueue sharing{with}"),
            ),
            (loss.phantom_ns, "phantom CPU time".to_owned()),
            (loss.throttled_ns, "its own quota".to_owned()),
            (loss.lack_ns, "lack of threads".to_owned()),
        ];
        let said: Vec<String> = parts
            .iter()
            .filter(|(ns, _)| cpus(*ns) >= 0.005)
            .map(|(ns, what)| format!("{:.2} to {what}", cpus(*ns)))
            .collect();
        if said.is_empty() {
            return head;
        }
        format!("{head}: {}", said.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn time(run: u64, shared: u64, phantom: u64, throttled: u64) -> ScheduleTime {
        ScheduleTime {
            run_ns: run,
            shared_ns: shared,
            phantom_ns: phantom,
            throttled_ns: throttled,
        }
    }

    #[test]
    fn time_that_no_other_took_is_lack_of_threads() {
        let loss = CpuLoss::split(S, &time(S / 2, S / 5, 0, 0));
        assert_eq!(
            (loss.forced_sharing_ns, loss.lack_ns),
            (S / 5, S / 2 - S / 5)
        );
        let asleep = CpuLoss::split(S, &time(0, 0, 0, 0));
        assert_eq!((asleep.lack_ns, asleep.taken_ns()), (S, 0));
    }

    #[test]
    fn waits_beyond_the_loss_are_cut_in_proportion() {
        let loss = CpuLoss::split(S, &time(S - 400, 3000, 1000, 0));
        assert_eq!((loss.forced_sharing_ns, loss.phantom_ns), (300, 100));
        assert_eq!(loss.lack_ns, 0);
    }

    #[test]
    fn a_container_that_got_it_all_lost_nothing() {
        let loss = CpuLoss::split(S, &time(2 * S, S, S, S));
        assert_eq!(loss.lost_ns(), 0);
        assert_eq!(loss.taken_ns() + loss.throttled_ns + loss.lack_ns, 0);
    }

    #[test]
    fn an_estimate_has_the_rates_of_what_was_counted() {
        let length = Duration::from_millis(400);
        let time = time(S / 10, S / 20, 0, 0);
        let counted = ScheduleInterval {
            length,
            counted: length,
            cpus: 2,
            idle_ns: S / 2,
            left_idle_ns: 7,
            host_ns: S / 5,
            containers: vec![DiagnosedContainer {
                container: Arc::new(Container::plain(crate::CgroupId(1), "/a", "a")),
                loss: CpuLoss::split(S / 5, &time),
                entitlement: Entitlement::Weight,
                time,
                neighbour: None,
            }],
            shares: vec![LossShare {
                victim: crate::CgroupId(1),
                neighbour: None,
                cpu: CpuId(0),
                ns: S / 20,
            }],
            unused: Vec::new(),
            health: DiagnosisHealth::default(),
        };
        assert_eq!(counted.clone().standing_for(length), counted);
        assert!(!counted.is_estimated());
        let whole = counted.standing_for(length * 5);
        assert!(whole.is_estimated() && whole.counted == length);
        let loss = &whole.containers[0].loss;
        assert_eq!((loss.entitled_ns, loss.got_ns), (S, S / 2));
        assert_eq!((loss.forced_sharing_ns, loss.lack_ns), (S / 4, S / 4));
        assert_eq!((whole.idle_ns, whole.host_ns), (5 * S / 2, S));
        assert_eq!(whole.shares[0].ns, S / 4);
    }

    proptest! {
        #[test]
        fn the_four_losses_add_up(entitled in 0..u64::MAX / 8, run in 0..u64::MAX / 8,
                                  shared in 0..u64::MAX / 8, phantom in 0..u64::MAX / 8,
                                  throttled in 0..u64::MAX / 8) {
            let loss = CpuLoss::split(entitled, &time(run, shared, phantom, throttled));
            prop_assert_eq!(
                loss.forced_sharing_ns + loss.phantom_ns + loss.throttled_ns + loss.lack_ns,
                entitled.saturating_sub(run)
            );
            prop_assert!(loss.forced_sharing_ns <= shared.max(1));
        }
    }
}
