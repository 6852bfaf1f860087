//! Decides which events are written, and when, as pure functions from conditions to writes.
//!
//! A condition is written when it was reported in two rounds in a row, again at each [`RENEWED`]
//! while it lasts, and once more when it is over. Whatever the nodes report, the stored conditions
//! and the writes of a round are bounded; the excess waits for the next round.

use cofferdam_records::conditions::{ConditionsReport, PodCondition};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Rounds in a row in which a condition must be reported before its event is written, so that a
/// momentary one has none.
const SEEN: u32 = 2;
/// Rounds without a condition after which it is over.
const MISSED: u32 = 3;
/// Time after which a lasting condition is written again: the API server keeps an event for an
/// hour.
pub const RENEWED: Duration = Duration::from_secs(30 * 60);
/// Time for which an ended condition is remembered, as long as the API server keeps its event.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);
/// Most writes of a round.
pub const MOST_WRITES: usize = 100;
/// Most writes of a round for the pods of one node.
pub const MOST_WRITES_A_NODE: usize = 20;
/// Most conditions of one pod.
pub const MOST_A_POD: usize = 8;
/// Most conditions that are tracked.
pub const MOST_TRACKED: usize = 20_000;
/// Longest text of an event, characters.
const LONGEST_TEXT: usize = 1000;
/// Longest name of a condition.
const LONGEST_NAME: usize = 60;

/// Identity of a condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Container, if the condition concerns one.
    pub container: Option<String>,
    /// Name of the condition as Kubernetes spells reasons: `PaysForOthers`.
    pub reason: String,
}

/// Change of a condition that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The condition has begun.
    Holds,
    /// The condition still lasts.
    Lasts,
    /// The condition is over.
    Over,
}

/// Event to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Condition.
    pub key: Key,
    /// Change of the condition.
    pub transition: Transition,
    /// Node that reports it.
    pub node: String,
    /// Text of the event.
    pub text: String,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The event is written.
    Written,
    /// There is no such pod on that node: the condition is dropped.
    NoPod,
    /// The API server did not take the event: it is retried in the next round.
    Failed,
}

#[derive(Debug)]
struct TrackedCondition {
    node: String,
    text: String,
    rounds_reported: u32,
    missed: u32,
    state: EventState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventState {
    /// No event is written yet.
    New,
    /// The last event was written at this time.
    Written(Instant),
    /// The event about the end was written at this time.
    Over(Instant),
}

/// All conditions of the cluster.
#[derive(Debug, Default)]
pub struct Tracker {
    conditions: BTreeMap<Key, TrackedCondition>,
}

impl Tracker {
    /// Records the reports of one round. `nodes` are all nodes; one without a report did not
    /// answer, and nothing changes for its pods.
    pub fn take(&mut self, nodes: &[(String, Option<ConditionsReport>)]) {
        let silent: BTreeSet<&str> = (nodes.iter())
            .filter(|(_, report)| report.is_none())
            .map(|(node, _)| node.as_str())
            .collect();
        let mut now = BTreeSet::new();
        for (node, report) in nodes {
            let mut of_pod: BTreeMap<&str, usize> = BTreeMap::new();
            for condition in report.iter().flat_map(|r| &r.conditions) {
                let count = of_pod.entry(&condition.pod).or_default();
                *count += 1;
                if *count <= MOST_A_POD
                    && let Some(key) = key(condition)
                    && (self.conditions.contains_key(&key) || self.conditions.len() < MOST_TRACKED)
                    // A pod belongs to the first node that reports it; a write first checks whether
                    // that is true.
                    && now.insert(key.clone())
                {
                    self.see(key, node, &condition.text);
                }
            }
        }
        for (key, condition) in &mut self.conditions {
            if !now.contains(key) && !silent.contains(condition.node.as_str()) {
                condition.missed = condition.missed.saturating_add(1);
                condition.rounds_reported = 0;
            }
        }
        // A momentary condition, for which no event was written.
        self.conditions.retain(|_, condition| {
            condition.rounds_reported > 0
                || condition.missed == 0
                || condition.state != EventState::New
        });
    }

    fn see(&mut self, key: Key, node: &str, text: &str) {
        let condition = self
            .conditions
            .entry(key)
            .or_insert_with(|| TrackedCondition {
                node: node.to_owned(),
                text: String::new(),
                rounds_reported: 0,
                missed: 0,
                state: EventState::New,
            });
        condition.node = node.to_owned();
        condition.text = sentence(text);
        condition.rounds_reported = condition.rounds_reported.saturating_add(1);
        condition.missed = 0;
    }

    /// Events of this round, new ones first, and the number that waits for another
    /// round.
    pub fn due(&mut self, now: Instant) -> (Vec<Write>, usize) {
        self.conditions
            .retain(|_, condition| match condition.state {
                EventState::Over(at) => {
                    condition.rounds_reported > 0 || now.duration_since(at) < REMEMBERED
                }
                EventState::New | EventState::Written(_) => true,
            });
        let mut all: Vec<Write> = (self.conditions.iter())
            .filter_map(|(key, condition)| {
                Some(Write {
                    key: key.clone(),
                    transition: condition.transition(now)?,
                    node: condition.node.clone(),
                    text: condition.text.clone(),
                })
            })
            .collect();
        let due = all.len();
        all.sort_by_key(|write| match write.transition {
            Transition::Holds => 0,
            Transition::Over => 1,
            Transition::Lasts => 2,
        });
        let mut of_node: BTreeMap<String, usize> = BTreeMap::new();
        all.retain(|write| {
            let count = of_node.entry(write.node.clone()).or_default();
            *count += 1;
            *count <= MOST_WRITES_A_NODE
        });
        all.truncate(MOST_WRITES);
        let waiting = due - all.len();
        (all, waiting)
    }

    /// Records the result of a write of [`Tracker::due`].
    pub fn record_outcome(&mut self, write: &Write, outcome: Outcome, now: Instant) {
        match (outcome, self.conditions.get_mut(&write.key)) {
            (Outcome::Written, Some(condition)) => {
                condition.state = match write.transition {
                    Transition::Over => EventState::Over(now),
                    Transition::Holds | Transition::Lasts => EventState::Written(now),
                };
            }
            (Outcome::NoPod, _) => drop(self.conditions.remove(&write.key)),
            (Outcome::Failed, _) | (_, None) => {}
        }
    }
}

impl TrackedCondition {
    fn transition(&self, now: Instant) -> Option<Transition> {
        match self.state {
            EventState::New | EventState::Over(_) => {
                (self.rounds_reported >= SEEN).then_some(Transition::Holds)
            }
            EventState::Written(_) if self.missed >= MISSED => Some(Transition::Over),
            EventState::Written(at) => (self.rounds_reported > 0
                && now.duration_since(at) >= RENEWED)
                .then_some(Transition::Lasts),
        }
    }
}

/// Key of a condition; `None` if its names are invalid.
fn key(condition: &PodCondition) -> Option<Key> {
    let (namespace, pod) = condition.pod.split_once('/')?;
    crate::agents::check_name(namespace).ok()?;
    crate::agents::check_name(pod).ok()?;
    let container = match &condition.container {
        Some(name) => Some(crate::agents::check_name(name).ok()?.to_owned()),
        None => None,
    };
    Some(Key {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        container,
        reason: reason(&condition.name)?,
    })
}

/// Spelling of a name such as `pays_for_others` in Kubernetes' reasons; `None` for an invalid name.
fn reason(name: &str) -> Option<String> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(fits) {
        return None;
    }
    let words = name.split('_').filter(|word| !word.is_empty());
    let upper = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    Some(words.map(upper).collect::<String>()).filter(|reason| !reason.is_empty())
}

/// Text as one line without control characters, of bounded length: a node may send anything.
fn sentence(text: &str) -> String {
    let plain = |c: char| match c.is_control() && !c.is_whitespace() {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    };
    crate::kubectl::bounded(&text.chars().map(plain).collect::<String>(), LONGEST_TEXT)
}

#[cfg(test)]
mod tests;
