//! Which container has which classes now. Matched once a container, not once a step.

use crate::rules::{Known, Matcher, Rule};
use cofferdam_enforce::Wanted;
use cofferdam_host::HostFs;
use cofferdam_types::{CgroupId, Container, CpuAmount, CpuPolicy, NetnsId, Policy, Selector};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most rules set over the socket.
pub const MOST_SET: usize = 64;
/// How often names of namespaces and processes are looked up again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The rules in force and the containers under them.
#[derive(Debug)]
pub(crate) struct Assigner {
    fs: HostFs,
    /// Those set over the socket first, then those of the file.
    set: Vec<Rule>,
    file: Vec<Rule>,
    under: HashMap<CgroupId, Assigned>,
    labels: HashMap<CgroupId, Arc<BTreeMap<String, String>>>,
    namespaces: BTreeMap<String, NetnsId>,
    processes: BTreeMap<u32, PathBuf>,
    looked: Option<Instant>,
    /// Everything is to be matched again.
    stale: bool,
}

#[derive(Clone, Debug)]
struct Assigned {
    container: Arc<Container>,
    /// Index among all rules; `None`: no rule, observe and standard.
    rule: Option<usize>,
    /// That rule's.
    policy: Policy,
}

impl Assigner {
    pub fn new(fs: HostFs, file: Vec<Rule>) -> Assigner {
        Assigner {
            fs,
            set: Vec::new(),
            file,
            under: HashMap::new(),
            labels: HashMap::new(),
            namespaces: BTreeMap::new(),
            processes: BTreeMap::new(),
            looked: None,
            stale: true,
        }
    }

    /// The rules, in the order in which they are tried.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.set.iter().chain(&self.file)
    }

    /// Puts the rules of another file in force.
    pub fn replace(&mut self, file: Vec<Rule>) {
        self.file = file;
        self.stale = true;
    }

    /// Puts a rule before all others; one with the same match is replaced. False when there
    /// are too many.
    pub fn set(&mut self, rule: Rule) -> bool {
        let text = rule.matcher.to_string();
        self.set.retain(|r| r.matcher.to_string() != text);
        if self.set.len() >= MOST_SET {
            return false;
        }
        self.set.insert(0, rule);
        self.stale = true;
        true
    }

    /// Takes back a rule that was set; false when there is none.
    pub fn clear(&mut self, matches: &str) -> bool {
        let before = self.set.len();
        self.set.retain(|r| r.matcher.to_string() != matches);
        self.stale |= self.set.len() != before;
        self.set.len() != before
    }

    /// Whether [`Assigner::follow`] has anything to do other than new containers.
    pub fn is_due(&self) -> bool {
        self.stale || self.looked.is_none_or(|t| t.elapsed() >= LOOK_AGAIN)
    }

    /// Brings the assignment up to date with `containers`. True when it has changed. Cgroups of the
    /// host are none: one that a rule names is a container.
    pub fn follow(&mut self, containers: &[Arc<Container>]) -> bool {
        self.look_up();
        let mut changed = std::mem::take(&mut self.stale);
        if changed {
            self.under.clear();
        }
        let mut next = HashMap::with_capacity(containers.len());
        for container in containers.iter().filter(|c| !c.is_of_host()) {
            let known = self.under.remove(&container.cgroup);
            let assigned = match known {
                Some(old) if Arc::ptr_eq(&old.container, container) => old,
                _ => {
                    changed = true;
                    let rule = self.rule_of(container);
                    Assigned {
                        container: container.clone(),
                        rule,
                        policy: self.policy(rule),
                    }
                }
            };
            next.insert(container.cgroup, assigned);
        }
        // Those that are left there have gone.
        changed |= !self.under.is_empty();
        if changed {
            self.labels.retain(|cgroup, _| next.contains_key(cgroup));
        }
        self.under = next;
        changed
    }

    /// What the rules name by cgroup or process: these are containers whatever their network
    /// namespace; otherwise the rule would silently have no effect.
    pub fn named(&mut self) -> Vec<Selector> {
        self.look_up();
        let cgroups = self.rules().filter_map(|rule| match &rule.matcher {
            Matcher::Selector(selector) if selector.names_cgroups() => Some(selector.clone()),
            _ => None,
        });
        let processes = self.processes.values();
        let processes = processes.filter_map(|path| Selector::cgroup_at(path));
        cgroups.chain(processes).collect()
    }

    /// Every container with its classes: containers without a reservation must make room for those
    /// with one.
    pub fn wanted(&self) -> Vec<Wanted> {
        let mut wanted: Vec<Wanted> = self
            .under
            .values()
            .map(|a| Wanted {
                container: a.container.clone(),
                policy: a.policy,
            })
            .collect();
        wanted.sort_by_key(|w| w.container.cgroup);
        wanted
    }

    /// Whether there is a container of this name.
    pub fn knows(&self, name: &str) -> bool {
        self.under.values().any(|a| a.container.name == name)
    }

    /// What rules reserve, by container.
    pub fn reserved(&self) -> BTreeMap<CgroupId, CpuAmount> {
        let amount = |a: &Assigned| match a.policy.cpu {
            CpuPolicy::Strict(amount) => Some((a.container.cgroup, amount)),
            CpuPolicy::Standard => None,
        };
        self.under.values().filter_map(amount).collect()
    }

    /// Containers under each rule, in the order of [`Assigner::rules`].
    pub fn counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.set.len() + self.file.len()];
        for rule in self.under.values().filter_map(|a| a.rule) {
            counts[rule] += 1;
        }
        counts
    }

    /// Cgroup paths of the containers known.
    pub fn paths(&self) -> HashMap<CgroupId, String> {
        let path = |c: &Container| c.cgroup_path.to_string_lossy().into_owned();
        self.under
            .values()
            .map(|a| (a.container.cgroup, path(&a.container)))
            .collect()
    }

    fn policy(&self, rule: Option<usize>) -> Policy {
        let rule = rule.and_then(|i| self.rules().nth(i));
        rule.map(|r| r.policy).unwrap_or_default()
    }

    fn rule_of(&mut self, container: &Container) -> Option<usize> {
        let need_labels = self.rules().any(|r| r.matcher.needs_labels());
        if need_labels && !self.labels.contains_key(&container.cgroup) {
            let labels = cofferdam_host::labels(&self.fs, container);
            self.labels.insert(container.cgroup, Arc::new(labels));
        }
        let labels = self.labels.get(&container.cgroup).cloned();
        let known = Known {
            labels: &labels.unwrap_or_default(),
            namespaces: &self.namespaces,
            processes: &self.processes,
        };
        self.rules()
            .position(|r| r.matcher.matches(container, &known))
    }

    /// What `netns:NAME` and `pid:N` mean now; matches everything again when that changed.
    fn look_up(&mut self) {
        if self.looked.is_some_and(|t| t.elapsed() < LOOK_AGAIN) && !self.stale {
            return;
        }
        self.looked = Some(Instant::now());
        let mut namespaces = BTreeMap::new();
        let mut processes = BTreeMap::new();
        for rule in self.rules() {
            match &rule.matcher {
                Matcher::Selector(Selector::Netns(name)) => {
                    if let Some(netns) = cofferdam_host::named_netns(&self.fs, name) {
                        namespaces.insert(name.clone(), netns);
                    }
                }
                Matcher::Selector(Selector::Pid(pid)) => {
                    if let Some(path) = cofferdam_host::cgroup_of(&self.fs, *pid) {
                        processes.insert(*pid, path);
                    }
                }
                _ => {}
            }
        }
        if namespaces != self.namespaces || processes != self.processes {
            (self.namespaces, self.processes) = (namespaces, processes);
            self.stale = true;
        }
    }
}
