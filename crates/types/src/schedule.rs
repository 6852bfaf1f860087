//! CPU time that a container was entitled to and did not get, and the causes.

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
    /// Entitlement: the container's reservation, or its weight among the competitors.
    pub entitled_ns: u64,
    /// Run time of the container's threads.
    pub got_ns: u64,
    /// Lost to forced runqueue sharing: a thread of the container waited on a CPU while others ran.
    pub forced_sharing_ns: u64,
    /// Lost as phantom CPU time: a thread waited while another CPU was idle. A wait also counts as
    /// far as throttled containers left other CPUs idle in the same scheduling period.
    pub phantom_ns: u64,
    /// Lost to the container's own quota.
    pub throttled_ns: u64,
    /// Lost for want of a runnable thread: the container slept.
    pub lack_ns: u64,
}

/// The scheduler's counters of a container, before they are compared with its entitlement.
/// Nanoseconds, summed over CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleTime {
    /// Threads of the container ran.
    pub run_ns: u64,
    /// Threads of the container waited on a CPU while others ran there, phantom time left out.
    pub shared_ns: u64,
    /// Threads waited while other CPUs were idle, or idle CPUs could have compensated the wait in
    /// the same period.
    pub phantom_ns: u64,
    /// The container had threads on a CPU and its quota had run out.
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
    /// Splits the time that is missing of `entitled_ns` into its causes.
    ///
    /// A thread that wanted to run shows as waiting or throttled. Others did not withhold the rest:
    /// the container lacked threads. If the container waited longer than it lost (it has more
    /// threads than it is entitled to CPUs), each cause gets its proportion.
    pub fn split(entitled_ns: u64, time: &ScheduleTime) -> CpuLoss {
        let lost = entitled_ns.saturating_sub(time.run_ns);
        let wanted = [time.shared_ns, time.phantom_ns, time.throttled_ns];
        let sum: u64 = wanted.iter().sum();
        let mut parts = wanted;
        if sum > lost {
            let part = |ns: u64| (u128::from(ns) * u128::from(lost) / u128::from(sum)) as u64;
            parts = wanted.map(part);
            // Rounding goes to the largest, so that the sum is exact.
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

    /// Time that others took: forced runqueue sharing and phantom CPU time.
    pub fn taken_ns(&self) -> u64 {
        self.forced_sharing_ns + self.phantom_ns
    }
}

/// Origin of a container's entitlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entitlement {
    /// The amount that a rule reserves.
    Reserved,
    /// The container's weight among its competitors.
    Weight,
    /// The container's quota, which is less than its weight would give.
    Quota,
    /// The CPUs of the container's cpuset, which are fewer than its weight would give.
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

    /// Name in data.
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
    /// The container.
    #[serde(skip)]
    pub container: Arc<Container>,
    /// Entitlement, run time and losses.
    pub loss: CpuLoss,
    /// Origin of the entitlement.
    pub entitlement: Entitlement,
    /// The scheduler's counters.
    pub time: ScheduleTime,
    /// Neighbour that the container waited for longest since the diagnosis started; `None` if it
    /// did not wait.
    pub neighbour: Option<Neighbour>,
}

/// Neighbour that ran while a container waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Neighbour {
    /// Host tasks.
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

/// Part of a container's lost time that one neighbour took on one CPU. The wait there is divided
/// among all that ran meanwhile, in proportion to their run time.
///
/// Invariant: the shares of a victim add up to no more than its [`CpuLoss::taken_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossShare {
    /// The container that waited.
    pub victim: CgroupId,
    /// The neighbour that ran; `None` for host tasks without a row.
    pub neighbour: Option<CgroupId>,
    /// The CPU.
    pub cpu: CpuId,
    /// The part, nanoseconds.
    pub ns: u64,
}

/// Time of one CPU in which no container ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusedTime {
    /// The CPU.
    pub cpu: CpuId,
    /// The CPU was idle, nanoseconds.
    pub idle_ns: u64,
    /// Host tasks without a row ran, `ksoftirqd` among them, nanoseconds.
    pub host_ns: u64,
}

/// Failures of the diagnosis. Cumulative counts, so that nothing is lost silently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagnosisHealth {
    /// Containers that found no free row; they count as the host.
    pub containers_without_slot: u64,
    /// Segments that ended with another task than they began with: the kernel hid a switch, or
    /// moved the task to another cgroup while it ran.
    pub mismatches: u64,
    /// Segments of impossible length, thrown away.
    pub segments_rejected: u64,
}

/// The diagnosis between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduleInterval {
    /// Length.
    pub length: Duration,
    /// Part of `length` in which everything was counted; the rest is estimated from it.
    pub counted: Duration,
    /// CPUs that switched at least once since the start.
    pub cpus: usize,
    /// Idle time of all CPUs, nanoseconds.
    pub idle_ns: u64,
    /// Part of `idle_ns` that followed the throttling of a container, nanoseconds.
    pub left_idle_ns: u64,
    /// Run time of host tasks on all CPUs, nanoseconds.
    pub host_ns: u64,
    /// Every container that existed at both readings.
    pub containers: Vec<DiagnosedContainer>,
    /// Lost time of the containers that lost much, divided among their neighbours.
    pub shares: Vec<LossShare>,
    /// Unused time of each CPU that appears in `shares`.
    pub unused: Vec<UnusedTime>,
    /// Failures of the diagnosis.
    pub health: DiagnosisHealth,
}

impl ScheduleInterval {
    /// Extrapolates this interval, which was counted, to `length`.
    #[must_use]
    pub fn extrapolate(mut self, length: Duration) -> ScheduleInterval {
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

    /// Whether a part of the interval is estimated.
    pub fn is_estimated(&self) -> bool {
        self.counted < self.length
    }

    /// Containers, the largest losses to others first.
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
    /// Line for people: CPUs that the container got of its entitlement over `length`, and the
    /// causes of the loss.
    pub fn words(&self, length: Duration) -> String {
        let cpus = |ns: u64| ns as f64 / length.as_nanos().max(1) as f64;
        let loss = &self.loss;
        let (name, got) = (&self.container.name, cpus(loss.got_ns));
        let entitled = cpus(loss.entitled_ns);
        let head = format!("{name} got {got:.2} of {entitled:.2} CPUs it was promised");
        let with = match &self.neighbour {
            Some(neighbour) => format!(" with {neighbour}"),
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
        let causes: Vec<String> = parts
            .iter()
            .filter(|(ns, _)| cpus(*ns) >= 0.005)
            .map(|(ns, cause)| format!("{:.2} to {cause}", cpus(*ns)))
            .collect();
        if causes.is_empty() {
            return head;
        }
        format!("{head}: {}", causes.join(", "))
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

    /// Promise 5.
    #[test]
    fn an_estimate_has_the_rates_of_the_counted_part() {
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
        assert_eq!(counted.clone().extrapolate(length), counted);
        assert!(!counted.is_estimated());
        let whole = counted.extrapolate(length * 5);
        assert!(whole.is_estimated() && whole.counted == length);
        let loss = &whole.containers[0].loss;
        assert_eq!((loss.entitled_ns, loss.got_ns), (S, S / 2));
        assert_eq!((loss.forced_sharing_ns, loss.lack_ns), (S / 4, S / 4));
        assert_eq!((whole.idle_ns, whole.host_ns), (5 * S / 2, S));
        assert_eq!(whole.shares[0].ns, S / 4);
    }

    proptest! {
        /// Promise 10.
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
