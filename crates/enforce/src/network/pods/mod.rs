//! Containers that share a network namespace are enforced as one: a pod. Its interfaces and
//! addresses belong to none of them alone. A lower weight of one container does not help other pods
//! unless its own pod's containers compete with it.
//!
//! For the policy and the means a pod is one container in the pod's cgroup: the cgroup above its
//! containers, which a kubelet or podman creates. Without one (docker's `--network container:`),
//! one of the containers represents all.

use cofferdam_host::CgroupLayout;
use cofferdam_types::{CgroupId, Container, ContainerLedger, Interval, NetnsId};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Length of a static pod's ID; a UID has 36 characters.
const SHORTEST_ID: usize = 32;

/// Pods among the enforced containers.
#[derive(Debug, Default)]
pub(super) struct Pods {
    pods: BTreeMap<CgroupId, Pod>,
    /// Pod of each enforced container that is in one.
    of: HashMap<CgroupId, CgroupId>,
    /// Pods by namespace, for containers without a rule.
    by_netns: HashMap<NetnsId, Vec<CgroupId>>,
}

#[derive(Debug)]
struct Pod {
    /// Pod as the policy sees it.
    container: Arc<Container>,
    /// Container that represents the pod in `status`.
    lead: Arc<Container>,
    /// Container with reserved CPUs: the pod's packets belong on them too.
    pinned: Option<Arc<Container>>,
    /// Whether the cgroup is the pod's own, not its lead's.
    has_cgroup: bool,
}

/// Properties of a pod that affect its enforcement.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodShape<'a> {
    /// Whether it has a cgroup of its own, above its containers.
    pub has_cgroup: bool,
    /// Container of the pod with reserved CPUs.
    pub pinned: Option<&'a Container>,
}

impl Pods {
    /// Groups the enforced containers `wanted` into pods; containers in `reserved` have reserved
    /// CPUs. Returns what is enforced: pods, and containers with a namespace of their own.
    pub fn follow(
        &mut self,
        layout: &CgroupLayout,
        wanted: &[Arc<Container>],
        reserved: &HashSet<CgroupId>,
    ) -> Vec<Arc<Container>> {
        self.group(wanted, reserved, |path| {
            let directory = fs::metadata(layout.v2_directory(path)).ok()?;
            Some(CgroupId(directory.ino()))
        })
    }

    /// Groups the containers; `id` returns the ID of the cgroup at a path.
    fn group(
        &mut self,
        wanted: &[Arc<Container>],
        reserved: &HashSet<CgroupId>,
        id: impl Fn(&Path) -> Option<CgroupId>,
    ) -> Vec<Arc<Container>> {
        let before = std::mem::take(self);
        let mut sharers: BTreeMap<(NetnsId, Option<PathBuf>), Vec<&Arc<Container>>> =
            BTreeMap::new();
        let mut units = Vec::with_capacity(wanted.len());
        for container in wanted {
            match container.netns.filter(|_| may_be_in_pod(container)) {
                // In the host's namespace only cgroups distinguish pods.
                Some(netns) if container.host_network => {
                    let above = container.cgroup_path.parent().map(Path::to_owned);
                    sharers.entry((netns, above)).or_default().push(container);
                }
                Some(netns) => sharers.entry((netns, None)).or_default().push(container),
                None => units.push(container.clone()),
            }
        }
        for ((netns, _), members) in sharers {
            let lead = lead(&members);
            let own = common_parent(&members).filter(|path| is_pods(path));
            let own = own.and_then(|path| Some((id(path)?, path.to_owned())));
            if own.is_none() && (members.len() == 1 || lead.host_network) {
                units.extend(members.into_iter().cloned());
                continue;
            }
            let has_cgroup = own.is_some();
            let (id, path) = own.unwrap_or_else(|| (lead.cgroup, lead.cgroup_path.clone()));
            let container = merge(id, path, lead, &members);
            let previous = before.pods.get(&id).map(|pod| &pod.container);
            let container = match previous.filter(|previous| ***previous == container) {
                Some(previous) => previous.clone(),
                None => Arc::new(container),
            };
            units.push(container.clone());
            self.of.extend(members.iter().map(|m| (m.cgroup, id)));
            self.by_netns.entry(netns).or_default().push(id);
            let pod = Pod {
                container,
                lead: lead.clone(),
                pinned: members
                    .iter()
                    .find(|m| reserved.contains(&m.cgroup))
                    .map(|m| Arc::clone(m)),
                has_cgroup,
            };
            self.pods.insert(id, pod);
        }
        units
    }

    /// Cgroups of `reserved` and of their pods.
    pub fn reserved(&self, reserved: &HashSet<CgroupId>) -> HashSet<CgroupId> {
        let pods = reserved.iter().filter_map(|id| self.of.get(id));
        reserved.iter().chain(pods).copied().collect()
    }

    /// Cgroup by which an enforced container is enforced.
    pub fn enforced_as(&self, cgroup: CgroupId) -> CgroupId {
        self.of.get(&cgroup).copied().unwrap_or(cgroup)
    }

    /// Container that reports the state of this one's pod, if it is another: sums over all
    /// containers count a pod once.
    pub fn reported_by(&self, cgroup: CgroupId) -> Option<&Container> {
        let pod = self.of.get(&cgroup).and_then(|id| self.pods.get(id))?;
        (pod.lead.cgroup != cgroup).then_some(&*pod.lead)
    }

    /// Properties of the pod with the cgroup `cgroup`, if it is one.
    pub fn get(&self, cgroup: CgroupId) -> Option<PodShape<'_>> {
        self.pods.get(&cgroup).map(|pod| PodShape {
            has_cgroup: pod.has_cgroup,
            pinned: pod.pinned.as_deref(),
        })
    }

    /// Returns the interval with one row per pod.
    pub fn fold<'a>(&self, interval: &'a Interval) -> Cow<'a, Interval> {
        if self.pods.is_empty() {
            return Cow::Borrowed(interval);
        }
        let mut rows: Vec<ContainerLedger> = Vec::with_capacity(interval.containers.len());
        let mut at: HashMap<CgroupId, usize> = HashMap::new();
        for row in &interval.containers {
            let Some((id, pod)) = self.pod_of(&row.container) else {
                rows.push(row.clone());
                continue;
            };
            match at.get(&id).and_then(|at| rows.get_mut(*at)) {
                Some(sum) => add(sum, row),
                None => {
                    at.insert(id, rows.len());
                    rows.push(ContainerLedger {
                        container: pod.container.clone(),
                        ..row.clone()
                    });
                }
            }
        }
        Cow::Owned(Interval {
            containers: rows,
            cpus: interval.cpus.clone(),
            unattributed_ns: interval.unattributed_ns.clone(),
            sampling: interval.sampling.clone(),
            ..*interval
        })
    }

    /// Pod of a container, with or without a rule.
    fn pod_of(&self, container: &Container) -> Option<(CgroupId, &Pod)> {
        if let Some(id) = self.of.get(&container.cgroup) {
            return Some((*id, self.pods.get(id)?));
        }
        let ids = self.by_netns.get(&container.netns?)?;
        let pods = ids.iter().filter_map(|id| Some((*id, self.pods.get(id)?)));
        let mut within = pods.filter(|(_, pod)| match pod.has_cgroup {
            true => container
                .cgroup_path
                .starts_with(&pod.container.cgroup_path),
            false => !container.host_network,
        });
        within.next()
    }
}

/// Whether a container may be in a pod: no host cgroup is, and in the host's namespace only a
/// kubelet's containers are.
fn may_be_in_pod(container: &Container) -> bool {
    !container.is_of_host() && (!container.host_network || container.pod.is_some())
}

/// Container that represents a pod: not the sandbox if possible, then the first by name, which is
/// stable.
fn lead<'a>(members: &[&'a Arc<Container>]) -> &'a Arc<Container> {
    let order = |c: &&&'a Arc<Container>| (c.is_sandbox(), c.name.clone(), c.cgroup);
    let first = members.iter().min_by_key(order);
    first.expect("a pod has a container")
}

fn common_parent<'a>(members: &[&'a Arc<Container>]) -> Option<&'a Path> {
    let mut parents = members.iter().map(|c| c.cgroup_path.parent());
    let first = parents.next()??;
    let same = parents.all(|parent| parent == Some(first));
    (same && first.parent().is_some()).then_some(first)
}

/// Whether the cgroup at `path` belongs to one pod. A kubelet names it `podUID` (or
/// `…-podUID.slice`; a static pod has a hash), podman `libpod_parent/ID` or
/// `…-libpod_pod_ID.slice`.
fn is_pods(path: &Path) -> bool {
    let name = |path: &Path| path.file_name().and_then(OsStr::to_str).map(str::to_owned);
    let Some(own) = name(path) else { return false };
    let above = path.parent().and_then(name);
    let id = match (own.strip_suffix(".slice").unwrap_or(&own), above.as_deref()) {
        (id, Some("libpod_parent")) => id,
        (name, _) => match name.rsplit_once("pod") {
            Some((_, id)) => id.trim_start_matches('_'),
            None => return false,
        },
    };
    let is_digit = |c: char| c.is_ascii_hexdigit() || c == '-' || c == '_';
    id.len() >= SHORTEST_ID && id.chars().all(is_digit)
}

fn merge(
    cgroup: CgroupId,
    cgroup_path: PathBuf,
    lead: &Container,
    members: &[&Arc<Container>],
) -> Container {
    let cgroups = members
        .iter()
        .flat_map(|m| m.descendants.iter().chain([&m.cgroup]));
    let mut descendants: Vec<CgroupId> = cgroups.copied().filter(|id| *id != cgroup).collect();
    descendants.sort_unstable();
    let with_interfaces = members.iter().find(|m| !m.interfaces.is_empty());
    Container {
        cgroup,
        cgroup_path,
        descendants,
        name: lead.pod.clone().unwrap_or_else(|| lead.name.clone()),
        pid: lead.pid.or_else(|| members.iter().find_map(|m| m.pid)),
        interfaces: with_interfaces.map_or_else(Vec::new, |m| m.interfaces.clone()),
        ..lead.clone()
    }
}

/// Adds the counts of another container of the same pod.
fn add(sum: &mut ContainerLedger, row: &ContainerLedger) {
    sum.ledger += row.ledger;
    for (column, other) in [
        (&mut sum.caused_by_cpu_ns, &row.caused_by_cpu_ns),
        (&mut sum.charged_by_cpu_ns, &row.charged_by_cpu_ns),
        (&mut sum.interruptions_by_cpu, &row.interruptions_by_cpu),
    ] {
        column.resize(column.len().max(other.len()), 0);
        for (count, more) in column.iter_mut().zip(other) {
            *count += more;
        }
    }
    for (sender, packets) in &row.received_from {
        *sum.received_from.entry(*sender).or_default() += packets;
    }
}

#[cfg(test)]
mod tests;
