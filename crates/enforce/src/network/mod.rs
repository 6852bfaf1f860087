//! Network-CPU enforcement (Iron): charges the offender, repays its victims, and stops a container
//! that has used up its share.
//!
//! The agent changes nothing for a container until its packets are charged to others, or count
//! against its own quota. Then it applies the best means that the host offers, and keeps them for a
//! while.
//!
//! A step observes (`observe/`, files), decides (`policy/`, pure), and acts (`means/`, through the
//! journal).

mod means;
mod observe;
mod place;
mod pods;
mod policy;
mod status;

use crate::journal::{Journal, RevertReport};
use crate::tuning::network as tuning;
use cofferdam_host::CgroupLayout;
use cofferdam_types::{CgroupId, Container, Interval, Means};
use means::AppliedMeans;
use observe::{ContainerReadings, Observer};
use place::PlacedContainer;
use pods::Pods;
use policy::{Action, Facts, Policy, Rules};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Settings of network-CPU enforcement.
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// Means that may be used; default all.
    pub means: Vec<Means>,
    /// Whether NAPI threads run in the container's cgroup; default true.
    pub napi_in_container: bool,
    /// Largest debt of a container, in CPU time; default 1 s.
    pub debt_bound: Duration,
    /// Cost of one interrupt to the task that it stops, beyond the time that the ledger sees. By
    /// default measured on this host when first needed.
    pub interruption: Option<Duration>,
    /// Time that the means stay in place without victims; default 30 s.
    pub linger: Duration,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        NetworkOptions {
            means: Means::ALL.to_vec(),
            napi_in_container: true,
            debt_bound: Duration::from_secs(1),
            interruption: None,
            linger: Duration::from_secs(30),
        }
    }
}

/// Enforcement of network CPU on this host.
pub(crate) struct NetworkEnforcer {
    interruption: Option<Duration>,
    layout: CgroupLayout,
    /// Beginning of the policy's time.
    began: Instant,
    pods: Pods,
    /// Enforced containers and pods, by the cgroup that is enforced.
    members: BTreeMap<CgroupId, Member>,
    policy: Policy,
    observer: Observer,
    means: means::Means,
    needs_close_steps: bool,
}

/// Enforced container or pod: its files, their last readings, and the changes applied to it.
#[derive(Debug)]
struct Member {
    placed: PlacedContainer,
    readings: ContainerReadings,
    applied: AppliedMeans,
}

impl NetworkEnforcer {
    pub fn new(options: NetworkOptions, layout: CgroupLayout) -> NetworkEnforcer {
        NetworkEnforcer {
            interruption: options.interruption,
            layout,
            began: Instant::now(),
            pods: Pods::default(),
            members: BTreeMap::new(),
            means: means::Means::new(options.napi_in_container),
            policy: Policy::new(Rules {
                means: options.means,
                napi_in_container: options.napi_in_container,
                debt_bound: options.debt_bound,
                linger: options.linger,
            }),
            observer: Observer::new(),
            needs_close_steps: false,
        }
    }

    /// Replaces the list of enforced containers; any order. The CPU reservations own the weights of
    /// the containers in `reserved`.
    pub fn set(
        &mut self,
        journal: &mut Journal,
        wanted: &[Arc<Container>],
        reserved: &HashSet<CgroupId>,
    ) {
        if !wanted.is_empty() {
            self.observer.prepare(self.interruption);
        }
        let wanted = &self.pods.follow(&self.layout, wanted, reserved)[..];
        let reserved = &self.pods.reserved(reserved);
        let keep: HashSet<CgroupId> = wanted.iter().map(|c| c.cgroup).collect();
        let ids = self.members.keys().copied();
        let removed: Vec<CgroupId> = ids.filter(|id| !keep.contains(id)).collect();
        for mut member in removed.iter().filter_map(|id| self.members.remove(id)) {
            let container = &member.placed.container;
            self.means.revert(journal, container, &mut member.applied);
        }
        for container in wanted {
            self.add_or_update(journal, container);
        }
        for member in self.members.values_mut() {
            if reserved.contains(&member.placed.container.cgroup) {
                member.applied.weight.revert(journal);
            }
        }
        self.policy.set(wanted, reserved);
        self.means.retain_gates(wanted);
    }

    /// Adds a container, or updates one that has changed.
    fn add_or_update(&mut self, journal: &mut Journal, container: &Arc<Container>) {
        let member = self.members.get_mut(&container.cgroup);
        let pod = self.pods.get(container.cgroup);
        if let Some(member) = &member
            && Arc::ptr_eq(&member.placed.container, container)
            && pod.is_none()
        {
            return;
        }
        let rules = &self.policy.rules;
        if rules.may(Means::IngressDrop) || rules.may(Means::EgressDrop) {
            self.means.ingress.prepare(container);
        }
        let placed = PlacedContainer::find(&self.layout, container, pod);
        match member {
            Some(member) => {
                let moved = member.placed.container.netns != container.netns;
                member.placed = placed;
                let napi = &mut member.applied.napi;
                self.means.remove_napi(journal, container, napi, moved);
            }
            None => {
                let new = Member {
                    placed,
                    readings: ContainerReadings::default(),
                    applied: AppliedMeans::default(),
                };
                self.members.insert(container.cgroup, new);
            }
        }
    }

    /// Whether the next step must follow soon: a container is enforced.
    pub fn needs_close_steps(&self) -> bool {
        self.needs_close_steps
    }

    /// Whether the next step should read the containers' CPU use: a competitor has appeared whose
    /// use is unknown.
    pub fn needs_usage(&self) -> bool {
        self.needs_close_steps && self.policy.needs_usage()
    }

    /// Whether a step on this interval might act. That needs an enforced container that causes
    /// work, and either victims or a quota that its packets count against. It may return true
    /// without need, but never false if a step would act.
    pub fn may_act_on(&self, interval: &Interval) -> bool {
        let interval = self.pods.fold(interval);
        let length_ns = interval.length.as_nanos() as f64;
        let mut rows = interval.containers.iter();
        rows.any(|row| {
            let Some(member) = self.members.get(&row.container.cgroup) else {
                return false;
            };
            let causes = |ns: u64, cpus: f64| ns as f64 > tuning::CAUSES_CPUS * cpus * length_ns;
            let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
            let presses = columns.enumerate().any(|(cpu, (caused, own))| {
                let others = charged_on(&interval, cpu).saturating_sub(*own);
                causes(*caused, 1.0) && others as f64 > tuning::VICTIM_CPUS * length_ns
            });
            // Only for the few containers that cause work: this reads files.
            let caused = row.ledger.caused_ns();
            presses
                || caused > 0
                    && (member.placed.place.tightest_quota(None))
                        .is_some_and(|cpus| causes(caused, cpus))
        })
    }

    /// Acts on `interval`, which ends now.
    pub fn step(&mut self, journal: &mut Journal, interval: &Interval) {
        self.means.finish_removals(journal, false);
        self.needs_close_steps = false;
        if interval.length.is_zero() {
            return;
        }
        let now = self.began.elapsed();
        let pods = std::mem::take(&mut self.pods);
        self.step_by_pod(journal, &pods.fold(interval), now);
        self.pods = pods;
    }

    /// Acts on an interval in which pods replace their containers.
    fn step_by_pod(&mut self, journal: &mut Journal, interval: &Interval, now: Duration) {
        let measured_cpu = self.observer.measured_cpu();
        let active = self.policy.attention(now, interval, measured_cpu);
        if !active.is_empty() {
            let facts = self.observe(journal, now, interval, active);
            let decision = self.policy.decide(&facts);
            for (cgroup, action) in &decision.containers {
                let Some(member) = self.members.get_mut(cgroup) else {
                    continue;
                };
                let (placed, applied) = (&member.placed, &mut member.applied);
                match action {
                    Action::Nothing => {}
                    Action::Revert => self.means.revert(journal, &placed.container, applied),
                    Action::Enforce(settings) => {
                        self.needs_close_steps = true;
                        self.means.apply(journal, placed, applied, settings, now);
                    }
                }
            }
            // Starting NAPI threads takes long. It comes last, and one container per step, so that
            // many offenders do not stall the control loop.
            let mut may_start = true;
            for (cgroup, action) in decision.containers {
                if let (Action::Enforce(settings), Some(member)) =
                    (action, self.members.get_mut(&cgroup))
                {
                    let (placed, napi) = (&member.placed, &mut member.applied.napi);
                    let means = &mut self.means;
                    may_start &= !means.place_napi(journal, placed, napi, settings.napi, may_start);
                }
            }
        }
        self.policy.note_victims(interval);
    }

    /// Reads what the decision about `active` needs.
    fn observe<'a>(
        &mut self,
        journal: &mut Journal,
        now: Duration,
        interval: &'a Interval,
        active: Vec<policy::Active>,
    ) -> Facts<'a> {
        let host = self.observer.read_host(interval);
        self.means.note_host_ends(interval);
        let wanted = self.policy.weights_wanted(&host.idle, &active);
        let members = self.members.values_mut();
        let members = members.map(|m| (&m.placed, &mut m.applied));
        let weights = self.observer.weights(&self.layout, wanted, members);
        let mut containers = Vec::with_capacity(active.len());
        for container in active {
            if let Some(member) = self.members.get_mut(&container.cgroup) {
                let (readings, applied) = (&mut member.readings, &mut member.applied);
                applied.napi.arrive(journal);
                containers.push(observe::container(
                    &member.placed,
                    readings,
                    applied,
                    &mut self.means,
                    container,
                    interval.length,
                ));
            }
        }
        let mut open = 0;
        let members = self.members.values_mut();
        members.for_each(|member| member.readings.limit_open_files(&mut open));
        let under_quota = containers.iter().any(|c| c.quota_cpus.is_some());
        Facts {
            now,
            interval,
            interruptions: host.interruptions,
            late_ns: host.late_ns,
            weights,
            quota_stops_threads: under_quota && self.observer.quota_stops_threads(),
            containers,
        }
    }

    /// Reverts all changes for NAPI threads, and waits for the threads that are still leaving. When
    /// it returns, no change for a NAPI thread is pending.
    pub fn revert_napi_threads(&mut self, journal: &mut Journal) -> RevertReport {
        for member in self.members.values_mut() {
            let napi = &mut member.applied.napi;
            self.means
                .remove_napi(journal, &member.placed.container, napi, true);
        }
        self.means.finish_removals(journal, true)
    }
}

/// Network CPU charged on the interval's `cpu`th CPU, to all containers and host tasks,
/// nanoseconds.
fn charged_on(interval: &Interval, cpu: usize) -> u64 {
    let rows = interval.containers.iter();
    let by_container = rows.filter_map(|row| row.charged_by_cpu_ns.get(cpu));
    let host = interval.cpus.get(cpu);
    by_container.sum::<u64>() + host.map_or(0, |(_, time)| time.charged_host_ns)
}
