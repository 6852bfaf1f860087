//! Which container has which classes now. Matched once a container, not once a step.

use crate::config::MayAsk;
use crate::pods::{self, Decision, MADE_ON, decide};
use crate::rules::{Known, Matcher, Rule, changes_host};
use cofferdam_enforce::Wanted;
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

/// Most rules set over the socket.
pub const MOST_SET: usize = 64;
/// How often names of namespaces and processes are looked up again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The rules in force and the containers under them.
#[derive(Debug)]
pub(crate) struct Assigner {
    fs: HostFs,
    online: BTreeSet<CpuId>,
    /// Those set over the socket first, then those of the file.
    set: Vec<Rule>,
    file: Vec<Rule>,
    under: HashMap<CgroupId, Assigned>,
    labels: HashMap<CgroupId, Arc<BTreeMap<String, String>>>,
    namespaces: BTreeMap<String, NetnsId>,
    /// Cgroups of the processes that rules name, while those run.
    processes: BTreeMap<u32, PathBuf>,
    /// Start of each process that a rule names, in ticks, from the first look on: its number may be
    /// another process's later.
    starts: BTreeMap<u32, u64>,
    looked: Option<Instant>,
    /// Everything is to be matched again.
    stale: bool,
}

#[derive(Clone, Debug)]
struct Assigned {
    container: Arc<Container>,
    /// Index among all rules; `None`: no rule, observe and standard.
    rule: Option<usize>,
    /// What it gets, by that rule and its pod's annotations.
    decision: Decision,
    /// The CPUs that it was made on because of a promise.
    made_on: Option<String>,
}

/// What the runtime says of pods, and who of them may ask.
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
        if let Matcher::Selector(Selector::Pid(pid)) = rule.matcher {
            // The process that runs now is meant.
            self.starts.remove(&pid);
        }
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
        cgroups
            .chain(processes.map(|path| Selector::cgroup_at(path)))
            .collect()
    }

    /// Every container with its classes: containers without a reservation must make room for those
    /// with one.
    pub fn wanted(&self) -> Vec<Wanted> {
        let mut wanted: Vec<Wanted> = self
            .under
            .values()
            .map(|a| Wanted {
                container: a.container.clone(),
                policy: a.decision.policy,
                lends: a.decision.lends,
                made_on: a.made_on.clone(),
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

    /// Whether there is a container of this name.
    pub fn knows(&self, name: &str) -> bool {
        self.under.values().any(|a| a.container.name == name)
    }

    /// What rules reserve, by container.
    pub fn reserved(&self) -> BTreeMap<CgroupId, CpuAmount> {
        let amount = |a: &Assigned| match a.decision.policy.cpu {
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
        let path = |c: &Container| path_text(&c.cgroup_path).into_owned();
        self.under
            .values()
            .map(|a| (a.container.cgroup, path(&a.container)))
            .collect()
    }

    /// What a container gets that is there, or that its runtime is about to make.
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

    /// Something is new about the container with this id: it is matched again.
    pub fn look_again(&mut self, id: &str) {
        self.under
            .retain(|_, a| a.container.id.as_deref() != Some(id));
    }

    /// Everything is matched again.
    pub fn look_at_all_again(&mut self) {
        self.stale = true;
    }

    /// What containers asked for and do not get, by container.
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

    /// The containers whose pods ask to be measured.
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

    /// What `netns:NAME` and `pid:N` mean now; matches everything again when that changed.
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

/// Labels and annotations of a pod and of its container, the container's first.
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

/// Whether somebody has chosen CPUs for it, and not we: what it was made on because of a promise, or
/// all of `online`, which it is given back.
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
