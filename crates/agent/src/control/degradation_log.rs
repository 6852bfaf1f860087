//! Log of degradations. Each is logged once when it begins and once when it ends.

use cofferdam_records::status::{PolicyRecord, RuleRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::{Duration, Instant};

/// Shortest degradation of a container that is logged. In a shorter one the container has ended, or
/// was only starting.
const MIN_DURATION: Duration = Duration::from_secs(2);
/// Time without a degradation after which it has ended.
const END_DELAY: Duration = Duration::from_secs(10);

/// One degradation. It concerns the host if `container` is `None`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub container: Option<String>,
    pub text: String,
}

/// Rules that ask for something and match no container. `container` holds the match of the rule.
pub(super) fn unmatched(rules: &[RuleRecord]) -> BTreeSet<Line> {
    let line = |rule: &RuleRecord| Line {
        container: Some(rule.matches.clone()),
        text: match rule.line {
            Some(line) => format!("line {line}"),
            None => "set over the socket".to_owned(),
        },
    };
    let asks = |p: &PolicyRecord| p.network_cpu == "enforce" || p.cpu == "strict";
    let unmatched = rules
        .iter()
        .filter(|rule| rule.containers == 0 && asks(&rule.policy));
    unmatched.map(line).collect()
}

/// Lines to be logged now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LogChanges {
    pub begins: Vec<Line>,
    pub ends: Vec<Line>,
}

impl Line {
    /// Identity of the line: its text without the figures, which change from moment to moment. A
    /// figure follows "about".
    fn key(&self) -> Line {
        let mut is_figure = false;
        let words = self.text.split(' ');
        let words_of_key = words.filter(|word| !mem::replace(&mut is_figure, *word == "about"));
        Line {
            container: self.container.clone(),
            text: words_of_key.collect::<Vec<_>>().join(" "),
        }
    }
}

/// Degradation that holds, or held until a moment ago.
#[derive(Debug)]
struct LoggedLine {
    /// Text as it was logged or, until then, first seen.
    line: Line,
    since: Instant,
    last_seen: Instant,
    logged: bool,
}

/// Degradations, by key.
#[derive(Debug, Default)]
pub(super) struct DegradationLog(BTreeMap<Line, LoggedLine>);

impl DegradationLog {
    /// Takes the complete set of current degradations. `exists` says whether a container of a name
    /// exists.
    pub fn update(
        &mut self,
        lines: BTreeSet<Line>,
        exists: impl Fn(&str) -> bool,
        now: Instant,
    ) -> LogChanges {
        let mut changes = LogChanges::default();
        for line in lines {
            let entry = self.0.entry(line.key()).or_insert_with(|| LoggedLine {
                line: line.clone(),
                since: now,
                last_seen: now,
                logged: false,
            });
            entry.last_seen = now;
            let lasts = now.saturating_duration_since(entry.since) >= MIN_DURATION;
            if (lasts || line.container.is_none()) && !entry.logged {
                entry.logged = true;
                entry.line = line.clone();
                changes.begins.push(line);
            }
        }
        self.0.retain(|_, entry| {
            let is_there = entry.line.container.as_deref().is_none_or(&exists);
            let absent = now.saturating_duration_since(entry.last_seen);
            if absent.is_zero() || (entry.logged && is_there && absent < END_DELAY) {
                return true;
            }
            // The end of a container is no improvement.
            if entry.logged && is_there {
                changes.ends.push(entry.line.clone());
            }
            false
        });
        changes
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.container {
            Some(name) => write!(f, "container {name}: {}", self.text),
            None => write!(f, "{}", self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(container: Option<&str>) -> Line {
        Line {
            container: container.map(str::to_owned),
            text: "no cpuset".to_owned(),
        }
    }

    /// Promise 63.
    #[test]
    fn a_short_lived_container_is_not_logged() {
        let (mut log, start) = (DegradationLog::default(), Instant::now());
        let degraded = BTreeSet::from([line(Some("short"))]);
        assert_eq!(log.update(degraded, |_| true, start), LogChanges::default());
        let later = start + Duration::from_secs(1);
        assert_eq!(
            log.update(BTreeSet::new(), |_| false, later),
            LogChanges::default()
        );
    }

    /// Promise 23.
    /// Promise 63.
    #[test]
    fn a_lasting_problem_is_logged_once_with_its_end() {
        for stays in [true, false] {
            let (mut log, start) = (DegradationLog::default(), Instant::now());
            let degraded = || BTreeSet::from([line(Some("web")), line(None)]);
            let mut begins = Vec::new();
            for second in 0..5 {
                let now = start + Duration::from_secs(second);
                begins.push(log.update(degraded(), |_| true, now).begins);
            }
            assert_eq!(begins[0], [line(None)], "the host's at once");
            assert_eq!(begins[2], [line(Some("web"))]);
            assert_eq!(begins.concat().len(), 2);
            let end = start + Duration::from_secs(4) + END_DELAY;
            let ends = log.update(BTreeSet::new(), |_| stays, end).ends;
            assert_eq!(ends.contains(&line(Some("web"))), stays);
            assert!(ends.contains(&line(None)));
        }
    }

    /// Promise 23.
    #[test]
    fn a_flickering_problem_is_logged_in_two_lines() {
        let (mut log, start) = (DegradationLog::default(), Instant::now());
        let pays = |cpus: &str| Line {
            container: None,
            text: format!("/ pays about {cpus} CPUs for packets of others"),
        };
        let mut all = Vec::new();
        for step in 0..200_u32 {
            let lines = match step % 4 {
                0 => BTreeSet::from([pays("0.1")]),
                1 | 2 => BTreeSet::from([pays("0.2")]),
                _ => BTreeSet::new(),
            };
            let changes = log.update(lines, |_| true, start + step * Duration::from_millis(200));
            all.extend([changes.begins, changes.ends].concat());
        }
        assert_eq!(all, [pays("0.1")]);
        let later = |seconds: u64| start + Duration::from_secs(40 + seconds);
        let changes = log.update(BTreeSet::new(), |_| true, later(5));
        assert_eq!(changes, LogChanges::default());
        let changes = log.update(BTreeSet::new(), |_| true, later(11));
        assert_eq!(changes.ends, [pays("0.1")]);
    }

    /// Promise 30.
    #[test]
    fn an_effective_rule_without_containers_is_logged() {
        let rule = |matches: &str, network_cpu: &str, containers, line| RuleRecord {
            line,
            matches: matches.to_owned(),
            policy: PolicyRecord {
                network_cpu: network_cpu.to_owned(),
                cpu: "standard".to_owned(),
                cpus: None,
            },
            containers,
        };
        let lines_of_rules = unmatched(&[
            rule("cgroup:/bar*", "enforce", 0, Some(7)),
            rule("set", "enforce", 0, None),
            rule("web-*", "enforce", 2, Some(9)),
            rule("*", "observe", 0, Some(11)),
        ]);
        let lines: Vec<String> = lines_of_rules.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "container cgroup:/bar*: line 7",
                "container set: set over the socket"
            ]
        );
    }
}
