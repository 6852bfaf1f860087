//! Vocabulary of an experiment: resources, levels, runtimes and generators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resource for which two tenants compete.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// CPU time.
    Cpu,
    /// Memory: capacity, and the bandwidth of walking it.
    Memory,
    /// A file on a real file system, by O_DIRECT.
    Disk,
    /// A file through the page cache, with fsync.
    DiskBuffered,
    /// Datagrams through the runtime's network to a peer behind one shared link.
    Network,
    /// The last-level cache: dependent loads over a set of a given size. No runtime limits it.
    Llc,
    /// CPU that the kernel spends on packets: tenant a computes, tenant b receives small datagrams.
    NetworkCpu,
}
labels!(Resource {
    Cpu => "cpu", Memory => "memory", Disk => "disk", DiskBuffered => "disk-buffered",
    Network => "network", Llc => "llc", NetworkCpu => "network-cpu",
});

impl Resource {
    /// The paper's four resources.
    pub const PAPER: [Resource; 4] = [
        Resource::Cpu,
        Resource::Memory,
        Resource::Disk,
        Resource::Network,
    ];

    /// Unit of [`TenantSample::performance`](super::TenantSample::performance).
    pub fn performance_unit(self, generator: GeneratorKind) -> &'static str {
        match self {
            Resource::Cpu | Resource::Memory if generator == GeneratorKind::StressNg => {
                "bogo operations/s"
            }
            Resource::Cpu | Resource::NetworkCpu => "operations/s",
            Resource::Memory => "bytes/s walked",
            Resource::Disk | Resource::DiskBuffered => "operations/s",
            Resource::Network => "bit/s arrived",
            Resource::Llc => "loads/s",
        }
    }

    /// Weight of a difference in points: 0.5 in the paper's CPU table, 1 in its network and memory
    /// tables.
    pub fn ulr_weight(self) -> f64 {
        match self {
            Resource::Cpu | Resource::NetworkCpu => 0.5,
            _ => 1.0,
        }
    }

    /// Whether its tenants need a network.
    pub fn needs_network(self) -> bool {
        matches!(self, Resource::Network | Resource::NetworkCpu)
    }

    /// Whether the resource is a disk.
    pub fn is_disk(self) -> bool {
        matches!(self, Resource::Disk | Resource::DiskBuffered)
    }
}

/// Demand of a tenant in relation to its limit.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Below its limit.
    Undercommitted,
    /// At its limit.
    Saturated,
    /// Above its limit, which restrains it.
    Overcommitted,
    /// All that it can get, without a limit.
    Unrestricted,
}
labels!(Level {
    Undercommitted => "undercommitted", Saturated => "saturated", Overcommitted => "overcommitted",
    Unrestricted => "unrestricted",
});

impl Level {
    /// Letter in the scenario's short name.
    pub fn letter(self) -> char {
        match self {
            Level::Undercommitted => 'u',
            Level::Saturated => 's',
            Level::Overcommitted => 'o',
            Level::Unrestricted => 'f',
        }
    }
}

/// Levels of the two tenants: tenant a is judged, tenant b is its neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Scenario {
    /// Level of the judged tenant.
    pub a: Level,
    /// Level of its neighbour; `None`: a baseline.
    pub b: Option<Level>,
}

impl Scenario {
    /// The paper's 16 scenarios in its order: 4 baselines, then each level of a below
    /// `unrestricted` with each level of b.
    pub fn paper() -> Vec<Scenario> {
        let baselines = Level::ALL.iter().map(|a| Scenario { a: *a, b: None });
        let contended = Level::ALL[..3].iter().flat_map(|a| with_neighbours(*a));
        baselines.chain(contended).collect()
    }

    /// The four scenarios that the paper's text implies: an unrestricted a with each level of b.
    pub fn unrestricted() -> Vec<Scenario> {
        with_neighbours(Level::Unrestricted).collect()
    }

    /// All 20 scenarios, numbered as in [`Scenario::number`].
    pub fn all() -> Vec<Scenario> {
        let mut all = Scenario::paper();
        all.extend(Scenario::unrestricted());
        all
    }

    /// Number in the paper, from 1; 17 to 20 are the additional ones.
    pub fn number(self) -> usize {
        let place = Scenario::all().iter().position(|s| *s == self);
        place.map_or(0, |i| i + 1)
    }

    /// Baseline of the scenario; a baseline is its own.
    pub fn baseline(self) -> Scenario {
        Scenario { a: self.a, b: None }
    }
}

fn with_neighbours(a: Level) -> impl Iterator<Item = Scenario> {
    Level::ALL.iter().map(move |b| Scenario { a, b: Some(*b) })
}

/// Short name: `a_s`, `a_s_b_f`.
impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut name = format!("a_{}", self.a.letter());
        if let Some(b) = self.b {
            name += &format!("_b_{}", b.letter());
        }
        f.pad(&name)
    }
}

impl std::str::FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Scenario, String> {
        let scenarios = Scenario::all();
        scenarios
            .iter()
            .copied()
            .find(|s| s.to_string() == text)
            .ok_or_else(|| format!("'{text}' is not a scenario such as a_s or a_s_b_f"))
    }
}

impl From<Scenario> for String {
    fn from(scenario: Scenario) -> String {
        scenario.to_string()
    }
}

impl TryFrom<String> for Scenario {
    type Error = String;

    fn try_from(text: String) -> Result<Scenario, String> {
        text.parse()
    }
}

/// Schema of a scenario: an enumeration of the short names.
impl JsonSchema for Scenario {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scenario".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<String> = Scenario::all().iter().map(Scenario::to_string).collect();
        schemars::json_schema!({
            "description": "a_X: tenant a alone at level X; a_X_b_Y: next to tenant b at level Y. \
                Levels: u undercommitted, s saturated, o overcommitted, f unrestricted.",
            "type": "string",
            "enum": names,
        })
    }
}

/// Runtime of the tenants.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RuntimeKind {
    /// Namespaces and cgroups of the benchmark's own: always available.
    Process,
    /// podman with runc.
    Podman,
    /// podman with crun.
    PodmanCrun,
    /// docker.
    Docker,
    /// containerd, by ctr.
    Containerd,
    /// runc with a bundle of our own.
    Runc,
    /// gVisor: runsc with a bundle of our own.
    Gvisor,
    /// systemd-nspawn.
    Nspawn,
    /// A small virtual machine.
    Qemu,
    /// Pods on this host, which is a node of a cluster.
    Kubernetes,
}
labels!(RuntimeKind {
    Process => "process", Podman => "podman", PodmanCrun => "podman-crun", Docker => "docker",
    Containerd => "containerd", Runc => "runc", Gvisor => "gvisor", Nspawn => "nspawn",
    Qemu => "qemu", Kubernetes => "kubernetes",
});

/// Generator of the tenants' load.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum GeneratorKind {
    /// Our own: static, with exact set-points, for every resource and runtime.
    #[default]
    CofferdamLoad,
    /// stress-ng, of the host: CPU and memory.
    StressNg,
    /// fio, of the host: disk.
    Fio,
    /// iperf3, of the host: network.
    Iperf3,
}
labels!(GeneratorKind {
    CofferdamLoad => "cofferdam-load", StressNg => "stress-ng", Fio => "fio", Iperf3 => "iperf3",
});

impl GeneratorKind {
    /// Resources that the generator can load.
    pub fn resources(self) -> &'static [Resource] {
        match self {
            GeneratorKind::CofferdamLoad => Resource::ALL,
            GeneratorKind::StressNg => &[Resource::Cpu, Resource::Memory],
            GeneratorKind::Fio => &[Resource::Disk, Resource::DiskBuffered],
            GeneratorKind::Iperf3 => &[Resource::Network],
        }
    }

    /// Whether it is a program of the host that joins a tenant, and not our own.
    pub fn is_foreign(self) -> bool {
        self != GeneratorKind::CofferdamLoad
    }
}

/// Protection of the tenants by Cofferdam's agent.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Protection {
    /// None: the runtime alone.
    #[default]
    Vanilla,
    /// `network_cpu = "enforce"`, and a strict reservation of the tenants' CPU limit.
    Cofferdam,
}
labels!(Protection { Vanilla => "vanilla", Cofferdam => "cofferdam" });
