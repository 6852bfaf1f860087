//! What the agent says of itself: schema `cofferdam.status/1`, the document of
//! `cofferdam status --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema of [`StatusReport`].
pub const STATUS: &str = "cofferdam.status/1";

/// The state of the running agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusReport {
    /// Always `cofferdam.status/1`.
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
    /// empty if the diagnosis is off.
    pub losses: Vec<LossRecord>,
    /// The host as a whole over the same time; null if the diagnosis is off or has just started.
    pub diagnosis: Option<HostLossRecord>,
    /// Known containers, with or without a rule.
    pub containers_known: u64,
    /// Problems of the host as a whole; empty if there are none.
    pub degraded: Vec<DegradedRecord>,
    /// Changes to the host in force, which are reverted when the agent stops.
    pub changes_in_force: u64,
    /// Writes to the host that failed, counted since the agent started.
    pub failed_changes: u64,
}

/// The process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentRecord {
    /// Version of the program.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Time since its start, seconds.
    pub uptime_s: f64,
    /// Address of its metrics, as IP:PORT; null if it serves none.
    pub metrics_address: Option<String>,
    /// Length of a control step in force now, seconds.
    pub control_period_s: f64,
    /// Duration of the last control step, including the reading, seconds.
    pub last_step_s: f64,
    /// CPU time the process has used, seconds.
    pub cpu_s: f64,
    /// Resident memory of the process, bytes.
    pub resident_bytes: u64,
}

/// The configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigurationRecord {
    /// The file.
    pub path: String,
    /// False if there is no such file and the agent only observes.
    pub from_file: bool,
    /// When the configuration in force was read, RFC 3339 in UTC.
    pub loaded: String,
    /// Number of configurations activated, including the first.
    pub loads: u64,
    /// Times a configuration was refused.
    pub refusals: u64,
    /// Why the newest configuration was refused; null if it is in force.
    pub refused: Option<String>,
    /// Parts of it that have no effect.
    pub warnings: Vec<String>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleRecord {
    /// Its line in the file; null when it was set over the socket.
    pub line: Option<u64>,
    /// Containers it applies to.
    #[serde(rename = "match")]
    pub matches: String,
    /// The classes it gives.
    #[serde(flatten)]
    pub policy: PolicyRecord,
    /// Containers under it now.
    pub containers: u64,
}

/// Classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyRecord {
    /// `observe` or `enforce`.
    pub network_cpu: String,
    /// `standard` or `strict`.
    pub cpu: String,
    /// CPUs reserved; null unless strict.
    pub cpus: Option<f64>,
}

/// One container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerRecord {
    /// Its name.
    pub name: String,
    /// Id of its cgroup.
    pub cgroup_id: u64,
    /// Path of its cgroup; null if it has just been removed.
    pub cgroup_path: Option<String>,
    /// The classes it shall have.
    #[serde(flatten)]
    pub policy: PolicyRecord,
    /// The enforcement of its network CPU; null if it is only observed.
    pub network: Option<NetworkRecord>,
    /// Its CPU reservation; null if it has none.
    pub reservation: Option<ReservationRecord>,
    /// Parts of its classes that are not in force; empty if all are.
    pub degraded: Vec<DegradedRecord>,
}

/// Network-CPU enforcement of one container, counted since it was first enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkRecord {
    /// The mechanisms, best first.
    pub means: Vec<MeansRecord>,
    /// CPU time that it owes and has not repaid, nanoseconds.
    pub debt_ns: u64,
    /// Debt forgiven because it reached the bound, nanoseconds.
    pub forgiven_ns: u64,
    /// Network CPU charged to it, nanoseconds.
    pub charged_ns: u64,
    /// CPU time returned to it because it had paid for others, nanoseconds.
    pub returned_ns: u64,
    /// Its packets dropped at ingress.
    pub dropped_rx_packets: u64,
    /// Its packets dropped on transmission.
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
    /// Why it is or is not in force.
    pub why: String,
}

/// A CPU reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReservationRecord {
    /// CPUs that are its own.
    pub own_cpus: Vec<u32>,
    /// The CPU on which it has a guaranteed slice; null when it has none.
    pub slice_cpu: Option<u32>,
    /// That slice, CPUs; null when it has none.
    pub slice_cpus: Option<f64>,
    /// Those of its CPUs that are currently lent.
    pub lent_cpus: Vec<u32>,
    /// Times a CPU of its own was lent.
    pub lendings: u64,
    /// Times its runtime had rewritten its cpuset and it was corrected.
    pub rewrites: u64,
}

/// The CPU time of one container over the last interval of the diagnosis. The four losses add up to
/// entitled_ns − got_ns if that is positive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossRecord {
    /// Its name.
    pub name: String,
    /// Id of its cgroup.
    pub cgroup_id: u64,
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// Where the entitlement comes from: `reserved`, `weight`, `quota` or `cpuset`.
    pub entitlement: String,
    /// CPU time that it was entitled to, nanoseconds.
    pub entitled_ns: u64,
    /// CPU time that it got, nanoseconds.
    pub got_ns: u64,
    /// Lost to forced runqueue sharing, nanoseconds.
    pub forced_sharing_ns: u64,
    /// Lost as phantom CPU time, nanoseconds.
    pub phantom_ns: u64,
    /// Lost to its own quota, nanoseconds.
    pub throttled_ns: u64,
    /// Lost for lack of a runnable thread, nanoseconds.
    pub lack_ns: u64,
    /// What it waited behind most, `the host` or a container; null if it did not wait.
    pub neighbour: Option<String>,
}

/// The CPUs of the host over the last interval of the diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostLossRecord {
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// Idle time of all CPUs, nanoseconds.
    pub idle_ns: u64,
    /// The part of it that followed the throttling of a container, nanoseconds.
    pub left_idle_ns: u64,
    /// Time of tasks of no container, all CPUs, nanoseconds.
    pub host_ns: u64,
    /// Containers without a free row, since the start; they count as the host.
    pub containers_without_slot: u64,
    /// Segments that ended with a different task than they began with, since the start.
    pub mismatches: u64,
    /// Segments of impossible length, discarded, since the start.
    pub segments_rejected: u64,
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct DegradedRecord {
    /// A stable short name.
    pub name: String,
    /// What, on what, why, and what to do.
    pub text: String,
}
