//! Events in the log about containers that suffer from others: one at the begin, one at the end.
//!
//! Under journald an event has fields of its own (`COFFERDAM_VICTIM`, `COFFERDAM_OFFENDER`, …), so
//! that `journalctl COFFERDAM_EVENT=pays_for_others` finds it; docs/src/guide/agent.md lists them.

use crate::conditions::Condition;
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::flow::flows;
use cofferdam_records::status::PAYS;
use cofferdam_types::{CgroupId, Interval, path_text, printable};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Log target of these events, by which [`crate::log`] recognizes them.
pub(crate) const TARGET: &str = "cofferdam::event";
/// Shortest condition that is an event.
const MIN_DURATION: Duration = Duration::from_secs(5);
/// Time without the condition after which the event is over.
const END_DELAY: Duration = Duration::from_secs(30);

/// Event to be logged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// [`PAYS`] or `cpu_taken_by_others`.
    pub name: &'static str,
    /// Container that suffers.
    pub victim: String,
    /// Path of its cgroup.
    pub cgroup: String,
    /// Begin or end.
    pub phase: EventPhase,
}

/// Begin or end of an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EventPhase {
    /// The condition has lasted for [`MIN_DURATION`].
    Begins {
        /// Current loss, CPUs.
        cpus: f64,
        /// Container that causes most of it, if known.
        offender: Option<String>,
    },
    /// The condition has been absent for [`END_DELAY`].
    Ends {
        /// Duration of the condition.
        lasted: Duration,
        /// Largest loss, CPUs.
        most_cpus: f64,
    },
}

/// Events that have begun and are not over.
#[derive(Debug, Default)]
pub(crate) struct Events(HashMap<(CgroupId, &'static str), OpenEvent>);

#[derive(Debug)]
struct OpenEvent {
    victim: String,
    cgroup: String,
    since: Instant,
    last_seen: Instant,
    most_cpus: f64,
    logged: bool,
}

impl Events {
    /// Returns the events to be logged at `now`, given all conditions. `offender` names the
    /// container that causes most of what a victim pays.
    pub fn update(
        &mut self,
        conditions: &[Condition],
        offender: impl Fn(CgroupId) -> Option<String>,
        now: Instant,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        for condition in conditions {
            let container = &condition.container;
            let key = (container.cgroup, condition.name);
            let open = self.0.entry(key).or_insert_with(|| OpenEvent {
                victim: container.name.clone(),
                cgroup: path_text(&container.cgroup_path).into_owned(),
                since: condition.since,
                last_seen: now,
                most_cpus: 0.0,
                logged: false,
            });
            open.last_seen = now;
            open.most_cpus = open.most_cpus.max(condition.cpus);
            if !open.logged && now.saturating_duration_since(open.since) >= MIN_DURATION {
                open.logged = true;
                let pays = condition.name == PAYS;
                events.push(open.event(
                    condition.name,
                    EventPhase::Begins {
                        cpus: condition.cpus,
                        offender: pays.then(|| offender(container.cgroup)).flatten(),
                    },
                ));
            }
        }
        self.0.retain(|(_, name), open| {
            let over = now.saturating_duration_since(open.last_seen) >= END_DELAY;
            if over && open.logged {
                let lasted = open.last_seen.saturating_duration_since(open.since);
                let most_cpus = open.most_cpus;
                events.push(open.event(name, EventPhase::Ends { lasted, most_cpus }));
            }
            !over
        });
        events
    }
}

impl OpenEvent {
    fn event(&self, name: &'static str, phase: EventPhase) -> Event {
        Event {
            name,
            victim: self.victim.clone(),
            cgroup: self.cgroup.clone(),
            phase,
        }
    }
}

/// Name of the container that caused most of what `victim` paid for others in `interval`.
pub(crate) fn offender(interval: &Interval, victim: CgroupId) -> Option<String> {
    let record = AccountingRecord::new(interval);
    let mut by_offender: HashMap<u64, f64> = HashMap::new();
    for flow in flows(&record).iter().filter(|f| f.victim == victim.0) {
        if let Some(offender) = flow.offender {
            *by_offender.entry(offender).or_default() += flow.ns;
        }
    }
    let (most, _) = by_offender.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let found = record.containers.into_iter().find(|c| c.cgroup_id == most);
    found.map(|c| c.name)
}

impl Event {
    /// Writes the event to the log.
    pub fn log(&self) {
        let (event, victim, cgroup) = (
            self.name,
            printable_name(&self.victim),
            printable_name(&self.cgroup),
        );
        let does = if event == PAYS {
            "pays for the packets of others"
        } else {
            "is kept from CPU time that it was promised"
        };
        match &self.phase {
            EventPhase::Begins { cpus, offender } => {
                let offender = printable_name(offender.as_deref().unwrap_or_default());
                let most = match offender.as_str() {
                    "" => String::new(),
                    name => format!(", most of them {name}'s"),
                };
                tracing::warn!(
                    target: TARGET, event, state = "begins", victim, cgroup, offender, cpus,
                    "{victim} {does}{most}: {cpus:.2} CPUs; 'cofferdam explain' says what helps"
                );
            }
            EventPhase::Ends { lasted, most_cpus } => {
                let seconds = lasted.as_secs();
                let lasted = humantime::format_duration(Duration::from_secs(seconds));
                tracing::info!(
                    target: TARGET, event, state = "ends", victim, cgroup, seconds,
                    cpus = most_cpus,
                    "{victim} no longer {does}: it lasted {lasted}, at most {most_cpus:.2} CPUs"
                );
            }
        }
    }
}

/// Makes a name that a container chose safe to print: no control characters, at most 256 letters.
fn printable_name(name: &str) -> String {
    const LONGEST: usize = 256;
    printable(name).chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::interval_with_payments;

    const SECOND: Duration = Duration::from_secs(1);

    fn condition(cpus: f64, since: Instant) -> Condition {
        Condition {
            container: interval_with_payments(SECOND, &[(1, 1)]).containers[0]
                .container
                .clone(),
            name: PAYS,
            cpus,
            since,
        }
    }

    /// Promise 23.
    #[test]
    fn a_lasting_condition_is_logged_at_begin_and_end() {
        let (mut events, begin) = (Events::default(), Instant::now());
        let mut all = Vec::new();
        for second in 0..200 {
            let now = begin + SECOND * second;
            // A minute, a pause that is too short to count, and half a minute more.
            let pays = second < 60 || (70..100).contains(&second);
            let conditions: Vec<_> = pays.then(|| condition(0.3, begin)).into_iter().collect();
            let new = events.update(&conditions, |_| Some("web".to_owned()), now);
            all.extend(new.into_iter().map(|event| (second, event.phase)));
        }
        let begins = EventPhase::Begins {
            cpus: 0.3,
            offender: Some("web".to_owned()),
        };
        let ends = EventPhase::Ends {
            lasted: SECOND * 99,
            most_cpus: 0.3,
        };
        assert_eq!(all, [(5, begins), (129, ends)]);
        assert!(events.0.is_empty());
    }

    /// Promise 23.
    #[test]
    fn a_burst_is_no_event() {
        let (mut events, begin) = (Events::default(), Instant::now());
        let burst = [condition(0.9, begin)];
        assert!(events.update(&burst, |_| None, begin + SECOND).is_empty());
        let later = begin + END_DELAY * 2;
        assert!(events.update(&[], |_| None, later).is_empty());
        assert!(events.0.is_empty());
    }

    /// Promise 23.
    #[test]
    fn a_name_is_printable_and_short() {
        assert_eq!(
            printable_name("a\nb\x1b[2J\u{9b}"),
            r"a\x0ab\x1b[2J\xc2\x9b"
        );
        assert_eq!(printable_name(&"x".repeat(10_000)).len(), 256);
    }
}
