//! Target and neighbours as pods of a cluster's node. Only the pods' manifests distinguish the
//! policies; the kubelet, the runtime and an agent of Cofferdam do the rest. Processes of the
//! benchmark in the cgroups of the pods' containers do the work.

use super::containers::{Containers, Member};
use super::ground::Ground;
use super::options::Options;
use crate::agent::process::{Agent, status_of};
use crate::cluster::{NAMESPACE, Node, PodSpec};
use crate::error::BenchError;
use crate::reservation::data::{NeighbourLimit, ReservationCell, ReservationPolicy};
use crate::scratch_folder::make_new;
use cofferdam_lab::UndoStack;
use cofferdam_lab::cgroup::{Cgroup, layout};
use cofferdam_lab::names::{CGROUP_PREFIX, DATA_ROOT};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The kubelet's CPU manager policy that grants exclusive CPUs.
const STATIC: &str = "static";
/// Memory limit of the target: the static CPU manager considers only Guaranteed pods, which need
/// one.
const TARGET_MEMORY: &str = "256Mi";
/// Time limit for the agent to connect to the runtime, and to report a pod.
const PATIENCE: Duration = Duration::from_secs(20);
/// v1 controllers of CPU time and placement.
const CONTROLLERS: [&str; 3] = ["cpu", "cpuacct", "cpuset"];

/// Pods of the benchmark, one pair after the other.
pub(super) struct Pods {
    node: Node,
    policies: Vec<ReservationPolicy>,
    containers: Option<Containers>,
    /// Path of the target's cgroup below the v2 mount.
    target: String,
    serial: u32,
    // Dropped after the containers: the agent's changes for them go with them.
    agent: Option<Agent>,
    _undo: UndoStack,
}

impl Pods {
    /// Inspects this node. Also returns notes about policies that cannot be measured on it now.
    pub fn prepare(options: &Options) -> Result<(Pods, Vec<String>), BenchError> {
        cofferdam_lab::sweep::leftovers();
        let node = Node::this()?;
        let manager = node.cpu_manager_policy()?;
        let (policies, notes) = measurable(options, &manager)?;
        let mut undo = UndoStack::default();
        let agent = match policies.iter().any(|p| is_strict(*p)) {
            true => agent(&mut undo)?,
            false => None,
        };
        let pods = Pods {
            node,
            policies,
            containers: None,
            target: String::new(),
            serial: 0,
            agent,
            _undo: undo,
        };
        Ok((pods, notes))
    }

    fn start(
        &self,
        name: &'static str,
        resources: Value,
        annotations: Value,
        undo: &mut UndoStack,
    ) -> Result<Member, BenchError> {
        let spec = PodSpec {
            name: format!(
                "{CGROUP_PREFIX}{}-r{}-{name}",
                std::process::id(),
                self.serial
            ),
            resources,
            annotations,
            ..PodSpec::default()
        };
        let pod = self.node.start(&spec, undo)?;
        let layout = layout()?;
        let membership = pod.membership(&layout)?;
        let group = Cgroup::existing(membership.path(), membership.dirs(&CONTROLLERS));
        Ok(Member::of(name, group))
    }

    /// Current status of the target from the agent.
    fn status(&self) -> Option<TargetStatus> {
        let socket = self.agent.as_ref().map(Agent::socket);
        target_status(&status_of(socket)?, &self.target)
    }

    /// Waits until the agent reports that the target has CPUs of its own.
    fn await_reservation(&self) -> Result<(), BenchError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.status() {
                Some(TargetStatus { degraded, .. }) if !degraded.is_empty() => {
                    return Err(BenchError::Unsupported(degraded.join("; ")));
                }
                Some(TargetStatus { own_cpus: 1.., .. }) => return Ok(()),
                _ if Instant::now() > deadline => {
                    return Err(BenchError::Unsupported(format!(
                        "the agent on this node does not reserve CPUs for the pod at {}: namespace \
                         '{NAMESPACE}' must be in its 'may_ask' (annotations.namespaces of the \
                         chart), and 'cofferdam status' tells the rest",
                        self.target
                    )));
                }
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Waits until the kubelet excludes the neighbours from the target's CPUs.
    fn exclusive(&self, cell: &ReservationCell) -> Result<(), BenchError> {
        let deadline = Instant::now() + PATIENCE;
        let containers = self.containers()?;
        loop {
            let own = containers.target.cpus()?;
            let others = containers.neighbours(cell).iter().map(Member::cpus);
            let others = others.collect::<Result<Vec<_>, _>>()?.concat();
            if !own.is_empty() && own.iter().all(|cpu| !others.contains(cpu)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(BenchError::Unsupported(
                    "the kubelet's static CPU manager gave the target no CPUs of its own: too few \
                     are left on this node"
                        .to_owned(),
                ));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Ground for Pods {
    fn arrange(
        &mut self,
        cell: &ReservationCell,
        policy: ReservationPolicy,
    ) -> Result<(), BenchError> {
        // The earlier pods go first: until then their requests count on the node.
        self.containers = None;
        self.serial += 1;
        let mut undo = UndoStack::default();
        // The target first: the static CPU manager moves pods off exclusive CPUs only every 10 s.
        let (resources, annotations) = target(cell, policy);
        let target = self.start("target", resources, annotations, &mut undo)?;
        self.target = target.path().display().to_string();
        let neighbours = self.start("neighbours", neighbours(cell), Value::Null, &mut undo)?;
        self.containers = Some(Containers::new(target, neighbours, undo));
        match policy {
            ReservationPolicy::CpuManager => self.exclusive(cell),
            p if is_strict(p) => self.await_reservation(),
            _ => Ok(()),
        }
    }

    fn containers(&self) -> Result<&Containers, BenchError> {
        self.containers.as_ref().ok_or_else(|| BenchError::Worker {
            worker: "target".to_owned(),
            reason: "its pod was not made".to_owned(),
        })
    }

    fn lendings(&self) -> u64 {
        self.status().map_or(0, |status| status.lendings)
    }

    fn policies(&self) -> Vec<ReservationPolicy> {
        self.policies.clone()
    }
}

/// Status of one container, from an agent.
#[derive(Debug, Default, PartialEq)]
struct TargetStatus {
    own_cpus: usize,
    lendings: u64,
    degraded: Vec<String>,
}

/// Status of the container at `path`, from the agent's `status`.
fn target_status(status: &Value, path: &str) -> Option<TargetStatus> {
    let containers = status["containers"].as_array()?;
    let it = containers
        .iter()
        .find(|c| c["cgroup_path"].as_str() == Some(path))?;
    let degraded = it["degraded"].as_array().into_iter().flatten();
    let words = degraded.filter_map(|d| d["text"].as_str().map(str::to_owned));
    let reservation = &it["reservation"];
    Some(TargetStatus {
        own_cpus: reservation["own_cpus"].as_array().map_or(0, Vec::len),
        lendings: reservation["lendings"].as_u64().unwrap_or(0),
        degraded: words.collect(),
    })
}

/// Waits for an agent that is connected to the runtime. Returns `None` for the one that runs on
/// this node, otherwise starts one of our own.
fn agent(undo: &mut UndoStack) -> Result<Option<Agent>, BenchError> {
    let own = match status_of(None) {
        Some(_) => None,
        None => {
            let dir = Path::new(DATA_ROOT).join(format!("{CGROUP_PREFIX}{}-r", std::process::id()));
            make_new(&dir)?;
            let folder = dir.clone();
            undo.push(format!("directory {}", dir.display()), move || {
                fs::remove_dir_all(&folder)
            });
            let settings =
                format!("[nri]\nsocket = \"/var/run/nri/nri.sock\"\nmay_ask = [\"{NAMESPACE}\"]\n");
            Some(Agent::start(&dir, &settings, "off")?)
        }
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = status_of(own.as_ref().map(Agent::socket)).unwrap_or_default();
        if status["nri"]["connected"] == true {
            return Ok(own);
        }
        if Instant::now() > deadline {
            let degraded = status["degraded"].as_array().into_iter().flatten();
            let words: Vec<&str> = degraded.filter_map(|d| d["text"].as_str()).collect();
            return Err(BenchError::Unsupported(format!(
                "Cofferdam's agent is not connected to the container runtime, without which no \
                 annotation has an effect: {}",
                match words.is_empty() {
                    true => "its configuration has no [nri]".to_owned(),
                    false => words.join("; "),
                }
            )));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn is_strict(policy: ReservationPolicy) -> bool {
    matches!(
        policy,
        ReservationPolicy::Strict | ReservationPolicy::Lending
    )
}

/// Separates the requested policies into the measurable ones under this CPU manager and notes about
/// the others.
///
/// # Errors
/// A policy that was requested by name cannot be measured.
fn measurable(
    options: &Options,
    manager: &str,
) -> Result<(Vec<ReservationPolicy>, Vec<String>), BenchError> {
    let can = |policy: &ReservationPolicy| match policy {
        ReservationPolicy::CpuManager => manager == STATIC,
        p if is_strict(*p) => manager != STATIC,
        _ => true,
    };
    let (these, others): (Vec<_>, Vec<_>) = options.policies().into_iter().partition(can);
    let remedy = |policy: &ReservationPolicy| {
        let wanted = match policy {
            ReservationPolicy::CpuManager => STATIC,
            _ => "none",
        };
        format!(
            "policy '{policy}' is not measured: cpuManagerPolicy of this node's kubelet is \
             '{manager}'. On a node with '{wanted}', the same command with the same --output adds \
             it"
        )
    };
    match others.iter().find(|p| options.policies.contains(p)) {
        Some(other) => Err(BenchError::Unsupported(remedy(other))),
        None => Ok((these, others.iter().map(remedy).collect())),
    }
}

/// `resources` and annotations of the target under `policy`.
fn target(cell: &ReservationCell, policy: ReservationPolicy) -> (Value, Value) {
    let cpu = millicpus(cell.reserved_cpus);
    let both = |what: Value| json!({ "requests": what, "limits": what });
    let resources = match policy {
        ReservationPolicy::Shares => json!({ "requests": { "cpu": cpu } }),
        ReservationPolicy::CpuManager => both(json!({ "cpu": cpu, "memory": TARGET_MEMORY })),
        _ => both(json!({ "cpu": cpu })),
    };
    let annotations = match policy {
        p if is_strict(p) => json!({
            "cofferdam.dev/cpu": "strict",
            "cofferdam.dev/lend": (p == ReservationPolicy::Lending).to_string(),
        }),
        _ => Value::Null,
    };
    (resources, annotations)
}

/// `resources` of the neighbours.
fn neighbours(cell: &ReservationCell) -> Value {
    let cpu = millicpus(cell.neighbour_cpus);
    match cell.limit {
        NeighbourLimit::Burstable => json!({ "requests": { "cpu": cpu } }),
        NeighbourLimit::Capped => json!({ "requests": { "cpu": cpu }, "limits": { "cpu": cpu } }),
    }
}

fn millicpus(cpus: f64) -> String {
    format!("{:.0}m", cpus * 1000.0)
}

#[cfg(test)]
mod tests;
