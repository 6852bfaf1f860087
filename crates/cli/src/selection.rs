//! `--container`: which containers a command shows.

use crate::exit::{Failure, one_line};
use cofferdam_types::{Container, ContainerLedger, Interval, Selector};
use std::fmt::Write;

/// How many names a message lists.
const NAMES_SHOWN: usize = 5;

/// The containers that are meant; every one when no selector was given.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    selectors: Vec<Selector>,
}

impl Selection {
    /// Checks that each of `selectors` means at least one of `containers`.
    pub fn new<'a>(
        selectors: &[Selector],
        containers: impl Iterator<Item = &'a Container> + Clone,
    ) -> Result<Selection, Failure> {
        for selector in selectors {
            if !containers.clone().any(|c| selector.matches(c)) {
                return Err(unknown(selector, containers));
            }
        }
        Ok(Selection {
            selectors: selectors.to_vec(),
        })
    }

    /// Whether `container` is meant.
    pub fn matches(&self, container: &Container) -> bool {
        self.selectors.is_empty() || self.selectors.iter().any(|s| s.matches(container))
    }

    /// True when every container is meant.
    pub fn is_all(&self) -> bool {
        self.selectors.is_empty()
    }

    /// `interval` with only the containers that are meant. What is measured for the whole
    /// host stays.
    pub fn filter(&self, interval: &Interval) -> Interval {
        let mut filtered = interval.clone();
        filtered
            .containers
            .retain(|c: &ContainerLedger| self.matches(&c.container));
        filtered
    }

    /// An error once none of the selected containers is left in `interval`.
    pub fn check_alive(&self, interval: &Interval) -> Result<(), Failure> {
        if self.is_all()
            || interval
                .containers
                .iter()
                .any(|c| self.matches(&c.container))
        {
            return Ok(());
        }
        let names: Vec<_> = self.selectors.iter().map(|s| format!("'{s}'")).collect();
        Err(Failure::failed(format!(
            "container {} is gone: its cgroup was removed; what was measured until then is kept",
            names.join(", ")
        )))
    }
}

fn unknown<'a>(selector: &Selector, containers: impl Iterator<Item = &'a Container>) -> Failure {
    let wanted = selector.to_string();
    let mut names: Vec<String> = containers.map(|c| one_line(&c.name)).collect();
    names.sort_by_cached_key(|name| (strsim::osa_distance(&wanted, name), name.clone()));
    names.dedup();
    let mut text = format!("no container matches '{wanted}'");
    if names.is_empty() {
        text += ": this host has no container now; start one, or any process in a cgroup and \
                 network namespace of its own";
    } else {
        let rest = names.len().saturating_sub(NAMES_SHOWN);
        names.truncate(NAMES_SHOWN);
        let _ = write!(text, ": there is {}", names.join(", "));
        if rest > 0 {
            let _ = write!(text, " and {rest} more; 'cofferdam top --once' lists all");
        }
    }
    Failure::failed(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{container, interval};

    fn select(text: &str, names: &[&str]) -> Result<Selection, Failure> {
        let all: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(i, n)| container(i as u64, n))
            .collect();
        Selection::new(&[text.parse().unwrap()], all.iter())
    }

    #[test]
    fn an_unknown_name_lists_the_nearest_first() {
        let failure = select("wbe-1", &["db-1", "web-2", "web-1", "cache"]).unwrap_err();
        assert_eq!(failure.code(), 1);
        let line = failure.line().unwrap();
        assert!(
            line.starts_with("no container matches 'wbe-1': there is web-1, "),
            "{line}"
        );
    }

    #[test]
    fn a_host_without_containers_says_so() {
        let line = select("web", &[]).unwrap_err().line().unwrap();
        assert!(line.contains("no container now"), "{line}");
    }

    #[test]
    fn long_lists_are_cut_short() {
        let names: Vec<String> = (0..50).map(|i| format!("c{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let line = select("zzz", &names).unwrap_err().line().unwrap();
        assert!(line.contains("and 45 more"), "{line}");
    }

    #[test]
    fn globs_keep_what_they_match_and_the_host_stays() {
        let selection = select("web-*", &["web-1"]).unwrap();
        let filtered = selection.filter(&interval());
        let names: Vec<_> = filtered
            .containers
            .iter()
            .map(|c| &*c.container.name)
            .collect();
        assert_eq!(names, ["web-3"]);
        assert_eq!(filtered.cpus, interval().cpus);
    }

    #[test]
    fn a_selection_that_has_vanished_is_an_error() {
        let selection = select("web-*", &["web-1"]).unwrap();
        assert!(selection.check_alive(&interval()).is_ok());
        let mut empty = interval();
        empty.containers.clear();
        let line = selection.check_alive(&empty).unwrap_err().line().unwrap();
        assert!(line.contains("'web-*' is gone"), "{line}");
        assert!(Selection::default().check_alive(&empty).is_ok());
    }
}
