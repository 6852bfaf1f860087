//! Testbed of the tenants: a router's namespace in place of the host, a peer behind one shared
//! link, a directory on a real file system.
//!
//! ```text
//! tenant a ── br0 ┐
//!                 ├ router ── up0 (the link's rate) ── peer: sinks
//! tenant b ── br0 ┘
//! ```
//!
//! Runtimes that make their own network (podman) are started inside the router's namespace. Their
//! bridge and their firewall rules are then in that namespace, and go with it. Pods are in the
//! network of their cluster, and the router is behind their node.

use crate::error::BenchError;
use crate::scratch_folder::make_new;
use crate::topology::make_netns;
use cofferdam_lab::UndoStack;
use cofferdam_lab::names::{CGROUP_PREFIX, DATA_ROOT};
use cofferdam_lab::run;
use cofferdam_lab::{Netns, sweep, veth};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const PEER: Ipv4Addr = Ipv4Addr::new(10, 79, 1, 1);
const UPLINK: Ipv4Addr = Ipv4Addr::new(10, 79, 1, 2);
/// Addresses of the router and of this host on the link between them, if tenants are pods.
const TO_NODE: Ipv4Addr = Ipv4Addr::new(10, 79, 2, 1);
const NODE: Ipv4Addr = Ipv4Addr::new(10, 79, 2, 2);
const BRIDGE: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
/// Queue of the shared link, bytes: 10 ms at the default rate, as of a small switch.
const LINK_QUEUE_BYTES: u64 = 512 << 10;
/// Burst of a delayed limit or link, as time at its rate. A real link sends whether or not a CPU is
/// free. The kernel's timers do not fire while their CPU is taken; without the burst the rate of
/// that time would be lost, and a busy host's link carried half of its rate.
const BUCKET: Duration = Duration::from_millis(20);

/// Network namespace of a tenant, by the path that runtimes accept.
#[derive(Clone, Debug)]
pub(super) struct TenantNet {
    pub path: PathBuf,
    /// Address of its eth0, in the bridge's /24.
    pub address: Ipv4Addr,
}

/// Testbed. Dropping it reverts everything.
pub(super) struct IsolationTestbed {
    pub tag: String,
    /// Path of the static load generator.
    pub load: PathBuf,
    /// Directory of the tenants' directories.
    pub data: PathBuf,
    router: Netns,
    peer: Netns,
    _undo: UndoStack,
}

impl IsolationTestbed {
    /// Builds the testbed; the link carries `link_bits_per_s`.
    pub fn build(link_bits_per_s: u64) -> Result<IsolationTestbed, BenchError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        sweep::leftovers();
        let mut undo = UndoStack::default();
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let tag = format!("{}-i{serial}", std::process::id());
        let data = Path::new(DATA_ROOT).join(format!("{CGROUP_PREFIX}{tag}"));
        make_new(&data)?;
        let folder = data.clone();
        undo.push(format!("directory {}", data.display()), move || {
            fs::remove_dir_all(&folder).map_err(|e| e.to_string())
        });
        let load = super::load::write(&data)?;
        let mut netns = |name: &str| make_netns(&format!("{tag}-{name}"), &mut undo);
        let (router, peer) = (netns("router")?, netns("peer")?);
        router.sysctl("net/ipv4/ip_forward", "1")?;
        veth::pair((&router, "up0"), (&peer, "eth0"), 1)?;
        peer.address("eth0", PEER)?;
        router.address("up0", UPLINK)?;
        peer.route(&format!("default via {UPLINK}"))?;
        // Queue like a NIC's: first in, first out, with drops at its tail.
        router.tc(&format!(
            "qdisc add dev up0 root tbf rate {link_bits_per_s}bit burst {} limit \
             {LINK_QUEUE_BYTES}",
            bucket_bytes(link_bits_per_s)
        ))?;
        // With a fixed hardware address: by default the bridge takes the lowest of its ports', and
        // a new port would leave stale neighbour entries.
        router.ip("link add br0 address 02:cf:00:00:00:01 type bridge")?;
        router.address("br0", BRIDGE)?;
        Ok(IsolationTestbed {
            tag,
            load,
            data,
            router,
            peer,
            _undo: undo,
        })
    }

    /// Connects the router to this host, which is a cluster's node: packets between its pods and
    /// the peer then pass the shared link. The device on the node goes with the router.
    pub fn join_node(&self) -> Result<(), BenchError> {
        let device = format!("cfb{}", std::process::id());
        veth::pair((&self.router, "n0"), (&Netns::HOST, &device), 1)?;
        self.router.address("n0", TO_NODE)?;
        self.router.route(&format!("default via {NODE}"))?;
        Netns::HOST.address(&device, NODE)?;
        Netns::HOST.route(&format!("{PEER}/32 via {TO_NODE}"))?;
        Ok(())
    }

    /// Name of a tenant's container, and of all that belongs to it, on the host.
    pub fn container(&self, name: &str) -> String {
        format!("{CGROUP_PREFIX}{}-{name}", self.tag)
    }

    /// Address and port of a sink.
    pub fn sink(port: u16) -> String {
        format!("{PEER}:{port}")
    }

    /// Next hop of the tenants.
    pub fn gateway() -> Ipv4Addr {
        BRIDGE
    }

    /// Command inside the peer's namespace, with the host's mounts.
    pub fn in_peer(&self, program: &Path) -> Command {
        inside(&self.peer, program)
    }

    /// Command inside the peer's namespace, on one CPU.
    pub fn in_peer_on(&self, cpu: u32, program: &Path) -> Command {
        let inside = self.in_peer(program);
        let mut command = Command::new("taskset");
        command
            .args(["--cpu-list", &cpu.to_string()])
            .arg(inside.get_program())
            .args(inside.get_args());
        command
    }

    /// Receives packets from the peer on one CPU, as a network card's queue does. Otherwise the CPU
    /// that sends them receives them too.
    pub fn receive_on(&self, cpu: u32) -> Result<(), BenchError> {
        Ok(self.router.steer("up0", &[cpu])?)
    }

    /// Command inside the router's namespace, with the host's mounts.
    pub fn in_router(&self, program: &str) -> Command {
        inside(&self.router, Path::new(program))
    }

    /// Prefix of commands inside the router's namespace, for [`run`].
    pub fn router_prefix(&self) -> String {
        format!("nsenter --net={}", self.router.path().display())
    }

    /// Makes a network namespace on the bridge for tenant number `index`.
    pub fn tenant(
        &self,
        name: &str,
        index: u8,
        undo: &mut UndoStack,
    ) -> Result<TenantNet, BenchError> {
        let netns = make_netns(&format!("{}-{name}", self.tag), undo)?;
        let port = format!("v{index}");
        veth::pair((&self.router, &port), (&netns, "eth0"), 1)?;
        self.router.ip(&format!("link set {port} master br0 up"))?;
        let address = Ipv4Addr::new(10, 79, 0, 10 + index);
        netns.address("eth0", address)?;
        netns.route(&format!("default via {BRIDGE}"))?;
        Ok(TenantNet {
            path: netns.path(),
            address,
        })
    }

    /// Makes a directory for a tenant's files.
    pub fn tenant_dir(&self, name: &str) -> Result<PathBuf, BenchError> {
        let dir = self.data.join(name);
        make_dir(&dir)?;
        Ok(dir)
    }
}

/// Limits the rate of the process `pid` through its eth0, by HTB.
pub(super) fn shape(pid: u32, bits_per_s: u64) -> Result<(), BenchError> {
    let inside = format!("nsenter --target {pid} --net tc");
    run(&format!(
        "{inside} qdisc add dev eth0 root handle 1: htb default 1"
    ))?;
    run(&format!(
        "{inside} class add dev eth0 parent 1: classid 1:1 htb rate {bits_per_s}bit burst {}",
        bucket_bytes(bits_per_s)
    ))?;
    Ok(())
}

/// [`BUCKET`] in bytes, at least the largest packet.
fn bucket_bytes(bits_per_s: u64) -> u64 {
    let bytes = bits_per_s as f64 / 8.0 * BUCKET.as_secs_f64();
    (bytes as u64).max(64 << 10)
}

fn inside(netns: &Netns, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net={}", netns.path().display()))
        .arg(program);
    command
}

fn make_dir(path: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(path).map_err(BenchError::host("make", path))
}
