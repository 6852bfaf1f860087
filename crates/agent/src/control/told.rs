//! What the log has said is degraded: each thing once when it begins, and once when it ends.

use cofferdam_records::status::{PolicyRecord, RuleRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A container that is degraded for a shorter time is not worth a line: it has ended, or was only
/// beginning.
const LASTS: Duration = Duration::from_secs(2);

/// One thing that is degraded, of the host when `container` is `None`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub container: Option<String>,
    pub text: String,
}

/// Rules that ask for something and match no container; `container` is what such a rule matches.
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

/// What is to be logged now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    pub begins: Vec<Line>,
    pub ends: Vec<Line>,
}

/// Since when each thing is degraded, and whether that was logged.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<Line, (Instant, bool)>);

impl Told {
    /// These are degraded now, all that are; `known` says whether there is a container of a name.
    pub fn update(
        &mut self,
        lines: BTreeSet<Line>,
        known: impl Fn(&str) -> bool,
        now: Instant,
    ) -> News {
        let mut news = News::default();
        self.0.retain(|line, (_, logged)| {
            let stays = lines.contains(line);
            // Nothing became better with a container that has ended.
            let there = line.container.as_deref().is_none_or(&known);
            if !stays && *logged && there {
                news.ends.push(line.clone());
            }
            stays
        });
        for line in lines {
            let (since, logged) = self.0.entry(line.clone()).or_insert((now, false));
            let lasts = line.container.is_none() || now.saturating_duration_since(*since) >= LASTS;
            if lasts && !*logged {
                *logged = true;
                news.begins.push(line);
            }
        }
        news
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

    #[test]
    fn a_short_lived_container_is_no_line_in_the_log() {
        let (mut told, start) = (Told::default(), Instant::now());
        let degraded = BTreeSet::from([line(Some("short"))]);
        assert_eq!(told.update(degraded, |_| true, start), News::default());
        let later = start + Duration::from_secs(1);
        assert_eq!(
            told.update(BTreeSet::new(), |_| false, later),
            News::default()
        );
    }

    #[test]
    fn a_lasting_problem_is_reported_once_and_its_end_while_the_container_exists() {
        for stays in [true, false] {
            let (mut told, start) = (Told::default(), Instant::now());
            let degraded = || BTreeSet::from([line(Some("web")), line(None)]);
            let mut begins = Vec::new();
            for second in 0..5 {
                let now = start + Duration::from_secs(second);
                begins.push(told.update(degraded(), |_| true, now).begins);
            }
            assert_eq!(begins[0], [line(None)], "the host's at once");
            assert_eq!(begins[2], [line(Some("web"))]);
            assert_eq!(begins.concat().len(), 2);
            let ends = told.update(BTreeSet::new(), |_| stays, start).ends;
            assert_eq!(ends.contains(&line(Some("web"))), stays);
            assert!(ends.contains(&line(None)));
        }
    }

    #[test]
    fn a_rule_that_asks_for_something_and_matches_nothing_is_told() {
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
        let told = unmatched(&[
            rule("cgroup:/bar*", "enforce", 0, Some(7)),
            rule("set", "enforce", 0, None),
            rule("web-*", "enforce", 2, Some(9)),
            rule("*", "observe", 0, Some(11)),
        ]);
        let lines: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "container cgroup:/bar*: line 7",
                "container set: set over the socket"
            ]
        );
    }
}
