//! What the log has said is degraded: each thing once when it begins, and once when it ends.

use cofferdam_records::status::{PolicyRecord, RuleRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::{Duration, Instant};

/// A container that is degraded for a shorter time is not worth a line: it has ended, or was only
/// beginning.
const LASTS: Duration = Duration::from_secs(2);
/// What comes back sooner has not ended.
const ENDED: Duration = Duration::from_secs(10);

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

impl Line {
    /// Tells it from others: without its figures, which change from moment to moment. They follow "about".
    fn key(&self) -> Line {
        let mut is_figure = false;
        let words = self.text.split(' ');
        let kept = words.filter(|word| !mem::replace(&mut is_figure, *word == "about"));
        Line {
            container: self.container.clone(),
            text: kept.collect::<Vec<_>>().join(" "),
        }
    }
}

/// A thing that is degraded, or was until a moment ago.
#[derive(Debug)]
struct Known {
    /// As it was logged, or first seen until then.
    line: Line,
    since: Instant,
    seen: Instant,
    logged: bool,
}

/// What is degraded, by key.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<Line, Known>);

impl Told {
    /// These are degraded now, all that are; `known` says whether there is a container of a name.
    pub fn update(
        &mut self,
        lines: BTreeSet<Line>,
        known: impl Fn(&str) -> bool,
        now: Instant,
    ) -> News {
        let mut news = News::default();
        for line in lines {
            let it = self.0.entry(line.key()).or_insert_with(|| Known {
                line: line.clone(),
                since: now,
                seen: now,
                logged: false,
            });
            it.seen = now;
            let lasts = now.saturating_duration_since(it.since) >= LASTS;
            if (lasts || line.container.is_none()) && !it.logged {
                it.logged = true;
                it.line = line.clone();
                news.begins.push(line);
            }
        }
        self.0.retain(|_, it| {
            let is_there = it.line.container.as_deref().is_none_or(&known);
            let absent = now.saturating_duration_since(it.seen);
            if absent.is_zero() || (it.logged && is_there && absent < ENDED) {
                return true;
            }
            // Nothing became better with a container that has ended.
            if it.logged && is_there {
                news.ends.push(it.line.clone());
            }
            false
        });
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
            let end = start + Duration::from_secs(4) + ENDED;
            let ends = told.update(BTreeSet::new(), |_| stays, end).ends;
            assert_eq!(ends.contains(&line(Some("web"))), stays);
            assert!(ends.contains(&line(None)));
        }
    }

    #[test]
    fn what_comes_and_goes_and_changes_its_figure_is_two_lines() {
        let (mut told, start) = (Told::default(), Instant::now());
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
            let news = told.update(lines, |_| true, start + step * Duration::from_millis(200));
            all.extend([news.begins, news.ends].concat());
        }
        assert_eq!(all, [pays("0.1")]);
        let later = |seconds: u64| start + Duration::from_secs(40 + seconds);
        let news = told.update(BTreeSet::new(), |_| true, later(5));
        assert_eq!(news, News::default());
        let news = told.update(BTreeSet::new(), |_| true, later(11));
        assert_eq!(news.ends, [pays("0.1")]);
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
