//! Traffic on a new network: generators at the peer, a sink in each container.

use crate::accounting::data::LoadShape;
use crate::data::{Limit, Path, Rate};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::spawn::Worker;
use crate::topology::{MadeBy, Spec, Tenant, Topology};
use crate::worker::Reading;
use std::path::PathBuf;
use std::time::Duration;

/// Longest life of a worker.
const LIMIT_S: u32 = 3_600;
/// Time between the start of the traffic and the first reading.
const SETTLE: Duration = Duration::from_millis(300);

/// Traffic of one generator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flow {
    /// Datagrams of a size, at a rate or as fast as possible.
    Udp {
        bytes: u32,
        packets_per_s: Option<f64>,
    },
    /// One stream: writes of a size at a rate, or of 64 KiB as fast as possible.
    Tcp { paced: Option<(u32, f64)> },
}

impl Flow {
    pub fn of(load: LoadShape) -> Flow {
        match load {
            LoadShape::Flood64 => Flow::Udp {
                bytes: 64,
                packets_per_s: None,
            },
            LoadShape::TcpStream => Flow::Tcp { paced: None },
        }
    }
}

/// Running traffic. Workers are dropped before the topology that they run in.
pub(crate) struct Traffic {
    flows: Vec<(Worker, Worker)>,
    holders: Vec<Worker>,
    topology: Topology,
}

/// Counters of one flow.
#[derive(Clone, Copy)]
pub(crate) struct Counters {
    pub offered: Reading,
    pub received: Reading,
}

impl Counters {
    /// (offered, received) rates since `earlier`.
    pub fn since(&self, earlier: &Counters) -> (Rate, Rate) {
        (
            self.offered.since(&earlier.offered),
            self.received.since(&earlier.received),
        )
    }
}

impl Traffic {
    /// Makes containers named `a`, `b`, … on plain veth pairs, and starts one flow into each.
    pub fn start(rig: &mut Rig<'_>, flows: &[Flow]) -> Result<Traffic, BenchError> {
        let names = ["a", "b", "c", "d"];
        let topology = Topology::build(&Spec {
            path: Path::Veth,
            containers: Tenant::equals(&names[..flows.len()]),
            victim_cpu: rig.victim_cpu,
            peer_cpu: rig.peer_cpu,
            // Offload as on an ordinary host: the cost is measured on its usual path.
            segmentation_offload: true,
            htb_gbit_per_s: None,
            limit: Limit::Weights,
            made_by: MadeBy::Ourselves,
        })?;
        let mut traffic = Traffic {
            flows: Vec::new(),
            holders: Vec::new(),
            topology,
        };
        for (i, flow) in flows.iter().enumerate() {
            let mut holder = Worker::start(
                &traffic.topology.container(i),
                &format!("hold --limit {LIMIT_S}"),
            )?;
            holder.go()?;
            traffic.holders.push(holder);
            let (to, port) = traffic.topology.target(i);
            let (sink, generator) = match flow {
                Flow::Udp {
                    bytes,
                    packets_per_s,
                } => {
                    let rate = packets_per_s.map_or(String::new(), |r| format!(" --rate {r}"));
                    (
                        format!("udp-sink --port {port} --flows 1"),
                        format!("udp-flood --to {to} --port {port} --flows 1 --size {bytes}{rate}"),
                    )
                }
                Flow::Tcp { paced } => {
                    let pace = match paced {
                        Some((bytes, rate)) => format!("--size {bytes} --rate {rate}"),
                        None => "--size 65536".to_owned(),
                    };
                    (
                        format!("tcp-sink --port {port}"),
                        format!("tcp-stream --to {to} --port {port} --flows 1 {pace}"),
                    )
                }
            };
            let limit = format!(" --limit {LIMIT_S}");
            let mut sink = Worker::start(&traffic.topology.container(i), &(sink + &limit))?;
            sink.go()?;
            let generator = Worker::start(&traffic.topology.peer(), &(generator + &limit))?;
            traffic.flows.push((generator, sink));
        }
        for (generator, _) in &mut traffic.flows {
            generator.go()?;
        }
        rig.pass(SETTLE)?;
        Ok(traffic)
    }

    /// Reads the counters of every flow.
    pub fn read(&mut self) -> Result<Vec<Counters>, BenchError> {
        self.flows
            .iter_mut()
            .map(|(generator, sink)| {
                Ok(Counters {
                    offered: generator.read()?,
                    received: sink.read()?,
                })
            })
            .collect()
    }

    /// UDP datagrams that the stack of container `i` has carried to a socket so far: delivered, or
    /// dropped because the socket was full.
    pub fn carried_datagrams(&self, i: usize) -> Result<u64, BenchError> {
        let path = PathBuf::from(format!("/proc/{}/net/snmp", self.holders[i].pid()));
        let text = std::fs::read_to_string(&path).map_err(BenchError::host("read", path))?;
        Ok(carried_packets(&text))
    }

    /// Path of container `i`'s cgroup below the v2 mount.
    pub fn path(&self, i: usize) -> String {
        self.topology.cgroup_path(i)
    }
}

/// `InDatagrams` + `RcvbufErrors` of `/proc/PID/net/snmp`: a line of names, then a line of numbers.
fn carried_packets(snmp: &str) -> u64 {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Udp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return 0;
    };
    names
        .split_whitespace()
        .zip(values.split_whitespace())
        .filter(|(name, _)| ["InDatagrams", "RcvbufErrors"].contains(name))
        .filter_map(|(_, value)| value.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::carried_packets;

    #[test]
    fn datagrams_read_and_dropped_at_the_socket_were_carried() {
        let text = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams \
            RcvbufErrors\nUdp: 70 1 31 5 30\nUdpLite: InDatagrams\nUdpLite: 9\n";
        assert_eq!(carried_packets(text), 100);
        assert_eq!(carried_packets(""), 0);
    }
}
