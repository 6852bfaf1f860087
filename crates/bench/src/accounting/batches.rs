//! Batches of known packets in a known order, a few a millisecond. A [`Gate`] blocks the receiver's
//! softirqs while this thread sends, so that one softirq handles the whole batch.

use super::flow::{Flow, Receiver, Shape};
use crate::data::{Limit, Path};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::spawn::Worker;
use crate::topology::{MadeBy, Spec, Tenant, Topology};
use cofferdam_affinity::{Affinity, run_on};
use cofferdam_bpf::{Gate, GateError};
use cofferdam_host::in_namespace;
use cofferdam_types::CpuId;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

/// Longest life of the containers' processes.
const LIMIT_S: u32 = 3_600;

/// Kind of flow to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub shape: Shape,
    pub v6: bool,
}

impl Kind {
    pub const fn v4(shape: Shape) -> Kind {
        Kind { shape, v6: false }
    }

    pub const fn v6(shape: Shape) -> Kind {
        Kind { shape, v6: true }
    }
}

/// Packets of a batch: container, kind, number.
pub(super) type Parcel = (usize, Kind, u32);

/// Packets at the begin of each batch. The first packets of a softirq find cold caches, in mixed
/// and separate batches alike.
pub(super) const OPENER: Parcel = (2, Kind::v4(Shape::Udp(64)), 8);

/// Two containers, and flows of every kind to each. Sockets keep the namespace they were made in,
/// so this thread can stay in its own.
pub(super) struct BatchSender {
    // Dropped in this order.
    flows: BTreeMap<(usize, usize), Flow>,
    kinds: Vec<Kind>,
    gate: Gate,
    home: Affinity,
    _workers: Vec<Worker>,
    topology: Topology,
}

impl BatchSender {
    /// Builds the network, opens flows of all `kinds`, and moves this thread to the sender's CPU.
    pub fn start(rig: &mut Rig<'_>, kinds: &[Kind]) -> Result<BatchSender, BenchError> {
        let topology = Topology::build(&Spec {
            path: Path::Veth,
            containers: Tenant::equals(&["a", "b", "opener"]),
            victim_cpu: rig.victim_cpu,
            peer_cpu: rig.peer_cpu,
            // One packet a segment, so that a packet is the same for all protocols.
            segmentation_offload: false,
            htb_gbit_per_s: None,
            limit: Limit::Weights,
            made_by: MadeBy::Ourselves,
        })?;
        let failed = |what: &str, source: io::Error| BenchError::Worker {
            worker: "sender of batches".to_owned(),
            reason: format!("{what}: {source}"),
        };
        let peer_netns = topology.peer().netns;
        let peer = peer_netns.open()?;
        // An idle connection keeps its window, and a blocked batch does not count as loss.
        for setting in ["tcp_slow_start_after_idle", "tcp_early_retrans"] {
            peer_netns.sysctl(&format!("net/ipv4/{setting}"), "0")?;
        }
        let (mut workers, mut flows) = (Vec::new(), BTreeMap::new());
        for i in 0..=OPENER.0 {
            let v6 = |host: u16| Ipv6Addr::new(0xfd78, i as u16, 0, 0, 0, 0, 0, host);
            let inside = topology.container(i).netns;
            let container = inside.open()?;
            for (space, device, host) in [
                (&peer_netns, format!("p{i}"), 1),
                (&inside, "eth0".to_owned(), 2),
            ] {
                space.sysctl(&format!("net/ipv6/conf/{device}/disable_ipv6"), "0")?;
                space.add_address(&device, &format!("{}/64", v6(host)))?;
            }
            let mut worker =
                Worker::start(&topology.container(i), &format!("hold --limit {LIMIT_S}"))?;
            worker.go()?;
            workers.push(worker);
            for (n, kind) in kinds.iter().enumerate() {
                let to: IpAddr = match kind.v6 {
                    true => v6(2).into(),
                    false => topology.target(i).0.into(),
                };
                let flow = in_namespace(&container, || Receiver::bind(kind.shape, kind.v6))
                    .and_then(|inner| inner)
                    .and_then(|receiver| {
                        in_namespace(&peer, || Flow::connect(kind.shape, to, receiver))
                    })
                    .and_then(|inner| inner)
                    .map_err(|e| failed("open a flow", e))?;
                flows.insert((i, n), flow);
            }
        }
        let home = Affinity::of_this_thread().map_err(|e| failed("affinity", e))?;
        let gate = Gate::start(rig.victim_cpu).map_err(|e| match e {
            GateError::Load(_) => BenchError::Unsupported(format!("no accuracy table: {e}")),
            GateError::Hold { .. } => gate_failed(e),
        })?;
        run_on(CpuId(rig.peer_cpu)).map_err(|e| failed("move to the sender's CPU", e))?;
        Ok(BatchSender {
            flows,
            kinds: kinds.to_vec(),
            gate,
            home,
            _workers: workers,
            topology,
        })
    }

    /// Sends `rounds` times the parcels as one batch, and waits until the kernel has handled it.
    /// Returns false if the gate gave up: the batch was not handled in one go.
    pub fn send(&mut self, parcels: &[Parcel], rounds: u32) -> Result<bool, BenchError> {
        let failed = |e: io::Error| BenchError::Worker {
            worker: "sender of batches".to_owned(),
            reason: e.to_string(),
        };
        let (flows, kinds) = (&mut self.flows, &self.kinds);
        let key = |to: usize, kind: Kind| {
            (
                to,
                kinds.iter().position(|k| *k == kind).unwrap_or(usize::MAX),
            )
        };
        let sent = self.gate.batch(|| {
            let repeated = (0..rounds).flat_map(|_| parcels);
            for (to, kind, packets) in [&OPENER].into_iter().chain(repeated) {
                let flow = flows
                    .get_mut(&key(*to, *kind))
                    .ok_or(io::ErrorKind::NotFound)?;
                for _ in 0..*packets {
                    flow.send()?;
                }
            }
            Ok(())
        });
        let whole = match sent.map_err(gate_failed)? {
            Some(outcome) => outcome.map(|()| true).map_err(failed)?,
            None => false,
        };
        for (to, kind, _) in parcels.iter().chain([&OPENER]) {
            if let Some(flow) = flows.get_mut(&key(*to, *kind)) {
                flow.drain().map_err(failed)?;
            }
        }
        Ok(whole)
    }

    /// Path of container `i`'s cgroup below the v2 mount.
    pub fn path(&self, i: usize) -> String {
        self.topology.cgroup_path(i)
    }
}

fn gate_failed(error: GateError) -> BenchError {
    BenchError::Worker {
        worker: "gate".to_owned(),
        reason: error.to_string(),
    }
}

impl Drop for BatchSender {
    fn drop(&mut self) {
        // Errors are ignored: the thread then stays on this CPU.
        let _ = self.home.bind_this_thread();
    }
}
