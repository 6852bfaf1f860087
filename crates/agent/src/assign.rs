//! Assignment of rules and classes to containers. Each container is matched once, not once a step.

use crate::config::MayAsk;
use crate::pods::{self, Decision, MADE_ON, decide};
use crate::rules::{MatchContext, Matcher, Rule, changes_host};
use cofferdam_enforce::ContainerPolicy;
use cofferdam_host::{HostFs, online_cpus, parse};
use cofferdam_nri::Roster;
use cofferdam_types::{
    CgroupId, Container, CpuAmount, CpuId, CpuPolicy, Degradation, NetnsId, Policy, Selector,
    path_text,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit on the number of rules set over the socket.
pub const MOST_SET: usize = 64;
/// Interval at which the names of namespaces and processes are resolved again.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(1);

/// Rules in force, and the containers that they apply to.
#[derive(Debug)]
pub(crate) struct Assigner {
    fs: HostFs,
    online: BTreeSet<CpuId>,
    /// Rules set over the socket. They precede those of the file.
    set: Vec<Rule>,
    file: Vec<Rule>,
    assignments: HashMap<CgroupId, Assignment>,
    labels: HashMap<CgroupId, Arc<BTreeMap<String, String>>>,
    namespaces: BTreeMap<String, NetnsId>,
    /// Cgroups of the processes that rules name, while those processes run.
    processes: BTreeMap<u32, PathBuf>,
    /// Start time, in ticks, of each process that a rule names, from the first lookup. The kernel
    /// may reuse the process number later.
    starts: BTreeMap<u32, u64>,
    resolved_at: Option<Instant>,
    /// Whether every container must be matched again.
    stale: bool,
}

/// Result of matching one container.
#[derive(Clone, Debug)]
struct Assignment {
    container: Arc<Container>,
    /// Index among all rules. `None` if no rule matches: the container is observed, with standard
    /// CPU.
    rule: Option<usize>,
    /// Classes that the rule and the pod's annotations give it.
    decision: Decision,
    /// CPUs on which the container was created because of a promise.
    made_on: Option<String>,
}

/// Runtime records of the pods, and the namespaces whose pods may ask by annotation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pods<'a> {
    pub roster: &'a Roster,
    pub may_ask: &'a MayAsk,
}

impl<'a> Pods<'a> {
    fn container(&self, container: &Container) -> Option<&'a Arc<cofferdam_nri::Container>> {
        self.roster.container(container.id.as_deref()?)
    }
}

impl Assigner {
    pub fn new(fs: HostFs, file: Vec<Rule>) -> Assigner {
        Assigner {
            online: online_cpus(&fs)
                .map(BTreeSet::from_iter)
                .unwrap_or_default(),
            fs,
            set: Vec::new(),
            file,
            assignments: HashMap::new(),
            labels: HashMap::new(),
            namespaces: BTreeMap::new(),
            processes: BTreeMap::new(),
            starts: BTreeMap::new(),
            resolved_at: None,
            stale: true,
        }
    }

    /// Returns the rules in the order in which they are tried.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.set.iter().chain(&self.file)
    }

    /// Replaces the rules of the file.
    pub fn replace(&mut self, file: Vec<Rule>) {
        self.file = file;
        self.stale = true;
    }

    /// Inserts a rule before all others and replaces one with the same match. Returns false if
    /// there are too many.
    pub fn set(&mut self, rule: Rule) -> bool {
        let text = rule.matcher.to_string();
        self.set.retain(|r| r.matcher.to_string() != text);
        if let Matcher::Selector(Selector::Pid(pid)) = rule.matcher {
            // The rule names the process that runs now.
            self.starts.remove(&pid);
        }
        if self.set.len() >= MOST_SET {
            return false;
        }
        self.set.insert(0, rule);
        self.stale = true;
        true
    }

    /// Removes a rule that was set over the socket. Returns false if there is none.
    pub fn clear(&mut self, matches: &str) -> bool {
        let before = self.set.len();
        self.set.retain(|r| r.matcher.to_string() != matches);
        self.stale |= self.set.len() != before;
        self.set.len() != before
    }

    /// Whether [`Assigner::follow`] has work to do even without new containers.
    pub fn is_due(&self) -> bool {
        self.stale
            || self
                .resolved_at
                .is_none_or(|t| t.elapsed() >= RESOLVE_INTERVAL)
    }

    /// Updates the assignment for `containers` and returns whether it changed. Cgroups of the host
    /// are skipped: one that a rule names is a container.
    pub fn follow(&mut self, containers: &[Arc<Container>], pods: Pods<'_>) -> bool {
        self.resolve_names();
        let mut changed = std::mem::take(&mut self.stale);
        if changed {
            self.assignments.clear();
        }
        let mut next = HashMap::with_capacity(containers.len());
        for container in containers.iter().filter(|c| !c.is_of_host()) {
            let previous = self.assignments.remove(&container.cgroup);
            let assigned = match previous {
                Some(old) if Arc::ptr_eq(&old.container, container) => old,
                _ => {
                    changed = true;
                    let (rule, decision) = self.decide(container, pods);
                    let record = pods.container(container);
                    Assignment {
                        container: container.clone(),
                        rule,
                        decision,
                        made_on: record.and_then(|c| c.annotations.get(MADE_ON).cloned()),
                    }
                }
            };
            next.insert(container.cgroup, assigned);
        }
        // The entries that remain belong to containers that have ended.
        changed |= !self.assignments.is_empty();
        if changed {
            self.labels.retain(|cgroup, _| next.contains_key(cgroup));
        }
        self.assignments = next;
        changed
    }

    /// Cgroups and processes that rules name. The ledger must treat them as containers whatever
    /// their network namespace, or the rule would silently have no effect.
    pub fn selectors(&mut self) -> Vec<Selector> {
        self.resolve_names();
        let cgroups = self.rules().filter_map(|rule| match &rule.matcher {
            Matcher::Selector(selector) if selector.names_cgroups() => Some(selector.clone()),
            _ => None,
        });
        let processes = self.processes.values();
        cgroups
            .chain(processes.map(|path| Selector::cgroup_at(path)))
            .collect()
    }

    /// Every container with its classes. Containers without a reservation are included because they
    /// must leave the reserved CPUs.
    pub fn wanted(&self) -> Vec<ContainerPolicy> {
        let mut wanted: Vec<ContainerPolicy> = self
            .assignments
            .values()
            .map(|a| ContainerPolicy {
                container: a.container.clone(),
                policy: a.decision.policy,
                lends: a.decision.lends,
                created_on: a.made_on.clone(),
            })
            .collect();
        wanted.sort_by_key(|w| w.container.cgroup);
        wanted
    }

    /// Processes that rules name and that have ended since.
    pub fn ended_processes(&self) -> impl Iterator<Item = u32> {
        let all = self.starts.keys().copied();
        all.filter(|pid| !self.processes.contains_key(pid))
    }

    /// Whether a container of this name exists.
    pub fn has_container(&self, name: &str) -> bool {
        self.assignments.values().any(|a| a.container.name == name)
    }

    /// CPUs that rules reserve, by container.
    pub fn reserved(&self) -> BTreeMap<CgroupId, CpuAmount> {
        let amount = |a: &Assignment| match a.decision.policy.cpu {
            CpuPolicy::Strict(amount) => Some((a.container.cgroup, amount)),
            CpuPolicy::Standard => None,
        };
        self.assignments.values().filter_map(amount).collect()
    }

    /// Number of containers under each rule, in the order of [`Assigner::rules`].
    pub fn counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.set.len() + self.file.len()];
        for rule in self.assignments.values().filter_map(|a| a.rule) {
            counts[rule] += 1;
        }
        counts
    }

    /// Cgroup paths of the tracked containers.
    pub fn cgroup_paths(&self) -> HashMap<CgroupId, String> {
        let path = |c: &Container| path_text(&c.cgroup_path).into_owned();
        self.assignments
            .values()
            .map(|a| (a.container.cgroup, path(&a.container)))
            .collect()
    }

    /// Decides the rule and the classes of a container that exists, or that its runtime is about to
    /// create.
    pub fn decide(&mut self, container: &Container, pods: Pods<'_>) -> (Option<usize>, Decision) {
        let record = pods.container(container);
        let at = self.rule_of(container, record.map(Arc::as_ref));
        let rule = at.and_then(|i| self.rules().nth(i));
        let Some(record) = record else {
            let mut decision = Decision::of_rule(rule.map(|r| r.policy).unwrap_or_default());
            if rule.is_some_and(|r| r.by_request) {
                decision.problems.push(Degradation {
                    name: decide::NO_REQUEST.to_owned(),
                    text: "its CPUs are not reserved: what it requests is known only of the \
                           containers of pods, from the runtime; set socket of [nri], or give cpus"
                        .to_owned(),
                });
            }
            return (at, decision);
        };
        let claim = pods::claim(&record.pod, &record.name);
        let may_ask = pods.may_ask.allows(&record.pod.namespace);
        let decision = pods::decide(
            rule,
            claim,
            record,
            may_ask,
            is_pinned(record, &self.online),
        );
        (at, decision)
    }

    /// Schedules the container with this id to be matched again.
    pub fn match_again(&mut self, id: &str) {
        self.assignments
            .retain(|_, a| a.container.id.as_deref() != Some(id));
    }

    /// Schedules every container to be matched again.
    pub fn match_all_again(&mut self) {
        self.stale = true;
    }

    /// Requests of containers that are refused, by container.
    pub fn problems(&self) -> impl Iterator<Item = (&Arc<Container>, Policy, &[Degradation])> {
        let refused = self.assignments.values();
        refused
            .filter(|a| !a.decision.problems.is_empty())
            .map(|a| (&a.container, a.decision.policy, &a.decision.problems[..]))
    }

    /// Whether anything on the host is, or must be, changed for a container.
    pub fn changes_host(&self) -> bool {
        let is_changed = |a: &Assignment| changes_host(&a.decision.policy) || a.made_on.is_some();
        self.assignments.values().any(is_changed)
    }

    /// Containers whose pods ask for latency measurement.
    pub fn measured_containers(&self) -> Vec<Arc<Container>> {
        let asks = self
            .assignments
            .values()
            .filter(|a| a.decision.measures_latency);
        let mut all: Vec<_> = asks.map(|a| a.container.clone()).collect();
        all.sort_by_key(|c| c.cgroup);
        all
    }

    fn rule_of(
        &mut self,
        container: &Container,
        record: Option<&cofferdam_nri::Container>,
    ) -> Option<usize> {
        let need_labels = self.rules().any(|r| r.matcher.needs_labels());
        let labels = match record {
            _ if !need_labels => Arc::default(),
            Some(record) => Arc::new(labels_of(record)),
            None => {
                let entry = self.labels.entry(container.cgroup);
                let read = || Arc::new(cofferdam_host::labels(&self.fs, container));
                entry.or_insert_with(read).clone()
            }
        };
        let context = MatchContext {
            labels: &labels,
            namespaces: &self.namespaces,
            processes: &self.processes,
        };
        self.rules()
            .position(|r| r.matcher.matches(container, &context))
    }

    /// Resolves `netns:NAME` and `pid:N`. Schedules a new match of everything if the result
    /// changed.
    fn resolve_names(&mut self) {
        if self
            .resolved_at
            .is_some_and(|t| t.elapsed() < RESOLVE_INTERVAL)
            && !self.stale
        {
            return;
        }
        self.resolved_at = Some(Instant::now());
        let mut namespaces = BTreeMap::new();
        let mut processes = BTreeMap::new();
        let mut starts = BTreeMap::new();
        for rule in self.rules() {
            match &rule.matcher {
                Matcher::Selector(Selector::Netns(name)) => {
                    if let Some(netns) = cofferdam_host::named_netns(&self.fs, name) {
                        namespaces.insert(name.clone(), netns);
                    }
                }
                Matcher::Selector(Selector::Pid(pid)) => {
                    let start = self.fs.start_of(*pid);
                    let path = start.and_then(|_| cofferdam_host::cgroup_of(&self.fs, *pid));
                    if let Some(first) = self.starts.get(pid).copied().or(start) {
                        starts.insert(*pid, first);
                        let is_same = start == Some(first);
                        processes.extend(path.filter(|_| is_same).map(|path| (*pid, path)));
                    }
                }
                _ => {}
            }
        }
        self.starts = starts;
        if namespaces != self.namespaces || processes != self.processes {
            (self.namespaces, self.processes) = (namespaces, processes);
            self.stale = true;
        }
    }
}

#[cfg(test)]
mod tests;

/// Labels and annotations of a pod and of its container. The container's take precedence.
fn labels_of(record: &cofferdam_nri::Container) -> BTreeMap<String, String> {
    let pod = &record.pod;
    let all = [
        &pod.annotations,
        &pod.labels,
        &record.annotations,
        &record.labels,
    ];
    let all = all.into_iter().flatten();
    all.map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Whether another party has pinned the container to CPUs. CPUs that the container was created on
/// because of a promise do not count, nor do all `online` CPUs, to which the agent reverts it.
fn is_pinned(record: &cofferdam_nri::Container, online: &BTreeSet<CpuId>) -> bool {
    let cpus = |list: &str| parse::cpu_list(list).map(BTreeSet::from_iter);
    let chosen = cpus(&record.resources.cpus).filter(|c: &BTreeSet<CpuId>| !c.is_empty());
    let Some(chosen) = chosen else {
        return false;
    };
    match record.annotations.get(MADE_ON) {
        Some(ours) => cpus(ours).as_ref() != Some(&chosen) && chosen != *online,
        None => true,
    }
}
