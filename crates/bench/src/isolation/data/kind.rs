//! The words of an experiment: what is competed for, how much is asked, where and by what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What two tenants compete for.
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
    /// The same through the page cache, with fsync.
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
    /// The paper's four.
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

    /// Weight of a difference in points: the paper's CPU table has half of it, its network and
    /// memory tables the whole.
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

    /// Whether it is a file's.
    pub fn is_disk(self) -> bool {
        matches!(self, Resource::Disk | Resource::DiskBuffered)
    }
}

/// How much a tenant asks for, against its limit.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Below its limit.
    Undercommitted,
    /// At its limit.
    Saturated,
    /// Above its limit, which holds it.
    Overcommitted,
    /// As much as it can, without a limit.
    Unrestricted,
}
labels!(Level { Undercommitted => "undercommitted", Saturated => "saturated", Overcommitted => "overcommitted", Unrestricted => "unrestricted" });

impl Level {
    /// The letter of the scenario's short name.
    pub fn letter(self) -> char {
        match self {
            Level::Undercommitted => 'u',
            Level::Saturated => 's',
            Level::Overcommitted => 'o',
            Level::Unrestricted => 'f',
        }
    }
}

/// What the two tenants do: tenant a is judged, tenant b is beside it or is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Scenario {
    /// Of the tenant that is judged.
    pub a: Level,
    /// Of the other; `None`: a baseline.
    pub b: Option<Level>,
}

impl Scenario {
    /// The 16 of the paper, in its order: 4 baselines, then a below `unrestricted` beside each b.
    pub fn paper() -> Vec<Scenario> {
        let baselines = Level::ALL.iter().map(|a| Scenario { a: *a, b: None });
        let contended = Level::ALL[..3].iter().flat_map(|a| beside(*a));
        baselines.chain(contended).collect()
    }

    /// The four that the paper's text implies: an unrestricted a beside each b.
    pub fn unrestricted() -> Vec<Scenario> {
        beside(Level::Unrestricted).collect()
    }

    /// All 20, numbered as in [`Scenario::number`].
    pub fn all() -> Vec<Scenario> {
        let mut all = Scenario::paper();
        all.extend(Scenario::unrestricted());
        all
    }

    /// The paper's number, from 1; 17 to 20 are the additional ones.
    pub fn number(self) -> usize {
        let place = Scenario::all().iter().position(|s| *s == self);
        place.map_or(0, |i| i + 1)
    }

    /// The baseline that it is compared with; itself for a baseline.
    pub fn baseline(self) -> Scenario {
        Scenario { a: self.a, b: None }
    }
}

fn beside(a: Level) -> impl Iterator<Item = Scenario> {
    Level::ALL.iter().map(move |b| Scenario { a, b: Some(*b) })
}

/// The short name: `a_s`, `a_s_b_f`.
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
        let known = Scenario::all();
        known
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

/// Name of the type in the experiment's schema: an enumeration of the short names.
impl JsonSchema for Scenario {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scenario".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<String> = Scenario::all().iter().map(Scenario::to_string).collect();
        schemars::json_schema!({
            "description": "a_X: tenant a alone at level X; a_X_b_Y: next to tenant b at level Y. Levels: u undercommitted, s saturated, o overcommitted, f unrestricted.",
            "type": "string",
            "enum": names,
        })
    }
}

/// What runs the tenants.
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
    /// Pods of the cluster's node that this is.
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
    /// What it can load.
    pub fn resources(self) -> &'static [Resource] {
        match self {
            GeneratorKind::CofferdamLoad => Resource::ALL,
            GeneratorKind::StressNg => &[Resource::Cpu, Resource::Memory],
            GeneratorKind::Fio => &[Resource::Disk, Resource::DiskBuffered],
            GeneratorKind::Iperf3 => &[Resource::Network],
        }
    }

    /// Whether it is a program of the host that joins a tenant, and not ours.
    pub fn is_foreign(self) -> bool {
        self != GeneratorKind::CofferdamLoad
    }
}

/// Whether Cofferdam's agent manages the tenants.
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
    /// No: the runtime alone.
    #[default]
    Vanilla,
    /// Yes: `network_cpu = "enforce"` and a strict reservation of their CPU limit.
    Cofferdam,
}
labels!(Protection { Vanilla => "vanilla", Cofferdam => "cofferdam" });
