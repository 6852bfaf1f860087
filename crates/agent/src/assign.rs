//! Assignment of rules and classes to containers. Each container is matched once, not once a step.

use crate::config::MayAsk;
use crate::pods::{self, Decision, MADE_ON, decide};
use crate::rules::{Known, Matcher, Rule, changes_host};
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
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Rules in force, and the containers that they apply to.
#[derive(Debug)]
pub(crate) struct Assigner {
    fs: HostFs,
    online: BTreeSet<CpuId>,
    /// Rules set over the socket. They precede those of the file.
    set: Vec<Rule>,
    file: Vec<Rule>,
    under: HashMap<CgroupId, Assigned>,
    labels: HashMap<CgroupId, Arc<BTreeMap<String, String>>>,
    namespaces: BTreeMap<String, NetnsId>,
    /// Cgroups of the processes that rules name, while those processes run.
    processes: BTreeMap<u32, PathBuf>,
    /// Start time, in ticks, of each process that a rule names, from the first lookup. The kernel
    /// may reuse the process number later.
    starts: BTreeMap<u32, u64>,
    looked: Option<Instant>,
    /// Whether every container must be matched again.
    stale: bool,
}

/// Result of matching one container.
#[derive(Clone, Debug)]
struct Assigned {
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
            under: HashMap::new(),
            labels: HashMap::new(),
            namespaces: BTreeMap::new(),
            processes: BTreeMap::new(),
            starts: BTreeMap::new(),
            looked: None,
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
        self.stale || self.looked.is_none_or(|t| t.elapsed() >= LOOK_AGAIN)
    }

    /// Updates the assignment for `containers` and returns whether it changed. Cgroups of the host
    /// are skipped: one that a rule names is a container.
    pub fn follow(&mut self, containers: &[Arc<Container>], pods: Pods<'_>) -> bool {
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
                    let (rule, decision) = self.decide(container, pods);
                    let told = pods.container(container);
                    Assigned {
                        container: container.clone(),
                        rule,
                        decision,
                        made_on: told.and_then(|c| c.annotations.get(MADE_ON).cloned()),
                    }
                }
            };
            next.insert(container.cgroup, assigned);
        }
        // The entries that remain belong to containers that have ended.
        changed |= !self.under.is_empty();
        if changed {
            self.labels.retain(|cgroup, _| next.contains_key(cgroup));
        }
        self.under = next;
        changed
    }

    /// Cgroups and processes that rules name. The ledger must treat them as containers whatever
    /// their network namespace, or the rule would silently have no effect.
    pub fn named(&mut self) -> Vec<Selector> {
        self.look_up();
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
            .under
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
    pub fn knows(&self, name: &str) -> bool {
        self.under.values().any(|a| a.container.name == name)
    }

    /// CPUs that rules reserve, by container.
    pub fn reserved(&self) -> BTreeMap<CgroupId, CpuAmount> {
        let amount = |a: &Assigned| match a.decision.policy.cpu {
            CpuPolicy::Strict(amount) => Some((a.container.cgroup, amount)),
            CpuPolicy::Standard => None,
        };
        self.under.values().filter_map(amount).collect()
    }

    /// Number of containers under each rule, in the order of [`Assigner::rules`].
    pub fn counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.set.len() + self.file.len()];
        for rule in self.under.values().filter_map(|a| a.rule) {
            counts[rule] += 1;
        }
        counts
    }

    /// Cgroup paths of the tracked containers.
    pub fn paths(&self) -> HashMap<CgroupId, String> {
        let path = |c: &Container| path_text(&c.cgroup_path).into_owned();
        self.under
            .values()
            .map(|a| (a.container.cgroup, path(&a.container)))
            .collect()
    }

    /// Decides the rule and the classes of a container that exists, or that its runtime is about to
    /// create.
    pub fn decide(&mut self, container: &Container, pods: Pods<'_>) -> (Option<usize>, Decision) {
        let told = pods.container(container);
        let at = self.rule_of(container, told.map(Arc::as_ref));
        let rule = at.and_then(|i| self.rules().nth(i));
        let Some(told) = told else {
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
        let claim = pods::claim(&told.pod, &told.name);
        let may_ask = pods.may_ask.allows(&told.pod.namespace);
        let decision = pods::decide(rule, claim, told, may_ask, is_pinned(told, &self.online));
        (at, decision)
    }

    /// Schedules the container with this id to be matched again.
    pub fn look_again(&mut self, id: &str) {
        self.under
            .retain(|_, a| a.container.id.as_deref() != Some(id));
    }

    /// Schedules every container to be matched again.
    pub fn look_at_all_again(&mut self) {
        self.stale = true;
    }

    /// Requests of containers that are refused, by container.
    pub fn problems(&self) -> impl Iterator<Item = (&Arc<Container>, Policy, &[Degradation])> {
        let refused = self.under.values();
        refused
            .filter(|a| !a.decision.problems.is_empty())
            .map(|a| (&a.container, a.decision.policy, &a.decision.problems[..]))
    }

    /// Whether anything on the host is, or must be, changed for a container.
    pub fn changes_host(&self) -> bool {
        let is_changed = |a: &Assigned| changes_host(&a.decision.policy) || a.made_on.is_some();
        self.under.values().any(is_changed)
    }

    /// Containers whose pods ask for latency measurement.
    pub fn measured(&self) -> Vec<Arc<Container>> {
        let asks = self.under.values().filter(|a| a.decision.measures_latency);
        let mut all: Vec<_> = asks.map(|a| a.container.clone()).collect();
        all.sort_by_key(|c| c.cgroup);
        all
    }

    fn rule_of(
        &mut self,
        container: &Container,
        told: Option<&cofferdam_nri::Container>,
    ) -> Option<usize> {
        let need_labels = self.rules().any(|r| r.matcher.needs_labels());
        let labels = match told {
            _ if !need_labels => Arc::default(),
            Some(told) => Arc::new(labels_of(told)),
            None => {
                let known = self.labels.entry(container.cgroup);
                let read = || Arc::new(cofferdam_host::labels(&self.fs, container));
                known.or_insert_with(read).clone()
            }
        };
        let known = Known {
            labels: &labels,
            namespaces: &self.namespaces,
            processes: &self.processes,
        };
        self.rules()
            .position(|r| r.matcher.matches(container, &known))
    }

    /// Resolves `netns:NAME` and `pid:N`. Schedules a new match of everything if the result
    /// changed.
    fn look_up(&mut self) {
        if self.looked.is_some_and(|t| t.elapsed() < LOOK_AGAIN) && !self.stale {
            return;
        }
        self.looked = Some(Instant::now());
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
fn labels_of(told: &cofferdam_nri::Container) -> BTreeMap<String, String> {
    let pod = &told.pod;
    let all = [
        &pod.annotations,
        &pod.labels,
        &told.annotations,
        &told.labels,
    ];
    let all = all.into_iter().flatten();
    all.map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Whether another party has pinned the container to CPUs. CPUs that the container was created on
/// because of a promise do not count, nor do all `online` CPUs, to which the agent reverts it.
fn is_pinned(told: &cofferdam_nri::Container, online: &BTreeSet<CpuId>) -> bool {
    let cpus = |list: &str| parse::cpu_list(list).map(BTreeSet::from_iter);
    let chosen = cpus(&told.resources.cpus).filter(|c: &BTreeSet<CpuId>| !c.is_empty());
    let Some(chosen) = chosen else {
        return false;
    };
    match told.annotations.get(MADE_ON) {
        Some(ours) => cpus(ours).as_ref() != Some(&chosen) && chosen != *online,
        None => true,
    }
}
