//! `--container`: selection of the containers that a command prints.

use crate::exit::Failure;
use cofferdam_host::resolve;
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_types::{CgroupId, Container, ContainerLedger, Interval, Reason, Selector};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Selected containers. Without selectors these are all containers, but not the cgroups of the
/// host.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    selectors: Vec<Selector>,
    /// Containers that the selectors matched at the start. `pid:` and `netns:NAME` can only be
    /// resolved then: later the process may be gone while the container remains.
    found: BTreeSet<CgroupId>,
    /// Whether cgroups of the host are included.
    hosts: bool,
}

impl Selection {
    /// Checks that each of `selectors` matches at least one of `containers`.
    pub fn new(selectors: &[Selector], containers: &[Arc<Container>]) -> Result<Self, Failure> {
        let mut found = BTreeSet::new();
        for selector in selectors {
            let matches =
                resolve(selector, containers).map_err(|e| Failure::failed(e.to_string()))?;
            found.extend(matches.iter().map(|c| c.cgroup));
        }
        Ok(Selection {
            selectors: selectors.to_vec(),
            found,
            hosts: false,
        })
    }

    /// Checks that each of `selectors` can be used on records of the past: processes and names of
    /// network namespaces exist only now.
    pub fn for_history(selectors: &[Selector]) -> Result<Self, Failure> {
        let of_now = |s: &&Selector| match s {
            Selector::Pid(_) => true,
            Selector::Netns(name) => name.parse::<u32>().is_err(),
            Selector::Name(_) | Selector::Id(_) | Selector::Cgroup(_) => false,
        };
        if let Some(selector) = selectors.iter().find(of_now) {
            return Err(Failure::Usage(format!(
                "'{selector}' is not in the history: give a name, id:PREFIX or cgroup:PATH"
            )));
        }
        Ok(Selection {
            selectors: selectors.to_vec(),
            ..Selection::default()
        })
    }

    /// Includes the cgroups of the host (`--all`), which are otherwise left out unless selected.
    #[must_use]
    pub fn with_host_cgroups(self, hosts: bool) -> Self {
        Selection { hosts, ..self }
    }

    /// Whether `container` is selected.
    pub fn matches(&self, container: &Container) -> bool {
        if container.is_of_host() && self.hosts {
            return true;
        }
        (self.selectors.is_empty() && !container.is_of_host())
            || self.found.contains(&container.cgroup)
            || self.selectors.iter().any(|s| s.matches(container))
    }

    /// Selected containers of `record`.
    pub fn of_record<'a>(
        &self,
        record: &'a AccountingRecord,
    ) -> impl Iterator<Item = &'a ContainerRecord> {
        let is_selected = |c: &&ContainerRecord| self.matches_record(c);
        record.containers.iter().filter(is_selected)
    }

    fn matches_record(&self, record: &ContainerRecord) -> bool {
        if self.selectors.is_empty() {
            return self.hosts || !record.is_of_host();
        }
        self.matches(&record.container())
    }

    /// Whether no selector was given. Then all containers are selected, and the host's cgroups only
    /// with `--all`.
    pub fn has_no_selectors(&self) -> bool {
        self.selectors.is_empty()
    }

    /// `interval` with only the selected containers. Figures of the whole host stay; network CPU of
    /// cgroups of the host that are left out counts as traffic of the host.
    pub fn filter(&self, interval: &Interval) -> Interval {
        let mut filtered = interval.clone();
        let mut host_ns = 0;
        filtered.containers.retain(|c: &ContainerLedger| {
            let is_selected = self.matches(&c.container);
            if !is_selected && c.container.is_of_host() {
                host_ns += c.ledger.caused_ns();
            }
            is_selected
        });
        let host = filtered.unattributed_ns.entry(Reason::HostTraffic);
        *host.or_default() += host_ns;
        filtered
    }

    /// Fails once none of the selected containers is left in `interval`.
    pub fn check_alive(&self, interval: &Interval) -> Result<(), Failure> {
        if self.has_no_selectors()
            || interval
                .containers
                .iter()
                .any(|c| self.matches(&c.container))
        {
            return Ok(());
        }
        let names: Vec<_> = self.selectors.iter().map(|s| format!("'{s}'")).collect();
        Err(Failure::failed(format!(
            "container {} is gone: its cgroup was removed; the output until then stays",
            names.join(", ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{container, interval};
    use cofferdam_types::Runtime;

    fn select(text: &str, names: &[&str]) -> Result<Selection, Failure> {
        let all: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(i, n)| Arc::new(container(i as u64, n)))
            .collect();
        Selection::new(&[text.parse().unwrap()], &all)
    }

    #[test]
    fn an_unknown_name_is_one_line_with_similar_ones() {
        let failure = select("wbe-1", &["db-1", "web-1", "cache"]).unwrap_err();
        assert_eq!(failure.code(), 1);
        let line = failure.line().unwrap();
        assert!(
            line.contains("no container 'wbe-1'") && line.contains("web-1"),
            "{line}"
        );
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

    /// Promise 7.
    #[test]
    fn hidden_cgroups_of_the_host_still_count_as_traffic() {
        let mut interval = interval();
        let mut service = interval.containers[1].clone();
        let caused_ns = service.ledger.caused_ns();
        service.container = Arc::new(Container {
            runtime: Runtime::Host,
            ..container(77, "ssh.service")
        });
        interval.containers.push(service);
        let host_ns = |i: &Interval| i.unattributed_ns[&Reason::HostTraffic];
        let before_ns = host_ns(&interval);

        let all = Selection::default()
            .with_host_cgroups(true)
            .filter(&interval);
        assert_eq!((all.containers.len(), host_ns(&all)), (4, before_ns));
        let containers = Selection::default().filter(&interval);
        assert_eq!(containers.containers.len(), 3);
        assert_eq!(host_ns(&containers), before_ns + caused_ns);
        // A cgroup of the host that is selected is treated like any container.
        let named = select("cgroup:/tenants/ssh*", &["ssh.service"]);
        let named = named.unwrap().filter(&interval);
        assert_eq!((named.containers.len(), host_ns(&named)), (1, before_ns));
    }

    /// Promise 76.
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
