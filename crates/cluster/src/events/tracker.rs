//! What is told, and when. Pure: conditions of the nodes in, writes out.
//!
//! A condition is told when it was seen twice in a row, again at each [`RENEWED`] while it lasts, and once
//! more when it is over. Whatever the nodes say, what is kept and what is written in a round has a bound;
//! what exceeds it waits for the next round.

use cofferdam_records::conditions::{ConditionsReport, PodCondition};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Rounds in which a condition must be seen in a row before it is told: what comes and goes is none.
const SEEN: u32 = 2;
/// Rounds without it after which it is over.
const MISSED: u32 = 3;
/// A condition that lasts is told again after this time: the API server keeps an event for an hour.
pub const RENEWED: Duration = Duration::from_secs(30 * 60);
/// One that is over is remembered for as long as the API server keeps its event.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);
/// Writes of a round, at most, and of the pods of one node.
pub const MOST_WRITES: usize = 100;
/// Writes of a round for the pods of one node, at most.
pub const MOST_WRITES_A_NODE: usize = 20;
/// Conditions of one pod, at most.
pub const MOST_A_POD: usize = 8;
/// Conditions that are kept, at most.
pub const MOST_KEPT: usize = 20_000;
/// Longest text of an event, characters.
const LONGEST_TEXT: usize = 1000;
/// Longest name of a condition.
const LONGEST_NAME: usize = 60;

/// Which condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Of the pod.
    pub namespace: String,
    /// Of the pod.
    pub pod: String,
    /// Its container, if one is meant.
    pub container: Option<String>,
    /// The condition, in the words of Kubernetes: `PaysForOthers`.
    pub reason: String,
}

/// What is to be told of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// It holds.
    Holds,
    /// It holds still.
    Lasts,
    /// It does not hold any more.
    Over,
}

/// One event to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Of which condition.
    pub key: Key,
    /// What of it.
    pub telling: Telling,
    /// The node that says so.
    pub node: String,
    /// The sentence.
    pub text: String,
}

/// How a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is told.
    Told,
    /// There is no such pod on that node: nothing is to be told.
    NoPod,
    /// The API server did not take it: once more in the next round.
    Failed,
}

#[derive(Debug)]
struct Kept {
    node: String,
    text: String,
    seen: u32,
    missed: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not told yet.
    New,
    /// Told, the last time then.
    Told(Instant),
    /// Told that it is over, then.
    Over(Instant),
}

/// All conditions of the cluster.
#[derive(Debug, Default)]
pub struct Tracker {
    kept: BTreeMap<Key, Kept>,
}

impl Tracker {
    /// Takes in what the nodes said in one round. `nodes` are all that there are; one without a report did
    /// not answer, and nothing changes for its pods.
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
                    && (self.kept.contains_key(&key) || self.kept.len() < MOST_KEPT)
                    // The first node that names a pod has it; which one does is checked before a write.
                    && now.insert(key.clone())
                {
                    self.see(key, node, &condition.text);
                }
            }
        }
        for (key, kept) in &mut self.kept {
            if !now.contains(key) && !silent.contains(kept.node.as_str()) {
                kept.missed = kept.missed.saturating_add(1);
                kept.seen = 0;
            }
        }
        // It came and went, and was never told.
        self.kept
            .retain(|_, kept| kept.seen > 0 || kept.missed == 0 || kept.state != State::New);
    }

    fn see(&mut self, key: Key, node: &str, text: &str) {
        let kept = self.kept.entry(key).or_insert_with(|| Kept {
            node: node.to_owned(),
            text: String::new(),
            seen: 0,
            missed: 0,
            state: State::New,
        });
        kept.node = node.to_owned();
        kept.text = sentence(text);
        kept.seen = kept.seen.saturating_add(1);
        kept.missed = 0;
    }

    /// What is to be written now, what is new first; and how much waits for another round.
    pub fn due(&mut self, now: Instant) -> (Vec<Write>, usize) {
        self.kept.retain(|_, kept| match kept.state {
            State::Over(at) => kept.seen > 0 || now.duration_since(at) < REMEMBERED,
            State::New | State::Told(_) => true,
        });
        let mut all: Vec<Write> = (self.kept.iter())
            .filter_map(|(key, kept)| {
                Some(Write {
                    key: key.clone(),
                    telling: kept.telling(now)?,
                    node: kept.node.clone(),
                    text: kept.text.clone(),
                })
            })
            .collect();
        let due = all.len();
        all.sort_by_key(|write| match write.telling {
            Telling::Holds => 0,
            Telling::Over => 1,
            Telling::Lasts => 2,
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

    /// Says how a write of [`Tracker::due`] went.
    pub fn done(&mut self, write: &Write, outcome: Outcome, now: Instant) {
        match (outcome, self.kept.get_mut(&write.key)) {
            (Outcome::Told, Some(kept)) => {
                kept.state = match write.telling {
                    Telling::Over => State::Over(now),
                    Telling::Holds | Telling::Lasts => State::Told(now),
                };
            }
            (Outcome::NoPod, _) => drop(self.kept.remove(&write.key)),
            (Outcome::Failed, _) | (_, None) => {}
        }
    }
}

impl Kept {
    fn telling(&self, now: Instant) -> Option<Telling> {
        match self.state {
            State::New | State::Over(_) => (self.seen >= SEEN).then_some(Telling::Holds),
            State::Told(_) if self.missed >= MISSED => Some(Telling::Over),
            State::Told(at) => {
                (self.seen > 0 && now.duration_since(at) >= RENEWED).then_some(Telling::Lasts)
            }
        }
    }
}

/// The key of a condition; `None` where its names are none.
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

/// `pays_for_others` as Kubernetes writes reasons; `None` for what is no such name.
fn reason(name: &str) -> Option<String> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(fits) {
        return None;
    }
    let words = name.split('_').filter(|word| !word.is_empty());
    let upper = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    Some(words.map(upper).collect::<String>()).filter(|reason| !reason.is_empty())
}

/// One line without control characters, of bounded length: a node may send anything.
fn sentence(text: &str) -> String {
    let plain = |c: char| match c.is_control() && !c.is_whitespace() {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    };
    crate::kubectl::bounded(&text.chars().map(plain).collect::<String>(), LONGEST_TEXT)
}

#[cfg(test)]
mod tests;
