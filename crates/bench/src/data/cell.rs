//! One cell of the grid: a victim, what runs beside it, and the path between.

use serde::{Deserialize, Serialize};

macro_rules! labels {
    ($name:ident { $($variant:ident => $label:literal),* $(,)? }) => {
        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Short name, as in the data and on the command line.
            pub fn label(self) -> &'static str {
                match self { $($name::$variant => $label),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.label())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                $name::ALL.iter().copied().find(|v| v.label() == text).ok_or_else(|| {
                    let known: Vec<_> = $name::ALL.iter().map(|v| v.label()).collect();
                    format!("'{text}' is not one of {}", known.join(", "))
                })
            }
        }
    };
}

/// The job whose completion time (or p99) is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VictimKind {
    /// Integer work in registers.
    Cpu,
    /// Counts the words of a generated corpus: map, then reduce.
    Wordcount,
    /// Searches a generated corpus for a word: map, then reduce.
    Grep,
    /// Estimates pi by quasi-random points: map, then reduce.
    Pi,
    /// Answers a low-rate client; judged by the p99 round trip.
    Rpc,
}
labels!(VictimKind { Cpu => "cpu", Wordcount => "wordcount", Grep => "grep", Pi => "pi", Rpc => "rpc" });

/// The kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interferer {
    /// UDP datagrams as fast as the sender can.
    Flood,
    /// Bulk TCP streams.
    Stream,
    /// Many concurrent bursty TCP flows, from a trace.
    Shuffle,
}
labels!(Interferer { Flood => "flood", Stream => "stream", Shuffle => "shuffle" });

impl Interferer {
    /// What carries it.
    pub fn protocol(self) -> Protocol {
        match self {
            Interferer::Flood => Protocol::Udp,
            Interferer::Stream | Interferer::Shuffle => Protocol::Tcp,
        }
    }
}

/// Transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP, congestion control cubic.
    Tcp,
    /// UDP.
    Udp,
}
labels!(Protocol { Tcp => "tcp", Udp => "udp" });

/// What the competitor does with the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// It receives; softirq is steered to the victim's CPU.
    Receiver,
    /// It sends, behind HTB.
    Sender,
}
labels!(Direction { Receiver => "receiver", Sender => "sender" });

/// How packets travel between peer and container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// One veth pair.
    Veth,
    /// Through a router (a namespace that forwards), two veth pairs.
    Routed,
    /// Through a router with port forwarding, masquerade, connection tracking and a bridge,
    /// as container runtimes set it up.
    BridgeNat,
    /// A macvlan device over the host's uplink, moved into the container.
    Macvlan,
    /// Through a vxlan tunnel that ends on the host, then as routed.
    Vxlan,
}
labels!(Path {
    Veth => "veth",
    Routed => "routed",
    BridgeNat => "bridge-nat",
    Macvlan => "macvlan",
    Vxlan => "vxlan",
});

impl Path {
    /// Those of the whole grid: every number of flows, every size. The others have the worst cases.
    pub const GRID: [Path; 3] = [Path::Veth, Path::Routed, Path::BridgeNat];
}

/// How CPU is divided between victim and competitors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// By cgroup weights.
    #[default]
    Weights,
    /// By CFS quotas over 100 ms, weights equal.
    Quota,
}
labels!(Limit { Weights => "weights", Quota => "quota" });

/// What is done against the competitors' network CPU.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Treatment {
    /// Nothing: the kernel as it is.
    #[default]
    Vanilla,
    /// The interface's NAPI runs in a thread, in the root cgroup.
    NapiRoot,
    /// That thread runs in the container's cgroup.
    NapiCgroup,
    /// And what stays outside is taken from the container's quota or weight.
    NapiCorrection,
    /// And its packets are dropped while it is in debt, but nothing is corrected.
    NapiDrop,
    /// No thread, no drop: corrections by the accounting alone.
    CorrectionOnly,
    /// All that Cofferdam does, in the benchmark's own loop.
    Enforced,
    /// The same by Cofferdam's agent: a process of its own, which reads what it needs when it needs it.
    Agent,
}
labels!(Treatment {
    Vanilla => "vanilla",
    NapiRoot => "napi-root",
    NapiCgroup => "napi-cgroup",
    NapiCorrection => "napi-correction",
    NapiDrop => "napi-drop",
    CorrectionOnly => "correction-only",
    Enforced => "enforced",
    Agent => "agent",
});

impl Treatment {
    /// Whether all that Cofferdam does is done: judged by the goals. The others are ablations.
    pub fn is_whole(self) -> bool {
        matches!(self, Treatment::Enforced | Treatment::Agent)
    }
}

/// Where the victim runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VictimIn {
    /// In a container, which a rule enforces as it does the competitors.
    #[default]
    Container,
    /// In a plain cgroup in the host's network namespace, as a service or a batch job: no rule
    /// names it.
    Host,
}
labels!(VictimIn { Container => "container", Host => "host" });

/// One cell of the grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Unique within a run; built by [`Cell::new_id`].
    pub id: String,
    /// Whose time is judged.
    pub victim: VictimKind,
    /// What the traffic is.
    pub interferer: Interferer,
    /// What carries it.
    pub protocol: Protocol,
    /// Whether the competitor receives or sends.
    pub direction: Direction,
    /// How packets travel.
    pub path: Path,
    /// Concurrent flows.
    pub flows: u32,
    /// Datagram payload (UDP) or write size (TCP), bytes; `None` for a shuffle.
    pub payload_bytes: Option<u32>,
    /// HTB rate on the sender's interface, Gbit/s; `None` without HTB.
    pub htb_gbit_per_s: Option<f64>,
    /// The victim's share of the CPU, percent; the competitors have the rest in equal parts.
    #[serde(default = "even")]
    pub victim_share_pct: u32,
    /// How the shares are given.
    #[serde(default)]
    pub limit: Limit,
    /// Competing containers, each with `flows` flows of its own.
    #[serde(default = "one")]
    pub offenders: u32,
    /// Where the victim runs.
    #[serde(default)]
    pub victim_in: VictimIn,
}

/// Equal shares.
pub const EVEN_SHARE_PCT: u32 = 50;

fn even() -> u32 {
    EVEN_SHARE_PCT
}

fn one() -> u32 {
    1
}

impl Cell {
    /// The id that belongs to the other fields, such as `cpu/flood/receiver/veth/3x200B`.
    pub fn new_id(&self) -> String {
        let mut id = format!(
            "{}/{}/{}/{}/{}",
            self.victim, self.interferer, self.direction, self.path, self.flows
        );
        if let Some(bytes) = self.payload_bytes {
            id += &format!("x{bytes}B");
        }
        if let Some(rate) = self.htb_gbit_per_s {
            id += &format!("/htb{rate}G");
        }
        if self.victim_share_pct != EVEN_SHARE_PCT {
            id += &format!("/share{}", self.victim_share_pct);
        }
        if self.limit != Limit::Weights {
            id += &format!("/{}", self.limit);
        }
        if self.offenders != 1 {
            id += &format!("/{}offenders", self.offenders);
        }
        if self.victim_in != VictimIn::Container {
            id += &format!("/victim-{}", self.victim_in);
        }
        id
    }

    /// Each competitor's share of the CPU, percent.
    pub fn competitor_share_pct(&self) -> f64 {
        f64::from(100 - self.victim_share_pct.min(99)) / f64::from(self.offenders.max(1))
    }

    /// The cell with `id` filled in.
    pub fn named(mut self) -> Cell {
        self.id = self.new_id();
        self
    }
}
