//! Table of every metric. `docs/src/reference/metrics.md` lists the same; a test compares them.

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; its series end in `_total`.
    Counter,
    /// Any number.
    Gauge,
    /// Counts by size, and their sum; its series end in `_bucket`, `_count` and `_sum`.
    Histogram,
}

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// Name without prefix, unit and suffix.
    pub stem: &'static str,
    /// Base unit, empty for counts.
    pub unit: &'static str,
    /// Kind of the metric.
    pub kind: Kind,
    /// Labels, in order.
    pub labels: &'static [&'static str],
    /// Help text: one sentence without a full stop.
    pub help: &'static str,
}

/// Prefix of every name.
pub const PREFIX: &str = "cofferdam";

impl Metric {
    /// Name as a query writes it.
    pub fn name(&self) -> String {
        let mut name = format!("{PREFIX}_{}", self.stem);
        if !self.unit.is_empty() {
            name = format!("{name}_{}", self.unit);
        }
        match self.kind {
            Kind::Counter => name + "_total",
            Kind::Gauge | Kind::Histogram => name,
        }
    }
}

impl Metric {
    /// Labels with these values.
    pub(super) fn labelled<'a>(&self, values: &'a [String]) -> Vec<(&'static str, &'a str)> {
        let values = values.iter().map(String::as_str);
        self.labels.iter().copied().zip(values).collect()
    }
}

/// Labels of a container.
pub const CONTAINER: &[&str] = &["container", "pod", "cgroup"];

macro_rules! metrics {
    (
            $($id:ident = $kind:ident $stem:literal $unit:literal
            [$($label:literal),*] $help:literal;)*
        ) => {
        $(pub(crate) static $id: Metric = Metric {
            stem: $stem, unit: $unit, kind: Kind::$kind, labels: &[$($label),*], help: $help,
        };)*
        /// Every metric, in the order in which they are served.
        pub static ALL: &[&Metric] = &[$(&$id),*];
    };
}

metrics! {
    CAUSED = Counter "container_caused" "seconds" ["container", "pod", "cgroup", "direction"]
        "Kernel time that the container's packets required: rx, tx, or hardirq";
    CHARGED = Counter "container_charged" "seconds" ["container", "pod", "cgroup", "kind"]
        "Interrupt time that ran in the container's time slices, whatever its cause: \
         network, or other";
    OWED = Gauge "container_owed" "seconds" ["container", "pod", "cgroup"]
        "Network CPU caused minus network CPU charged; positive if others paid for its packets";
    CPU_USAGE = Counter "container_cpu_usage" "seconds" ["container", "pod", "cgroup"]
        "CPU time that the scheduler billed to the container";
    CORRECTED = Gauge "container_corrected_cpu" "seconds" ["container", "pod", "cgroup"]
        "CPU use had every packet been billed to its owner: usage plus owed";
    PACKETS = Counter "container_packets" "" ["container", "pod", "cgroup", "direction"]
        "Packets received, and packets sent by softirq; each GRO segment counts";
    BYTES = Counter "container_packet" "bytes" ["container", "pod", "cgroup", "direction"]
        "Bytes of those packets, without link-layer headers";
    ENTITLED = Counter "container_cpu_entitled" "seconds" ["container", "pod", "cgroup"]
        "CPU time that the container was entitled to, by reservation, weight, quota or cpuset";
    GOT = Counter "container_cpu_got" "seconds" ["container", "pod", "cgroup"]
        "CPU time that the container got, as the diagnosis counts it";
    LOST = Counter "container_cpu_lost" "seconds" ["container", "pod", "cgroup", "cause"]
        "CPU time that it was entitled to but did not get: \
         forced_sharing, phantom, throttled, or lack of threads";
    DIAGNOSIS_EVENTS = Counter "diagnosis_events" "" ["event"]
        "Failures of the diagnosis";
    CONTAINERS = Gauge "containers" "" []
        "Containers known";
    HOST_CGROUPS = Gauge "host_cgroups" "" []
        "Cgroups of the host that have paid for packets or got some, \
         and have series like containers";
    NOT_EXPORTED = Gauge "containers_not_exported" "" []
        "Containers without series of their own, because metrics.containers is reached";
    UNATTRIBUTED = Counter "unattributed" "seconds" ["reason"]
        "Kernel time that belongs to no container";
    CPU_SOFTIRQ = Counter "cpu_softirq" "seconds" ["cpu"]
        "Softirq time, without nested hardirqs";
    CPU_NETWORK_SOFTIRQ = Counter "cpu_network_softirq" "seconds" ["cpu"]
        "Softirq time in NET_RX and NET_TX";
    CPU_HARDIRQ = Counter "cpu_hardirq" "seconds" ["cpu"]
        "Device hardirq time";
    CPU_NAPI_THREAD = Counter "cpu_napi_thread" "seconds" ["cpu"]
        "Time that NAPI threads ran, without nested interrupts";
    CPU_DRAIN = Counter "cpu_drain" "seconds" ["cpu"]
        "Time in system calls of one container that drained another's packets";
    CPU_ATTRIBUTED = Counter "cpu_attributed" "seconds" ["cpu"]
        "Time caused by containers, and unattributed time, on this CPU";
    CPU_CHARGED = Counter "cpu_charged" "seconds" ["cpu"]
        "Measured time that ran in the time slices of containers and of cgroups of the host";
    CPU_CHARGED_NOBODY = Counter "cpu_charged_nobody" "seconds" ["cpu"]
        "Measured time charged to no cgroup: the idle task, threads that do network work, \
         tasks of unknown cgroups";
    CPU_CHARGED_HOST = Counter "cpu_charged_host" "seconds" ["cpu"]
        "Network CPU of that which ran in tasks of unknown cgroups";
    CONSERVATION = Gauge "conservation_error" "ratio" []
        "Difference between attributed and measured time on the worst CPU, \
         as a ratio of the latter";
    ACCOUNTING_EVENTS = Counter "accounting_events" "" ["event"]
        "Events of the accounting: \
         cpu_hotplugs and containers_gone are normal, the others are losses";
    CLASS = Gauge "container_class" "" ["container", "pod", "cgroup", "network_cpu", "cpu"]
        "1 for each container that a rule gives classes other than observe and standard";
    CONTAINER_DEGRADED = Gauge "container_degraded" "" ["container", "pod", "cgroup", "name"]
        "1 for each part of a container's classes that is not in force";
    MEANS = Gauge "enforcement_means" "" ["container", "pod", "cgroup", "means"]
        "1 if a mechanism of enforcement is in force for the container, else 0";
    DEBT = Gauge "enforcement_debt" "seconds" ["container", "pod", "cgroup"]
        "CPU time that the container owes and has not repaid";
    FORGIVEN = Counter "enforcement_forgiven" "seconds" ["container", "pod", "cgroup"]
        "Debt forgiven because it reached its bound, or because nobody waited any more";
    ENFORCED_CHARGE = Counter "enforcement_charged" "seconds" ["container", "pod", "cgroup"]
        "Network CPU charged to the container by enforcement";
    RETURNED = Counter "enforcement_returned" "seconds" ["container", "pod", "cgroup"]
        "CPU time returned to the container because it had paid for others";
    DROPPED = Counter "enforcement_dropped_packets" "" ["container", "pod", "cgroup", "direction"]
        "Packets of the container dropped while it was in debt";
    OWN_CPUS = Gauge "reservation_own_cpus" "" ["container", "pod", "cgroup"]
        "CPUs that are the container's own";
    SLICE_CPUS = Gauge "reservation_slice_cpus" "" ["container", "pod", "cgroup"]
        "Guaranteed part of a CPU that it shares";
    LENT_CPUS = Gauge "reservation_lent_cpus" "" ["container", "pod", "cgroup"]
        "The container's own CPUs that are currently lent";
    LENDINGS = Counter "reservation_lendings" "" ["container", "pod", "cgroup"]
        "Times a CPU of the container was lent";
    REWRITES = Counter "reservation_rewrites" "" ["container", "pod", "cgroup"]
        "Times the runtime had rewritten the container's cpuset and it was corrected";
    LATENCY = Histogram "container_latency" "seconds"
            ["container", "pod", "cgroup", "direction", "protocol"]
        "Time from a packet's start to its end inside this host";
    LATENCY_ADDED = Histogram "container_latency_added" "seconds"
            ["container", "pod", "cgroup", "direction", "protocol"]
        "The part of that time that the container's own network adds";
    LATENCY_STAGE = Counter "container_latency_stage" "seconds"
            ["container", "pod", "cgroup", "direction", "protocol", "stage"]
        "Time of all packets in one stage";
    LATENCY_PACKETS = Counter "container_latency_packets" ""
            ["container", "pod", "cgroup", "direction", "protocol"]
        "Packets that should have a report";
    LATENCY_MISSED = Counter "container_latency_missed_packets" ""
            ["container", "pod", "cgroup", "direction", "reason"]
        "Packets without a report";
    LATENCY_CONTAINERS = Gauge "latency_containers" "" []
        "Containers whose packets are measured";
    LATENCY_NOT_MEASURED = Gauge "latency_containers_not_measured" "" []
        "Containers not measured, because latency.containers is reached";
    LATENCY_REPORTS = Counter "latency_unread_reports" "" ["event"]
        "Reports that were overwritten before they were read, or were inconsistent";
    LATENCY_MEMORY = Gauge "latency_memory" "bytes" []
        "Memory of the kernel's tables for latency, fixed during the measurement";
    HISTORY_BYTES = Gauge "history_size" "bytes" []
        "Size of the history's files; 0 if no history is kept";
    HISTORY_FRAMES = Counter "history_frames" "" []
        "Frames written to the history";
    HISTORY_DROPPED = Counter "history_dropped_frames" "" []
        "Frames not written to the history because that failed";
    HISTORY_DELAYED = Counter "history_delayed_frames" "" []
        "Times the history's writing was late: the next frame is longer for it";
    HISTORY_FAILING = Gauge "history_failing" "" []
        "1 while the history cannot be written, else 0";
    CHANGES = Gauge "changes_in_force" "" []
        "Changes to the host in force, which are reverted when the agent stops";
    FAILED_CHANGES = Counter "failed_changes" "" []
        "Writes to the host that failed";
    ENFORCEMENT_STEP = Gauge "enforcement_step" "seconds" []
        "Duration of the last step of the enforcement";
    DEGRADED = Gauge "agent_degraded" "" ["name"]
        "1 for each problem of the host as a whole";
    INFO = Gauge "agent_build" "" ["version"]
        "Always 1; the label is the version";
    UPTIME = Gauge "agent_uptime" "seconds" []
        "Time since the agent started";
    RULES = Gauge "agent_rules" "" []
        "Rules in force";
    RULES_UNUSED = Gauge "agent_rules_unused" "" []
        "Rules without a container";
    LOADS = Counter "agent_configuration_loads" "" []
        "Configurations activated";
    REFUSALS = Counter "agent_configuration_refusals" "" []
        "Configurations refused";
    PERIOD = Gauge "agent_control_period" "seconds" []
        "Time between two steps of the control loop";
    SAMPLED = Gauge "agent_accounting_sampled" "" []
        "1 while the ledger is estimated from windows of measurement, \
         0 while everything is measured";
    STEP = Gauge "agent_step" "seconds" []
        "Duration of the last step of the control loop, including the reading";
    STEPS = Counter "agent_steps" "" []
        "Steps of the control loop";
    FAILED_READINGS = Counter "agent_failed_readings" "" []
        "Readings of the accounting that failed";
    AGENT_CPU = Counter "agent_cpu" "seconds" []
        "CPU time of the agent's process, without its BPF programs";
    NRI_CONNECTED = Gauge "nri_connected" "" []
        "Whether the container runtime has accepted the agent as an NRI plugin";
    NRI_SESSIONS = Counter "nri_sessions" "" []
        "Times that the container runtime has accepted the agent";
    NRI_PODS = Gauge "nri_pods" "" []
        "Pods known from the container runtime";
    NRI_CONTAINERS = Gauge "nri_containers" "" []
        "Containers known from the container runtime";
    NRI_ANSWERS = Counter "nri_answers" "" ["within"]
        "Requests of the container runtime answered after a decision, \
         by time taken: 2ms, or longer";
    NRI_MALFORMED = Counter "nri_malformed_messages" "" []
        "Messages of the container runtime that could not be understood";
    AGENT_MEMORY = Gauge "agent_resident_memory" "bytes" []
        "Resident memory of the agent's process";
    REQUESTS = Counter "agent_requests" "" []
        "Requests over the control socket";
    REFUSED_REQUESTS = Counter "agent_refused_requests" "" []
        "Requests refused: bad, too long, or not allowed";
    REFUSED_CONNECTIONS = Counter "agent_refused_connections" "" []
        "Connections refused, or closed for newer ones, because there were too many";
    TIMEOUTS = Counter "agent_timeouts" "" []
        "Connections closed because the client was too slow";
    PUSHES = Counter "agent_otlp_requests" "" ["outcome"]
        "Pushes of the metrics to a collector: sent, or failed";
    SCRAPES = Counter "agent_scrapes" "" []
        "Requests to the metrics address";
}
