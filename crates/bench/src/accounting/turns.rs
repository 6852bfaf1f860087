//! Traffic in turns of about a millisecond, sent by this very thread: a generator process could
//! not be started and stopped that often.

use crate::data::{Limit, Path};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::spawn::Worker;
use crate::topology::{Spec, Tenant, Topology};
use cofferdam_host::in_namespace;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// Datagrams sent before the next flow has its turn.
const BURST: u32 = 32;
/// For the receiver's queues to empty.
const SETTLE: Duration = Duration::from_millis(1);
/// Longest life of the sinks.
const LIMIT_S: u32 = 3_600;

/// What one flow sends in a turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parcel {
    /// Datagrams of a payload size.
    Udp {
        /// Payload of each.
        bytes: usize,
        /// How many.
        packets: u32,
    },
    /// Bytes on a connection that stays open.
    Tcp {
        /// How many.
        bytes: u32,
    },
}

/// Two containers with sinks, and sockets of the peer's to each. Sockets keep the namespace
/// they were made in, so that this thread can stay where it is.
pub(super) struct Turns {
    udp: UdpSocket,
    targets: Vec<SocketAddr>,
    streams: Vec<TcpStream>,
    payload: Vec<u8>,
    home: CpuSet,
    _workers: Vec<Worker>,
    topology: Topology,
}

impl Turns {
    /// Builds the network, starts the sinks, connects, and moves this thread to the sender's CPU.
    pub fn start(rig: &mut Rig<'_>) -> Result<Turns, BenchError> {
        let topology = Topology::build(&Spec {
            path: Path::Veth,
            containers: Tenant::equals(&["a", "b"]),
            victim_cpu: rig.victim_cpu,
            peer_cpu: rig.peer_cpu,
            // One packet a segment, so that a packet is the same thing for both protocols.
            segmentation_offload: false,
            htb_gbit_per_s: None,
            limit: Limit::Weights,
        })?;
        let (mut workers, mut targets) = (Vec::new(), Vec::new());
        for i in 0..2 {
            let (to, port) = topology.target(i);
            targets.push(SocketAddr::from((to, port)));
            for args in [
                format!("hold --limit {LIMIT_S}"),
                format!("udp-sink --port {port} --flows 1 --limit {LIMIT_S}"),
                format!("tcp-sink --port {port} --limit {LIMIT_S}"),
            ] {
                let mut worker = Worker::start(&topology.container(i), &args)?;
                worker.go()?;
                workers.push(worker);
            }
        }
        let name = topology.peer().netns.unwrap_or_default();
        let path = std::path::Path::new("/run/netns").join(&name);
        let failed = |what: &str, source: io::Error| BenchError::Worker {
            worker: format!("sender in {name}"),
            reason: format!("{what}: {source}"),
        };
        let file = File::open(&path).map_err(|e| failed("open", e))?;
        let sockets = in_namespace(&file, || {
            let udp = UdpSocket::bind("0.0.0.0:0")?;
            let streams: Vec<TcpStream> = targets
                .iter()
                .map(TcpStream::connect)
                .collect::<io::Result<_>>()?;
            for stream in &streams {
                stream.set_nodelay(true)?;
            }
            Ok::<_, io::Error>((udp, streams))
        });
        let (udp, streams) = sockets
            .and_then(|inner| inner)
            .map_err(|e| failed("connect to the sinks", e))?;
        let home = sched_getaffinity(Pid::from_raw(0)).map_err(|e| failed("affinity", e.into()))?;
        let mut sender = CpuSet::new();
        sender
            .set(rig.peer_cpu as usize)
            .and_then(|()| sched_setaffinity(Pid::from_raw(0), &sender))
            .map_err(|e| failed("move to the sender's CPU", e.into()))?;
        Ok(Turns {
            udp,
            targets,
            streams,
            payload: vec![0x5a; 65_536],
            home,
            _workers: workers,
            topology,
        })
    }

    /// Sends all parcels, flow after flow in bursts, and waits until they are received.
    pub fn send(&mut self, parcels: &[(usize, Parcel)]) -> Result<(), BenchError> {
        let mut left: Vec<(usize, Parcel)> = parcels.to_vec();
        while !left.is_empty() {
            for (to, parcel) in &mut left {
                self.burst(*to, parcel).map_err(|e| BenchError::Worker {
                    worker: "sender in turns".to_owned(),
                    reason: e.to_string(),
                })?;
            }
            left.retain(|(_, parcel)| {
                !matches!(
                    parcel,
                    Parcel::Udp { packets: 0, .. } | Parcel::Tcp { bytes: 0 }
                )
            });
        }
        std::thread::sleep(SETTLE);
        Ok(())
    }

    fn burst(&mut self, to: usize, parcel: &mut Parcel) -> io::Result<()> {
        match parcel {
            Parcel::Udp { bytes, packets } => {
                for _ in 0..BURST.min(*packets) {
                    self.udp
                        .send_to(&self.payload[..*bytes], self.targets[to])?;
                    *packets -= 1;
                }
            }
            Parcel::Tcp { bytes } => {
                // A segment a write, as the datagrams: batches are then alike.
                for _ in 0..BURST {
                    let some = (*bytes as usize).min(1_400);
                    self.streams[to].write_all(&self.payload[..some])?;
                    *bytes -= some as u32;
                }
            }
        }
        Ok(())
    }

    /// Path of container `i`'s cgroup below the v2 mount.
    pub fn path(&self, i: usize) -> String {
        self.topology.cgroup_path(i)
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        // This thread goes back to its CPUs; when that fails, it only stays where it is.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.home);
    }
}
