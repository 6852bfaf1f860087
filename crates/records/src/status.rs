//! State of the agent: schema `cofferdam.status/2`, the document of `cofferdam status --json`.

use crate::diagnosis::DiagnosisRecord;
use crate::explain::Harm;
use cofferdam_types::{ContainerStatus, CpuPolicy, Degradation, NetworkCpu, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema of [`StatusReport`].
pub const STATUS: &str = "cofferdam.status/2";

/// Name of the condition of a container that pays for the packets of others.
pub const PAYS: &str = "pays_for_others";
/// Name of the condition of a container that does not get CPU time it is entitled to.
pub const LOSES: &str = "cpu_taken_by_others";
/// Least loss to others that is a condition, CPUs.
pub const SUFFERS_CPUS: f64 = 0.05;

/// The state of the running agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusReport {
    /// Always `cofferdam.status/2`.
    pub schema: String,
    /// Time of the request, RFC 3339 in UTC.
    pub time: String,
    /// The agent itself.
    pub agent: AgentRecord,
    /// The configuration in force, and whether a newer version was refused.
    pub configuration: ConfigurationRecord,
    /// Every rule, in the order in which they are tried.
    pub rules: Vec<RuleRecord>,
    /// Every container that a rule gives a class other than observe and standard, or that
    /// enforcement or reservations affect.
    pub containers: Vec<ContainerRecord>,
    /// CPU time that containers were entitled to but did not get, over roughly the last second;
    /// null if the diagnosis is off or has just started.
    pub diagnosis: Option<DiagnosisRecord>,
    /// Containers that suffer from others now, with or without a rule; largest harm first.
    #[serde(default)]
    pub conditions: Vec<ConditionRecord>,
    /// Harm among containers over the last seconds, the same for every client: `explain`, `top`,
    /// the page and `cofferdam` show it. Absent until the agent has watched for two seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harm: Option<Harm>,
    /// The history that the agent keeps; null if that is off.
    #[serde(default)]
    pub history: Option<HistoryRecord>,
    /// The connection to the container runtime; null if it is not configured.
    #[serde(default)]
    pub nri: Option<NriRecord>,
    /// Accounting mode; absent in the status of older agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounting: Option<AccountingStatusRecord>,
    /// Tracked containers, with or without a rule.
    pub containers_known: u64,
    /// Problems of the host as a whole; empty if there are none.
    pub degraded: Vec<DegradedRecord>,
    /// Changes to the host that are in force now. The agent reverts them when it stops.
    pub changes_in_force: u64,
    /// Writes to the host that failed, counted since the agent started.
    pub failed_changes: u64,
}

/// The process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentRecord {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// The systemd unit that the agent runs in; null without one.
    #[serde(default)]
    pub unit: Option<String>,
    /// Time since the agent started, seconds.
    pub uptime_s: f64,
    /// Address of the metrics, as IP:PORT; null if the agent serves none.
    pub metrics_address: Option<String>,
    /// Present length of a control step, seconds.
    pub control_period_s: f64,
    /// Duration of the last control step, including the reading, seconds.
    pub last_step_s: f64,
    /// CPU time the process has used, seconds.
    pub cpu_s: f64,
    /// Resident memory of the process, bytes.
    pub resident_bytes: u64,
}

/// Accounting mode of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccountingStatusRecord {
    /// `exact`: everything is measured. `sampled`: measured in windows, estimated between them.
    pub mode: String,
    /// Time since which the mode is in force, RFC 3339 in UTC.
    pub since: String,
    /// Reason: `quiet` (sampled), or for `exact` `starting`, `configured`, `watched` (a client
    /// reads the ledger), `pressed` (a container pays for the packets of others), `enforced`
    /// (network CPU of a container is being enforced).
    pub why: String,
    /// Length of a window, seconds.
    pub window_s: f64,
    /// Time for which one window stands, seconds.
    pub period_s: f64,
}

/// History that the agent keeps. Counted since the agent started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRecord {
    /// The file.
    pub path: String,
    /// Begin of the oldest frame in it, RFC 3339 in UTC; null while it is empty or not open.
    pub since: Option<String>,
    /// Size of the files, bytes.
    pub bytes: u64,
    /// Size at which the oldest frames are removed, bytes.
    pub limit_bytes: u64,
    /// Frames written.
    pub frames: u64,
    /// Frames that could not be written.
    pub frames_dropped: u64,
    /// Frames written late; the next frame is longer for it.
    pub frames_delayed: u64,
    /// Reason why no frame is written now; null if frames are written.
    pub error: Option<String>,
}

/// The connection to the container runtime over NRI. Counted since the agent started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NriRecord {
    /// The runtime's socket.
    pub socket: String,
    /// Whether the runtime has accepted the agent as a plugin.
    pub connected: bool,
    /// The runtime, such as `containerd`; null while not connected.
    pub runtime: Option<String>,
    /// Version of the runtime; null while not connected.
    pub version: Option<String>,
    /// Number of times that the runtime accepted the agent.
    pub sessions: u64,
    /// Tracked pods.
    pub pods: u64,
    /// Tracked containers of these pods.
    pub containers: u64,
    /// Requests of the runtime that were answered after a decision.
    pub answers: u64,
    /// Answers that took more than 2 ms.
    pub late_answers: u64,
    /// Duration of the slowest answer, seconds.
    pub slowest_answer_s: f64,
    /// Messages that could not be parsed.
    pub malformed: u64,
}

/// The configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigurationRecord {
    /// The file.
    pub path: String,
    /// False if there is no such file and the agent only observes.
    pub from_file: bool,
    /// Time when the configuration in force was read, RFC 3339 in UTC.
    pub loaded: String,
    /// Number of configurations activated, including the first.
    pub loads: u64,
    /// Number of configurations refused.
    pub refusals: u64,
    /// Reason why the newest configuration was refused; null if it is in force.
    pub refused: Option<String>,
    /// Parts of the configuration that have no effect.
    pub warnings: Vec<String>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleRecord {
    /// Line of the rule in the file; null when it was set over the socket.
    pub line: Option<u64>,
    /// Containers it applies to.
    #[serde(rename = "match")]
    pub matches: String,
    /// Classes that the rule assigns.
    #[serde(flatten)]
    pub policy: PolicyRecord,
    /// Number of containers to which the rule applies now.
    pub containers: u64,
}

/// Classes of a rule or a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyRecord {
    /// `observe` or `enforce`.
    pub network_cpu: String,
    /// `standard` or `strict`.
    pub cpu: String,
    /// CPUs reserved; null unless strict, and where a rule reserves what each container requests.
    pub cpus: Option<f64>,
}

/// One container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerRecord {
    /// Name of the container.
    pub name: String,
    /// Id of the container's cgroup.
    pub cgroup_id: u64,
    /// Path of the cgroup; null if it has just been removed.
    pub cgroup_path: Option<String>,
    /// Classes that the rules assign to it.
    #[serde(flatten)]
    pub policy: PolicyRecord,
    /// Enforcement of its network CPU; null if that is only observed.
    pub network: Option<NetworkRecord>,
    /// CPU reservation; null without one.
    pub reservation: Option<ReservationRecord>,
    /// Parts of its classes that are not in force; empty if all are.
    pub degraded: Vec<DegradedRecord>,
}

/// Network-CPU enforcement of one container, counted since it was first enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkRecord {
    /// The mechanisms, best first.
    pub means: Vec<MeansRecord>,
    /// Debt that the container has not paid yet, nanoseconds of CPU.
    pub debt_ns: u64,
    /// Debt forgiven because it reached the bound, or because no task waited any more, nanoseconds.
    pub forgiven_ns: u64,
    /// Network CPU charged to it, nanoseconds.
    pub charged_ns: u64,
    /// CPU time returned to it because it had paid for others, nanoseconds.
    pub returned_ns: u64,
    /// Packets for the container dropped at ingress.
    pub dropped_rx_packets: u64,
    /// Packets of the container dropped on transmission.
    pub dropped_tx_packets: u64,
}

/// One mechanism of enforcement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeansRecord {
    /// `napi_thread`, `weight_correction`, `quota_correction`, `ingress_drop`, `egress_drop`.
    pub means: String,
    /// Whether it is in force now.
    pub in_force: bool,
    /// Whether it is needed now but could not be activated.
    #[serde(default)]
    pub failed: bool,
    /// Reason why it is or is not in force.
    pub why: String,
}

/// A CPU reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReservationRecord {
    /// CPUs reserved for this container alone.
    pub own_cpus: Vec<u32>,
    /// The CPU on which it has a guaranteed slice; null when it has none.
    pub slice_cpu: Option<u32>,
    /// That slice, CPUs; null when it has none.
    pub slice_cpus: Option<f64>,
    /// Reserved CPUs that are lent now.
    pub lent_cpus: Vec<u32>,
    /// Number of times that a reserved CPU was lent.
    pub lendings: u64,
    /// Number of times that the runtime rewrote the cpuset and the agent corrected it.
    pub rewrites: u64,
}

/// A container that others harm, for as long as the agent has watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionRecord {
    /// `pays_for_others` or `cpu_taken_by_others`.
    pub name: String,
    /// Name of the container.
    pub container: String,
    /// Id of the container's cgroup.
    pub cgroup_id: u64,
    /// Size of the harm, CPUs, averaged over about two seconds.
    pub cpus: f64,
    /// Begin of the condition, RFC 3339 in UTC; the agent's start if the condition is older.
    pub since: String,
    /// Duration of the condition, seconds.
    pub for_s: f64,
}

/// A degradation: a request that is not in force.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct DegradedRecord {
    /// A stable short name.
    pub name: String,
    /// The request, its object, the reason and the remedy.
    pub text: String,
}

impl PolicyRecord {
    /// Record of `policy`.
    pub fn new(policy: &Policy) -> PolicyRecord {
        let (cpu, cpus) = match policy.cpu {
            CpuPolicy::Standard => ("standard", None),
            CpuPolicy::Strict(cpus) => ("strict", Some(f64::from(cpus))),
        };
        PolicyRecord {
            network_cpu: match policy.network_cpu {
                NetworkCpu::Observe => "observe",
                NetworkCpu::Enforce => "enforce",
            }
            .to_owned(),
            cpu: cpu.to_owned(),
            cpus,
        }
    }
}

impl DegradedRecord {
    /// Record of `degraded`.
    pub fn new(degraded: &Degradation) -> DegradedRecord {
        DegradedRecord {
            name: degraded.name.clone(),
            text: degraded.text.clone(),
        }
    }
}

impl ContainerRecord {
    /// Record of `status`.
    pub fn new(status: &ContainerStatus, cgroup_path: Option<String>) -> ContainerRecord {
        let network = status.network.as_ref().map(|n| NetworkRecord {
            means: n
                .means
                .iter()
                .map(|m| MeansRecord {
                    means: m.means.label().to_owned(),
                    in_force: m.in_force,
                    failed: m.failed,
                    why: m.why.clone(),
                })
                .collect(),
            debt_ns: n.debt_ns,
            forgiven_ns: n.forgiven_ns,
            charged_ns: n.charged_ns,
            returned_ns: n.returned_ns,
            dropped_rx_packets: n.dropped_rx_packets,
            dropped_tx_packets: n.dropped_tx_packets,
        });
        let reservation = status.reservation.as_ref().map(|r| ReservationRecord {
            own_cpus: r.own_cpus.iter().map(|c| c.0).collect(),
            slice_cpu: r.slice.map(|(cpu, _)| cpu.0),
            slice_cpus: r.slice.map(|(_, milli)| f64::from(milli) / 1000.0),
            lent_cpus: r.lent_cpus.iter().map(|c| c.0).collect(),
            lendings: r.lendings,
            rewrites: r.rewrites,
        });
        ContainerRecord {
            name: status.name.clone(),
            cgroup_id: status.cgroup.0,
            cgroup_path,
            policy: PolicyRecord::new(&status.policy),
            network,
            reservation,
            degraded: status.degraded.iter().map(DegradedRecord::new).collect(),
        }
    }
}
