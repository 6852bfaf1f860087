//! One cell of the grid: a victim, its competitors, and the path between them and the peer.

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
                    let labels: Vec<_> = $name::ALL.iter().map(|v| v.label()).collect();
                    format!("'{text}' is not one of {}", labels.join(", "))
                })
            }
        }
    };
}

/// Job whose completion time (or p99) is judged.
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
labels!(VictimKind {
    Cpu => "cpu", Wordcount => "wordcount", Grep => "grep", Pi => "pi", Rpc => "rpc",
});

/// Kind of traffic.
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
    /// Transport protocol of the traffic.
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

/// Direction of the competitor's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The competitor receives; softirq is steered to the victim's CPU.
    Receiver,
    /// The competitor sends, behind HTB.
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
    /// Paths of the whole grid, with every number of flows and every size. The other paths have
    /// only the worst cases.
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

/// Treatment of the competitors' network CPU.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Treatment {
    /// None: the kernel as it is.
    #[default]
    Vanilla,
    /// The interface's NAPI thread runs in the root cgroup.
    NapiRoot,
    /// The NAPI thread runs in the container's cgroup.
    NapiCgroup,
    /// NAPI thread as in `NapiCgroup`; network work outside the cgroup is subtracted from the
    /// container's quota or weight.
    NapiCorrection,
    /// NAPI thread as in `NapiCgroup`; the container's packets are dropped while it is in debt,
    /// without corrections.
    NapiDrop,
    /// Corrections by the accounting alone, without NAPI thread or drops.
    CorrectionOnly,
    /// All means of Cofferdam, in the benchmark's own loop.
    Enforced,
    /// All means of Cofferdam, by its agent: a process of its own, which reads what it needs when
    /// it needs it.
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
    /// Whether the treatment uses all means of Cofferdam. Goals judge only these; the others are
    /// ablations.
    pub fn is_whole(self) -> bool {
        matches!(self, Treatment::Enforced | Treatment::Agent)
    }
}

/// Place of the victim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VictimIn {
    /// In a container that a rule enforces like the competitors.
    #[default]
    Container,
    /// In a plain cgroup in the host's network namespace, like a service or a batch job: no rule
    /// names it.
    Host,
}
labels!(VictimIn { Container => "container", Host => "host" });

/// One cell of the grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Unique within a run; built by [`Cell::new_id`].
    pub id: String,
    /// Victim whose time is judged.
    pub victim: VictimKind,
    /// Kind of the competitors' traffic.
    pub interferer: Interferer,
    /// Transport protocol of the traffic.
    pub protocol: Protocol,
    /// Direction of the traffic.
    pub direction: Direction,
    /// Path of the packets.
    pub path: Path,
    /// Concurrent flows.
    pub flows: u32,
    /// Datagram payload (UDP) or write size (TCP), bytes; `None` for a shuffle.
    pub payload_bytes: Option<u32>,
    /// HTB rate on the sender's interface, Gbit/s; `None` without HTB.
    pub htb_gbit_per_s: Option<f64>,
    /// The victim's share of the CPU, percent. The competitors divide the rest equally.
    #[serde(default = "even")]
    pub victim_share_pct: u32,
    /// Means by which the CPU is divided.
    #[serde(default)]
    pub limit: Limit,
    /// Competing containers, each with `flows` flows of its own.
    #[serde(default = "one")]
    pub offenders: u32,
    /// Place of the victim.
    #[serde(default)]
    pub victim_in: VictimIn,
}

/// Share of the victim if CPU is divided equally, percent.
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

    /// Share of the CPU of each competitor, percent.
    pub fn competitor_share_pct(&self) -> f64 {
        f64::from(100 - self.victim_share_pct.min(99)) / f64::from(self.offenders.max(1))
    }

    /// The cell with `id` filled in.
    pub fn named(mut self) -> Cell {
        self.id = self.new_id();
        self
    }
}
