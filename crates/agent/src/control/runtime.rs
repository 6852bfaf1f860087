//! Events of the container runtime in the control loop: names for the inventory, promises before
//! containers are created, and the move of neighbours before they run.
//!
//! The runtime waits for each answer, so the order is: decide from memory, answer, then change the
//! host. `StartContainer` comes between the creation of a container and its first instruction: it
//! is answered when the reservations are in force.

use super::Control;
use crate::assign::Pods;
use crate::ledger::Ledger;
use crate::pods::MADE_ON;
use cofferdam_host::Introduction;
use cofferdam_nri::{Adjustment, Call, Container, Event, Pod, Resources, Update};
use cofferdam_types::{CgroupId, CpuPolicy, Runtime};
use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for the runtime at the end, after the agent has returned all CPUs to the
/// containers.
const END_WAIT: Duration = Duration::from_millis(500);
/// Name of the container that only holds a pod's namespaces.
const PAUSE: &str = "pause";

impl<L: Ledger> Control<L> {
    /// Serves the runtime. Returns whether a change must be published.
    pub(super) fn serve_runtime(&mut self, sleeper: BorrowedFd<'_>) -> bool {
        let turn = self.nri.take_turn(sleeper, Instant::now());
        if turn.lost {
            self.read_runtime_files(true);
        }
        let any = turn.lost || !turn.events.is_empty();
        for event in turn.events {
            self.handle(event);
        }
        any
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Configured { .. } | Event::Shutdown => {}
            Event::Synchronized {
                pods,
                containers,
                call,
            } => {
                self.nri.answer(call, None);
                self.synchronize(pods, containers);
            }
            Event::Pod(pod) => {
                self.introduce(vec![of_pod(&pod)]);
                self.nri.roster.add_pod(pod);
            }
            Event::PodGone(id) => {
                self.nri.roster.remove_pod(&id);
                self.readings.ledger().forget_introduced(&id);
            }
            Event::Create(container, call) => self.create(container, call),
            Event::Start(id, call) => self.start_container(&id, call),
            Event::Update(container, wanted, call) => self.update(&container.id, wanted, call),
            Event::Changed(id) => {
                self.due = Instant::now();
                self.has_open_promises |= self.has_promise(&id);
            }
            Event::Stopped(id) => self.cancel_promise(&id),
            Event::Gone(id) => {
                self.cancel_promise(&id);
                self.readings.ledger().forget_introduced(&id);
                let removed = self.nri.roster.remove(&id);
                // containerd (2.4) does not report the end of pods that it had before its restart.
                if let Some(pod) = removed.map(|c| c.pod.id.clone())
                    && !self.nri.roster.has_containers(&pod)
                {
                    self.nri.roster.remove_pod(&pod);
                    self.readings.ledger().forget_introduced(&pod);
                }
            }
            Event::Updated { failed, error } => {
                for id in failed {
                    tracing::warn!("NRI: container {id} was not updated");
                }
                if let Some(error) = error {
                    tracing::warn!("NRI: containers were not updated: {error}");
                }
            }
        }
    }

    /// Replaces the runtime records by this complete list.
    fn synchronize(&mut self, pods: Vec<Arc<Pod>>, containers: Vec<Container>) {
        self.read_runtime_files(false);
        let mut all: Vec<Introduction> = pods.iter().map(|p| of_pod(p)).collect();
        all.extend(containers.iter().map(of_container));
        let alive: HashSet<&str> = containers.iter().map(|c| c.id.as_str()).collect();
        let open: Vec<String> = self.promised.keys().cloned().collect();
        for id in open.iter().filter(|id| !alive.contains(id.as_str())) {
            self.cancel_promise(id);
        }
        self.nri.roster.replace(pods, containers);
        self.introduce(all);
        self.assigner.match_all_again();
        // Apply the rules at once, not a step later.
        self.due = Instant::now();
    }

    /// Handles a container that is about to be created. Neighbours leave its CPUs later, before it
    /// runs: other containers may wait for an answer now.
    fn create(&mut self, mut container: Container, call: Call) {
        if self.nri.roster.pod(&container.pod.id).is_none() {
            self.nri.roster.add_pod(container.pod.clone());
        }
        let added = self.nri.roster.add(container.clone());
        let before = self.expected_container(&container);
        let pods = Pods {
            roster: &self.nri.roster,
            may_ask: &self.config.nri.may_ask,
        };
        let (_, decision) = self.assigner.decide(&before, pods);
        let promised = match decision.policy.cpu {
            CpuPolicy::Strict(amount) if added.is_some() => {
                if self.effects.is_none() {
                    self.open_effects();
                }
                let effects = self.effects.as_mut();
                effects.and_then(|e| {
                    let promised = e.promise(&container.id, &before.cgroup_path, amount);
                    promised.ok()
                })
            }
            _ => None,
        };
        let adjustment = promised.clone().map(|cpus| Adjustment {
            annotations: vec![(MADE_ON.to_owned(), cpus.clone())],
            cpus,
        });
        self.nri.answer(call, adjustment);
        self.introduce(vec![of_container(&container)]);
        let Some(cpus) = promised else {
            return;
        };
        self.has_open_promises = true;
        self.promised.insert(container.id.clone(), cpus.clone());
        container.annotations.insert(MADE_ON.to_owned(), cpus);
        self.nri.roster.add(container);
    }

    /// Handles a created container that is about to run.
    fn start_container(&mut self, id: &str, call: Call) {
        let reserves = self.effects.as_ref().is_some_and(|e| e.reserves());
        if reserves || self.promised.contains_key(id) {
            // The cgroup exists: the inventory has an unread event of it.
            let now = Instant::now();
            let (_waker, sleeper) = match crate::wake::pair() {
                Ok(pair) => pair,
                Err(_) => return self.nri.answer(call, None),
            };
            if let Err(error) = self.readings.ledger().follow(now, sleeper.fd()) {
                let _ = self.note_failed_reading(error);
            }
            let containers = self.readings.containers();
            self.follow_rules(&containers);
            self.apply_promises();
        }
        self.promised.remove(id);
        self.nri.answer(call, None);
    }

    /// Handles a change of a container's resources, in place or by the kubelet's CPU manager.
    fn update(&mut self, id: &str, wanted: Resources, call: Call) {
        self.nri.answer(call, None);
        let current = self.nri.roster.container(id).map(|c| c.resources.clone());
        if current.as_ref() != Some(&wanted) && self.nri.roster.set_resources(id, wanted).is_some()
        {
            self.assigner.match_again(id);
            // The runtime must write the requested resources first.
            self.followed = None;
            self.due = self.due.min(Instant::now() + super::PUBLISH_INTERVAL);
        }
    }

    fn cancel_promise(&mut self, id: &str) {
        self.promised.remove(id);
        if let Some(effects) = &mut self.effects {
            self.has_open_promises |= effects.cancel_promise(id);
        }
    }

    /// Whether the runtime may have overwritten a part of the container's reservation.
    fn has_promise(&self, id: &str) -> bool {
        let record = self.nri.roster.container(id);
        record.is_some_and(|c| c.annotations.contains_key(MADE_ON))
    }

    /// Applies the promises made or withdrawn since the last call to the host.
    pub(super) fn apply_promises(&mut self) {
        if std::mem::take(&mut self.has_open_promises)
            && let Some(effects) = &mut self.effects
        {
            effects.apply_promises();
        }
    }

    fn introduce(&mut self, containers: Vec<Introduction>) {
        if let Err(error) = self.readings.ledger().introduce(containers) {
            let _ = self.note_failed_reading(error);
        }
    }

    pub(super) fn read_runtime_files(&mut self, read: bool) {
        if let Err(error) = self.readings.ledger().read_runtime_files(read) {
            let _ = self.note_failed_reading(error);
        }
    }

    /// Container as the inventory will describe it once it exists.
    fn expected_container(&self, container: &Container) -> cofferdam_types::Container {
        let path = cgroup_path(&container.cgroups_path).unwrap_or_default();
        cofferdam_types::Container {
            id: Some(container.id.clone()),
            runtime: Runtime::Containerd,
            pod: Some(container.pod.full_name()),
            ..cofferdam_types::Container::plain(CgroupId(0), path, container.name.clone())
        }
    }

    /// Reports to the runtime that containers have their original CPUs again. Otherwise it would
    /// write the old CPUs with the next change.
    pub(super) fn leave_runtime(&mut self, sleeper: BorrowedFd<'_>) {
        let cpus = cofferdam_host::online_cpus(&cofferdam_host::HostFs::host());
        let cpus: Vec<String> = cpus
            .unwrap_or_default()
            .iter()
            .map(|c| c.to_string())
            .collect();
        let containers = self.nri.roster.containers();
        let containers =
            containers.filter(|c| !c.is_stopped && c.annotations.contains_key(MADE_ON));
        let updates: Vec<Update> = containers
            .map(|c| Update {
                container: c.id.clone(),
                cpus: cpus.join(","),
            })
            .collect();
        if updates.is_empty() || cpus.is_empty() {
            return;
        }
        self.nri.update(&updates);
        let until = Instant::now() + END_WAIT;
        while Instant::now() < until && self.nri.is_connected() {
            let turn = self.nri.take_turn(sleeper, Instant::now());
            for event in turn.events {
                match event {
                    Event::Updated { .. } => return,
                    Event::Create(_, call) | Event::Start(_, call) | Event::Update(_, _, call) => {
                        self.nri.answer(call, None);
                    }
                    _ => {}
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn of_pod(pod: &Pod) -> Introduction {
    Introduction {
        id: pod.id.clone(),
        name: PAUSE.to_owned(),
        pod: Some(pod.full_name()),
        cgroup_path: None,
    }
}

fn of_container(container: &Container) -> Introduction {
    Introduction {
        id: container.id.clone(),
        name: container.name.clone(),
        pod: Some(container.pod.full_name()),
        cgroup_path: cgroup_path(&container.cgroups_path),
    }
}

/// Path at which a runtime creates a cgroup. `asked` is a path, or `SLICE:PREFIX:NAME` for systemd.
fn cgroup_path(requested: &str) -> Option<PathBuf> {
    let mut parts = requested.split(':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(path), None, ..) if path.starts_with('/') => Some(path.into()),
        (Some(slice), Some(prefix), Some(name), None) => {
            let stem = slice.strip_suffix(".slice")?;
            let mut path = PathBuf::from("/");
            // `a-b.slice` is in `a.slice`.
            for (at, _) in stem.match_indices('-') {
                path.push(format!("{}.slice", &stem[..at]));
            }
            path.push(slice);
            path.push(format!("{prefix}-{name}.scope"));
            Some(path)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_where_either_driver_makes_it() {
        for (requested, path) in [
            ("/kubepods/pod1/abc", Some("/kubepods/pod1/abc")),
            (
                "kubepods-burstable-pod1.slice:cri-containerd:abc",
                Some(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/\
                     cri-containerd-abc.scope",
                ),
            ),
            ("", None),
            ("a:b", None),
            ("a:b:c:d", None),
        ] {
            assert_eq!(
                cgroup_path(requested),
                path.map(PathBuf::from),
                "{requested}"
            );
        }
    }
}
