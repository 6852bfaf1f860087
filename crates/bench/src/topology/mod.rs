//! Network of an experiment: a peer, containers, and the path between them. Each run makes a new
//! one; dropping it removes everything in reverse order.
//!
//! Everything is in network namespaces of the benchmark, including the host's part (a namespace
//! `router` that forwards). The real host's devices, routes and firewall stay unchanged.
//!
//! ```text
//! veth         peer p<i> ────────────────────────────────── eth0 container i
//! routed       peer p0 ── up0 router d<i> ───────────────── eth0 container i
//! bridge-nat   peer p0 ── up0 router (DNAT, conntrack) br0 ─ eth0 container i
//! macvlan      peer p0 ── up0 router ═ macvlan ════════════ eth0 container i
//! vxlan        peer vx0 p0 ── up0 vx0 router d<i> ────────── eth0 container i
//! pods         peer p0 ── cfbPID node ─ (network plugin) ─── eth0 pod i
//! ```
//!
//! The last path leads to a real node, which gets one device of the benchmark.
//!
//! A plain veth hop does its receive work on the sender's CPU. A real NIC would interrupt the
//! victim's CPU, so `rps_cpus` of the receiving device steers the work there. Packets towards the
//! peer are steered to the peer's CPU. Behind a router only the first hop is steered; the second
//! stays on that CPU by itself.

mod cgroup;
mod kubernetes;
mod podman;

use crate::data::{EVEN_SHARE_PCT, Limit, Path};
use crate::error::BenchError;
use crate::spawn::Place;
pub(crate) use cgroup::Groups;
use cofferdam_lab::cgroup::{CPU, layout, mounts};
use cofferdam_lab::firewall::{Forward, translate};
use cofferdam_lab::names::NETNS_PREFIX;
use cofferdam_lab::{LabError, Netns, UndoStack, veth};
pub(crate) use kubernetes::forwards;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Address of the router on the peer's link, the target of port forwarding.
const UPLINK: Ipv4Addr = Ipv4Addr::new(10, 78, 1, 2);
/// Address of the peer on that link.
const UPLINK_PEER: Ipv4Addr = Ipv4Addr::new(10, 78, 1, 1);

/// Ends of the tunnel between peer and router.
const TUNNEL: Ipv4Addr = Ipv4Addr::new(10, 78, 2, 2);
const TUNNEL_PEER: Ipv4Addr = Ipv4Addr::new(10, 78, 2, 1);

/// Number of ports that are forwarded to each container.
const PORTS: u16 = 1_000;

/// Network to build.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Path of the packets.
    pub path: Path,
    /// Containers of the network.
    pub containers: Vec<Tenant>,
    /// CPU of the containers and of their receive softirq.
    pub victim_cpu: u32,
    /// CPU of the peer.
    pub peer_cpu: u32,
    /// Whether senders may hand over TCP segments larger than a packet. If not, each packet fits
    /// the MTU, as on a wire.
    pub segmentation_offload: bool,
    /// HTB rate on the interface of every shaped container, Gbit/s.
    pub htb_gbit_per_s: Option<f64>,
    /// Means by which the CPU is divided.
    pub limit: Limit,
    /// Runtime of the containers.
    pub made_by: MadeBy,
}

/// Runtime of a topology's containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MadeBy {
    /// This program: a network namespace and cgroups, and nothing else that a container has.
    #[default]
    Ourselves,
    /// podman with runc. The sysfs of its containers is read-only, so nothing can be steered in
    /// them: not for [`Path::Veth`].
    Podman,
    /// The cluster of this node: pods by its API server, in their own network. Only for
    /// [`Path::Routed`].
    Kubernetes,
}

labels!(MadeBy { Ourselves => "process", Podman => "podman", Kubernetes => "kubernetes" });

/// Container and its share.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Name of the container.
    pub name: String,
    /// Share of the CPU, percent.
    pub share_pct: f64,
    /// Whether HTB shapes its outgoing traffic.
    pub shaped: bool,
}

impl Tenant {
    /// Containers with equal shares, not shaped.
    pub fn equals(names: &[&str]) -> Vec<Tenant> {
        names
            .iter()
            .map(|name| Tenant {
                name: (*name).to_owned(),
                share_pct: f64::from(EVEN_SHARE_PCT),
                shaped: false,
            })
            .collect()
    }
}

/// One container of a topology.
#[derive(Clone, Debug)]
struct Member {
    netns: Netns,
    cgroups: Vec<PathBuf>,
    /// Path of its cgroup below the v2 mount.
    cgroup_path: String,
    address: Ipv4Addr,
    gateway: Ipv4Addr,
    /// First port that the router forwards to it.
    port: u16,
}

/// Built network.
pub struct Topology {
    spec: Spec,
    peer: Netns,
    root_cgroups: Vec<PathBuf>,
    members: Vec<Member>,
    // Last: fields are dropped in order, and this reverts everything.
    _undo: UndoStack,
}

impl Topology {
    /// Builds the network. A failure removes the parts built so far.
    pub fn build(spec: &Spec) -> Result<Topology, BenchError> {
        // Tests build several in one process, so the pid alone does not name them.
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        cofferdam_lab::sweep::leftovers();
        let mut undo = UndoStack::default();
        let tag = format!(
            "{}-{}",
            std::process::id(),
            SERIAL.fetch_add(1, Ordering::Relaxed)
        );
        let layout = layout()?;
        let groups = Groups::make(&layout, &tag, &mut undo)?;
        let netns = |name: &str, undo: &mut UndoStack| make_netns(&format!("{tag}-{name}"), undo);
        let peer = netns("peer", &mut undo)?;
        sends_by_itself(&peer)?;
        let pods = match spec.made_by {
            MadeBy::Kubernetes => {
                kubernetes::refuse_path(spec.path)?;
                Some(kubernetes::Pods::prepare(&tag, &peer, spec)?)
            }
            MadeBy::Ourselves | MadeBy::Podman => None,
        };
        let router = match spec.path {
            _ if pods.is_some() => None,
            Path::Veth => None,
            _ => Some(Router::make(netns("router", &mut undo)?, &peer, spec)?),
        };
        let image = match spec.made_by {
            MadeBy::Ourselves | MadeBy::Kubernetes => None,
            MadeBy::Podman if spec.path == Path::Veth => {
                return Err(BenchError::Unsupported(
                    "the path 'veth' steers work inside the container, whose sysfs podman makes \
                     read-only: choose the path 'routed' or 'bridge-nat'"
                        .to_owned(),
                ));
            }
            MadeBy::Podman => Some(podman::Image::import(&tag, &mut undo)?),
        };
        let mut members = Vec::new();
        for (i, tenant) in (0_u8..).zip(&spec.containers) {
            if let Some(pods) = &pods {
                let started = pods.start(tenant, spec.limit, &layout, &mut undo)?;
                members.push(Member {
                    netns: started.netns,
                    cgroups: started.cgroups,
                    cgroup_path: started.cgroup_path,
                    address: started.address,
                    gateway: UPLINK,
                    port: 20_000,
                });
                continue;
            }
            let (space, cgroups, cgroup_path) = match &image {
                None => {
                    let group = groups.container(tenant, spec.limit, &mut undo)?;
                    let path = group.path().display().to_string();
                    let space = netns(&tenant.name, &mut undo)?;
                    (space, group.dirs().to_vec(), path)
                }
                Some(image) => {
                    let options = cgroup::podman_share(tenant.share_pct, spec.limit);
                    image.start(&tenant.name, &options, &layout, &mut undo)?
                }
            };
            let (address, gateway) = match &router {
                Some(router) => router.attach(i, &space)?,
                None => attach_to_peer(i, &peer, &space, spec)?,
            };
            space.route(&format!("default via {gateway}"))?;
            // Only behind port forwarding they share an address.
            let apart = if spec.path == Path::BridgeNat {
                PORTS
            } else {
                0
            };
            let port = 20_000 + apart * u16::from(i);
            members.push(Member {
                netns: space,
                cgroups,
                cgroup_path,
                address,
                gateway,
                port,
            });
        }
        if let (Some(router), Path::BridgeNat) = (&router, spec.path) {
            forward_ports(&router.netns, &members)?;
        }
        // With a macvlan device the uplink segments.
        if !spec.segmentation_offload && spec.path != Path::Macvlan {
            for member in &members {
                whole_packets(&member.netns, "eth0")?;
            }
        }
        if let Some(rate) = spec.htb_gbit_per_s {
            for (member, _) in members
                .iter()
                .zip(&spec.containers)
                .filter(|(_, t)| t.shaped)
            {
                shape(&member.netns, rate)?;
            }
        }
        Ok(Topology {
            spec: spec.clone(),
            peer,
            root_cgroups: mounts(&layout, &CPU),
            members,
            _undo: undo,
        })
    }

    /// Place of the traffic's other end, which is no container.
    pub fn peer(&self) -> Place {
        Place {
            netns: self.peer.clone(),
            cgroups: self.root_cgroups.clone(),
            cpu: Some(self.spec.peer_cpu),
        }
    }

    /// Place in container `i`, on the containers' CPU.
    pub fn container(&self, i: usize) -> Place {
        let member = &self.members[i];
        Place {
            netns: member.netns.clone(),
            cgroups: member.cgroups.clone(),
            cpu: Some(self.spec.victim_cpu),
        }
    }

    /// Path of container `i`'s cgroup below the v2 mount.
    pub fn cgroup_path(&self, i: usize) -> String {
        self.members[i].cgroup_path.clone()
    }

    /// Address by which the peer reaches container `i`, and the first of its 1,000 ports.
    pub fn target(&self, i: usize) -> (Ipv4Addr, u16) {
        let member = &self.members[i];
        match self.spec.path {
            Path::BridgeNat => (UPLINK, member.port),
            _ => (member.address, member.port),
        }
    }

    /// Address of the peer from container `i`.
    pub fn peer_address(&self, i: usize) -> Ipv4Addr {
        match self.spec.path {
            Path::Veth => self.members[i].gateway,
            Path::Vxlan => TUNNEL_PEER,
            Path::Routed | Path::BridgeNat | Path::Macvlan => UPLINK_PEER,
        }
    }

    /// Cgroup mounts in which topologies are built.
    pub fn roots() -> Result<Vec<PathBuf>, BenchError> {
        Ok(mounts(&layout()?, &CPU))
    }

    /// Network namespaces and cgroup directories, for tests.
    pub fn parts(&self) -> (Vec<String>, Vec<PathBuf>) {
        let spaces = self.members.iter().map(|m| &m.netns).chain([&self.peer]);
        let names = spaces.filter_map(|netns| netns.name().map(str::to_owned));
        let groups = self.members.iter().flat_map(|m| m.cgroups.clone());
        (names.collect(), groups.collect())
    }
}

fn attach_to_peer(
    i: u8,
    peer: &Netns,
    container: &Netns,
    spec: &Spec,
) -> Result<(Ipv4Addr, Ipv4Addr), BenchError> {
    let (gateway, address) = (
        Ipv4Addr::new(10, 78, 10 + i, 1),
        Ipv4Addr::new(10, 78, 10 + i, 2),
    );
    let device = format!("p{i}");
    veth::pair((peer, &device), (container, "eth0"), 1)?;
    peer.address(&device, gateway)?;
    container.address("eth0", address)?;
    container.steer("eth0", &[spec.victim_cpu])?;
    finish_peer_device(peer, &device, spec)?;
    Ok((address, gateway))
}

fn finish_peer_device(peer: &Netns, device: &str, spec: &Spec) -> Result<(), BenchError> {
    peer.steer(device, &[spec.peer_cpu])?;
    if !spec.segmentation_offload {
        whole_packets(peer, device)?;
    }
    Ok(())
}

/// Makes TCP in `peer` send whenever its window allows. Otherwise TCP small queues make it wait
/// until earlier packets are freed, and it continues in the softirq that frees them. On this one
/// machine that is the receiver's softirq, so the victim's CPU would pay for the peer's sending. A
/// peer at the other end of a wire does all this work on its own host.
fn sends_by_itself(peer: &Netns) -> Result<(), LabError> {
    for name in ["tcp_pacing_ss_ratio", "tcp_pacing_ca_ratio"] {
        // Largest value, percent.
        peer.sysctl(&format!("net/ipv4/{name}"), "1000")?;
    }
    peer.sysctl("net/ipv4/tcp_limit_output_bytes", "1000000000")
}

/// Makes TCP hand `device` one packet an MTU, as on a wire.
fn whole_packets(netns: &Netns, device: &str) -> Result<(), LabError> {
    netns.offload(device, "tso off gso off")
}

/// Router in place of the host.
struct Router {
    netns: Netns,
    path: Path,
}

impl Router {
    fn make(netns: Netns, peer: &Netns, spec: &Spec) -> Result<Router, BenchError> {
        veth::pair((peer, "p0"), (&netns, "up0"), 1)?;
        peer.address("p0", UPLINK_PEER)?;
        netns.address("up0", UPLINK)?;
        finish_peer_device(peer, "p0", spec)?;
        netns.sysctl("net/ipv4/ip_forward", "1")?;
        netns.steer("up0", &[spec.victim_cpu])?;
        let gateway = match spec.path {
            Path::Vxlan => {
                tunnel(peer, "p0", (UPLINK_PEER, UPLINK), TUNNEL_PEER)?;
                tunnel(&netns, "up0", (UPLINK, UPLINK_PEER), TUNNEL)?;
                if !spec.segmentation_offload {
                    whole_packets(peer, "vx0")?;
                }
                TUNNEL
            }
            Path::Macvlan => {
                if !spec.segmentation_offload {
                    whole_packets(&netns, "up0")?;
                }
                UPLINK
            }
            Path::BridgeNat => {
                netns.ip("link add br0 type bridge")?;
                netns.address("br0", Ipv4Addr::new(10, 78, 100, 1))?;
                UPLINK
            }
            Path::Veth | Path::Routed => UPLINK,
        };
        peer.route(&format!("default via {gateway}"))?;
        Ok(Router {
            netns,
            path: spec.path,
        })
    }

    fn attach(&self, i: u8, container: &Netns) -> Result<(Ipv4Addr, Ipv4Addr), BenchError> {
        let (address, gateway) = match self.path {
            Path::Macvlan => {
                self.lend(i, container)?;
                (Ipv4Addr::new(10, 78, 1, 10 + i), UPLINK_PEER)
            }
            Path::BridgeNat => {
                let device = self.pair(i, container)?;
                self.netns.ip(&format!("link set {device} up master br0"))?;
                (
                    Ipv4Addr::new(10, 78, 100, 10 + i),
                    Ipv4Addr::new(10, 78, 100, 1),
                )
            }
            Path::Veth | Path::Routed | Path::Vxlan => {
                let device = self.pair(i, container)?;
                let gateway = Ipv4Addr::new(10, 78, 10 + i, 1);
                self.netns.address(&device, gateway)?;
                (Ipv4Addr::new(10, 78, 10 + i, 2), gateway)
            }
        };
        container.address("eth0", address)?;
        if self.path != Path::Macvlan {
            // The steered first hop fills this CPU's backlog. Behind a NIC that backlog belongs to
            // the second hop alone. A shared backlog is always full and drops nearly all packets of
            // the second hop. With GRO, veth polls a ring of its own, so the two stages take turns
            // as on a host.
            container.offload("eth0", "gro on")?;
        }
        Ok((address, gateway))
    }

    /// Makes a pair, and returns its end on the host.
    fn pair(&self, i: u8, container: &Netns) -> Result<String, LabError> {
        let device = format!("d{i}");
        veth::pair((&self.netns, &device), (container, "eth0"), 1)?;
        Ok(device)
    }

    /// Gives the container a macvlan device over the uplink: there is no pair, and no end on the
    /// host.
    fn lend(&self, i: u8, container: &Netns) -> Result<(), LabError> {
        let into = container.path();
        let device = format!("l{i}");
        self.netns.ip(&format!(
            "link add link up0 name {device} type macvlan mode bridge"
        ))?;
        self.netns
            .ip(&format!("link set {device} netns {}", into.display()))?;
        container.ip(&format!("link set {device} name eth0"))?;
        Ok(())
    }
}

/// Makes one end of a vxlan tunnel over `under`.
fn tunnel(
    netns: &Netns,
    under: &str,
    (local, remote): (Ipv4Addr, Ipv4Addr),
    address: Ipv4Addr,
) -> Result<(), LabError> {
    netns.ip(&format!(
        "link add vx0 type vxlan id 78 dstport 4789 dev {under} local {local} remote {remote}"
    ))?;
    netns.address("vx0", address)
}

/// Adds one HTB class for all outgoing traffic of the container.
fn shape(netns: &Netns, gbit_per_s: f64) -> Result<(), LabError> {
    let mbit = (gbit_per_s * 1e3).round().max(1.0);
    netns.shape("eth0", &format!("{mbit}mbit"), "quantum 60000")
}

/// Forwards each container's ports from the uplink.
fn forward_ports(router: &Netns, members: &[Member]) -> Result<(), LabError> {
    let mut forwards = Vec::new();
    for member in members {
        for protocol in ["tcp", "udp"] {
            forwards.push(Forward {
                device: Some("up0"),
                protocol,
                ports: (member.port, member.port + PORTS - 1),
                to: member.address.to_string(),
            });
        }
    }
    translate(router, &forwards, Some("up0"))
}

/// Makes a benchmark's network namespace `cfbench-TAG`, without IPv6.
pub(crate) fn make_netns(tag: &str, undo: &mut UndoStack) -> Result<Netns, LabError> {
    Netns::make(&format!("{NETNS_PREFIX}{tag}"), undo)?.without_ipv6()
}
