//! Conditions: containers that pay for others or lose CPU time to them, and since when. Only the
//! agent has watched long enough to know.

use cofferdam_records::status::{ConditionRecord, LOSES, PAYS, SUFFERS_CPUS};
use cofferdam_types::{CgroupId, Container, EnforcementStatus, Interval, ScheduleInterval};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Time over which readings are averaged: shorter bursts are no condition.
const AVERAGED: Duration = Duration::from_secs(2);
/// Part of the threshold below which a condition ends, so that it does not flicker.
const ENDS_BELOW: f64 = 0.5;

/// One container that suffers.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub container: Arc<Container>,
    /// [`PAYS`] or [`LOSES`].
    pub name: &'static str,
    /// Averaged loss, CPUs.
    pub cpus: f64,
    /// Time at which it began.
    pub since: Instant,
}

/// Averages of all containers that suffer, or may begin to.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pays: Averages,
    loses: Averages,
    returned: HashMap<CgroupId, ReturnedTime>,
}

/// CPU time that enforcement returned to a container.
#[derive(Debug)]
struct ReturnedTime {
    /// Total since enforcement began, nanoseconds.
    total_ns: u64,
    /// Part that is not yet counted against what the container paid, nanoseconds.
    open_ns: u64,
}

/// Averages above zero, by container.
#[derive(Debug, Default)]
struct Averages(HashMap<CgroupId, Average>);

#[derive(Debug)]
struct Average {
    container: Arc<Container>,
    cpus: f64,
    since: Option<Instant>,
}

impl Conditions {
    /// Records what enforcement has returned: a container that is repaid does not suffer.
    pub fn record_returned(&mut self, status: &EnforcementStatus) {
        let network = |id: &CgroupId| {
            let mut all = status.containers.iter();
            let found = all.find(|c| c.cgroup == *id)?;
            found.network.as_ref()
        };
        self.returned.retain(|id, _| network(id).is_some());
        for container in &status.containers {
            let Some(network) = &container.network else {
                continue;
            };
            let total_ns = network.returned_ns;
            let returned = self.returned.entry(container.cgroup);
            // Earlier returns belong to earlier payments.
            let returned = returned.or_insert(ReturnedTime {
                total_ns,
                open_ns: 0,
            });
            returned.open_ns += total_ns.saturating_sub(returned.total_ns);
            returned.total_ns = total_ns;
        }
    }

    /// Records what containers paid for others in `interval`, which ends at `now`, without the time
    /// that enforcement has returned.
    pub fn record_payments(&mut self, interval: &Interval, now: Instant) {
        let returned = &mut self.returned;
        let rows = interval.containers.iter().map(|entry| {
            let mut paid_ns = u64::try_from(-entry.ledger.owed_ns()).unwrap_or(0);
            if let Some(returned) = returned.get_mut(&entry.container.cgroup) {
                let back = returned.open_ns.min(paid_ns);
                returned.open_ns -= back;
                paid_ns -= back;
            }
            (&entry.container, paid_ns as f64)
        });
        self.pays.follow(rows, interval.length, now);
    }

    /// Records what containers lost to others.
    pub fn record_losses(&mut self, interval: &ScheduleInterval, now: Instant) {
        let rows = interval
            .containers
            .iter()
            .map(|entry| (&entry.container, entry.loss.taken_ns() as f64));
        self.loses.follow(rows, interval.length, now);
    }

    /// Forgets the losses, when the diagnosis has ended.
    pub fn forget_losses(&mut self) {
        self.loses.0.clear();
    }

    /// Lists every container that suffers now.
    pub fn now(&self) -> Vec<Condition> {
        let mut all = Vec::new();
        for (name, averages) in [(PAYS, &self.pays), (LOSES, &self.loses)] {
            all.extend(averages.0.values().filter_map(|average| {
                Some(Condition {
                    container: average.container.clone(),
                    name,
                    cpus: average.cpus,
                    since: average.since?,
                })
            }));
        }
        all.sort_by(|a, b| {
            b.cpus
                .total_cmp(&a.cpus)
                .then(a.container.cgroup.cmp(&b.container.cgroup))
        });
        all
    }
}

impl Averages {
    fn follow<'a>(
        &mut self,
        rows: impl Iterator<Item = (&'a Arc<Container>, f64)>,
        length: Duration,
        now: Instant,
    ) {
        let seconds = length.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let weight = (seconds / AVERAGED.as_secs_f64()).min(1.0);
        let begin = now.checked_sub(length).unwrap_or(now);
        // A container that is missing from the interval has ended, or paid nothing.
        for average in self.0.values_mut() {
            average.cpus *= 1.0 - weight;
        }
        for (container, ns) in rows.filter(|(_, ns)| *ns > 0.0) {
            let average = self.0.entry(container.cgroup).or_insert_with(|| Average {
                container: container.clone(),
                cpus: 0.0,
                since: None,
            });
            average.cpus += weight * ns / 1e9 / seconds;
        }
        self.0.retain(|_, average| {
            if average.cpus >= SUFFERS_CPUS {
                average.since.get_or_insert(begin);
            } else if average.cpus < SUFFERS_CPUS * ENDS_BELOW {
                average.since = None;
            }
            average.cpus > SUFFERS_CPUS / 1000.0
        });
    }
}

impl Condition {
    /// Builds the record at the time `wall`, which is `now`. Setting the clock changes the time of
    /// day at which the condition began, but not how long it has lasted.
    pub fn record(&self, now: Instant, wall: SystemTime) -> ConditionRecord {
        let lasts = now.saturating_duration_since(self.since);
        // A clock that was never set counts from 1970.
        let since = wall.checked_sub(lasts).unwrap_or(wall);
        let since = since.max(SystemTime::UNIX_EPOCH);
        ConditionRecord {
            name: self.name.to_owned(),
            container: self.container.name.clone(),
            cgroup_id: self.container.cgroup.0,
            cpus: self.cpus,
            since: cofferdam_records::time(since),
            for_s: lasts.as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::interval_with_payments;

    const SECOND: Duration = Duration::from_secs(1);

    /// Promise 23.
    #[test]
    fn a_lasting_payment_is_a_condition_since_its_begin() {
        let (mut conditions, begin) = (Conditions::default(), Instant::now());
        for second in 1..=60 {
            conditions.record_payments(
                &interval_with_payments(SECOND, &[(1, 300), (2, 4)]),
                begin + SECOND * second,
            );
        }
        let now = conditions.now();
        assert_eq!(now.len(), 1, "{now:?}");
        assert_eq!((now[0].container.cgroup, now[0].name), (CgroupId(1), PAYS));
        assert!((now[0].cpus - 0.3).abs() < 0.01, "{now:?}");
        assert_eq!(now[0].since, begin);
        let end = begin + SECOND * 60;
        let record = now[0].record(end, SystemTime::UNIX_EPOCH + SECOND * 100);
        assert_eq!(record.for_s, 60.0);
        assert_eq!(record.since, "1970-01-01T00:00:40.000Z");
    }

    /// Promise 23.
    #[test]
    fn a_burst_is_no_condition_and_a_flicker_is_one() {
        let (mut conditions, begin) = (Conditions::default(), Instant::now());
        let step = Duration::from_millis(20);
        conditions.record_payments(&interval_with_payments(step, &[(1, 10)]), begin);
        assert!(conditions.now().is_empty(), "half a CPU for 20 ms");
        let mut now = begin;
        for second in 0..20 {
            now += SECOND;
            let paid = if second % 2 == 0 { 90 } else { 50 };
            conditions.record_payments(&interval_with_payments(SECOND, &[(1, paid)]), now);
        }
        let since = conditions.now()[0].since;
        now += SECOND;
        conditions.record_payments(&interval_with_payments(SECOND, &[(1, 20)]), now);
        assert_eq!(conditions.now()[0].since, since, "not yet below half");
        for _ in 0..5 {
            now += SECOND;
            conditions.record_payments(&interval_with_payments(SECOND, &[]), now);
        }
        assert!(conditions.now().is_empty());
        for _ in 0..20 {
            now += SECOND;
            conditions.record_payments(&interval_with_payments(SECOND, &[]), now);
        }
        assert!(conditions.pays.0.is_empty(), "nothing is kept of it");
    }

    /// Promise 23.
    #[test]
    fn returned_time_does_not_count_as_paid() {
        let (mut conditions, begin) = (Conditions::default(), Instant::now());
        let given = |ms: u64| EnforcementStatus {
            containers: vec![crate::testing::status_with_returned(1, ms)],
            ..EnforcementStatus::default()
        };
        conditions.record_returned(&given(7000));
        for second in 1..=30 {
            // The steps of the control loop deliver it in two parts.
            conditions.record_returned(&given(7000 + 300 * u64::from(second)));
            let now = begin + SECOND * second;
            conditions.record_payments(&interval_with_payments(SECOND / 2, &[(1, 150)]), now);
            conditions.record_payments(&interval_with_payments(SECOND / 2, &[(1, 150)]), now);
        }
        assert!(conditions.now().is_empty(), "{:?}", conditions.now());
        // Enforcement ends, and the container pays again.
        conditions.record_returned(&EnforcementStatus::default());
        for second in 31..=40 {
            conditions.record_payments(
                &interval_with_payments(SECOND, &[(1, 300)]),
                begin + SECOND * second,
            );
        }
        assert_eq!(conditions.now().len(), 1);
    }

    /// Promise 23.
    #[test]
    fn setting_the_clock_does_not_change_a_duration() {
        let begin = Instant::now();
        let condition = Condition {
            container: interval_with_payments(SECOND, &[(1, 1)]).containers[0]
                .container
                .clone(),
            name: LOSES,
            cpus: 0.5,
            since: begin,
        };
        for wall in [SystemTime::UNIX_EPOCH, SystemTime::now()] {
            assert_eq!(condition.record(begin + SECOND * 5, wall).for_s, 5.0);
        }
    }
}
