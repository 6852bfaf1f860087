//! Demands of the four load levels, by resource. No other place defines them.
//!
//! | resource | limit L | undercommitted | saturated | overcommitted | unrestricted |
//! |---|---|---|---|---|---|
//! | CPU | quota | L/2 | L | 2 L | all CPUs of the host |
//! | memory | memory limit | L/2 | 0.9 L | 1.25 L | 3 L |
//! | disk | 0.7 L reads and 0.3 L writes a second | L/2 | L | 2 L | as fast as it goes |
//! | network | HTB | L/5 | L | 2 L | as fast as it goes |
//! | LLC | half of the last-level cache | L/2 | L | 2 L | 8 L on all CPUs but one |
//! | network CPU, a | quota, as CPU | L/2 | L | 2 L | all CPUs of the host |
//! | network CPU, b | quota; receives R datagrams a second | R/5 | R | 2 R | all it can, no quota |
//!
//! Without limits in the experiment, L is a quarter of the host's CPUs, a sixteenth of its memory,
//! a quarter of its disk's rate, or half of the link. So the levels show in the utilisation, and
//! two tenants at their limits do not exhaust the host.
//!
//! Reasons:
//!
//! - Half of the limit is clearly below it, twice is clearly above it. The paper's CPU table has
//!   12.5, 25 and 25% of the host.
//! - The paper's network table has 10, 50 and 100% of the link: L/5, L and 2 L with L at half of
//!   the link.
//! - Memory overcommitted twofold would be killed in the middle of each filling. 1.25 L fills, is
//!   killed and begins again. At L a tenant is killed too, because the kernel's own pages count, so
//!   saturated is 0.9 L. Unrestricted memory is bounded at 3 L (72% to 24% in the paper), because
//!   the host must survive.
//! - No runtime limits the cache; L is the share of each tenant if it were divided. At L both sets
//!   just fit. 8 L is four times the cache: every load misses.
//! - No tenant asks for the cost of its packets, and no runtime limits it. R is the rate of a busy
//!   service, its levels are those of the network, and the CPU quotas are those of a runtime.

use super::experiment::Experiment;
use crate::host_facts;
use crate::isolation::data::{Level, Resource};

/// Threads of a disk load: its queue depth.
pub(super) const DISK_THREADS: u32 = 8;
/// Ratio of an unrestricted tenant's disk rate to a tenant's default limit.
pub(super) const PARTS_OF_DISK: f64 = 4.0;
/// Share of writes in a disk load's operations, percent. The limit is divided in the same ratio.
pub(super) const WRITE_PCT: u32 = 30;
/// Time in which a tenant walks as many bytes as its memory limit, seconds.
const WALK_S: u64 = 1;
/// Payload of a datagram, bytes: that of a full Ethernet frame.
pub(super) const DATAGRAM_BYTES: u32 = 1400;
/// Part of the limit that undercommitted traffic uses, as in the paper.
const LITTLE_TRAFFIC: f64 = 0.2;
/// Payload of a datagram that uses CPU without filling a link, bytes.
const SMALL_BYTES: u32 = 64;
/// Threads of an unrestricted network load: one alone may not fill the link.
const FLOOD_THREADS: u32 = 2;
/// Bits of a full datagram on the wire, with UDP, IP and Ethernet headers.
pub(super) const DATAGRAM_WIRE_BITS: f64 = (DATAGRAM_BYTES + 8 + 20 + 14) as f64 * 8.0;

/// Reads and writes a second that a limit of `iops` allows.
pub(super) fn split_iops(iops: u32) -> (u32, u32) {
    let writes = (iops * WRITE_PCT / 100).max(1);
    ((iops - writes.min(iops)).max(1), writes)
}

/// Memory of an unrestricted tenant ÷ the limit.
const FREE_MEMORY: f64 = 3.0;

/// Cache set of an unrestricted load ÷ the limit.
const FREE_LLC: u64 = 8;

/// Most memory that a level of `resource` asks for, bytes; 0 if no more than any program's.
pub(super) fn most_memory(experiment: &Experiment, resource: Resource) -> u64 {
    match resource {
        Resource::Memory => (experiment.memory().0 as f64 * FREE_MEMORY) as u64,
        Resource::Llc => experiment.llc().0 * FREE_LLC,
        _ => 0,
    }
}

/// Demand of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Demand {
    /// Demand in the resource's own unit (CPUs, bytes, operations/s, bit/s); `None`: all that it
    /// can get.
    pub asked: Option<f64>,
    /// Load that makes the demand.
    pub load: Load,
}

/// Load, whatever generates it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Load {
    /// Uses CPUs.
    Cpu { cpus: f64 },
    /// Fills memory and walks `rate` bytes a second (0: as fast as possible).
    Memory { bytes: u64, rate: u64 },
    /// Threads that each walk a set of `bytes` by dependent loads.
    Cache { bytes: u64, threads: u32 },
    /// Reads and writes blocks of a file.
    Disk {
        /// Path of the file in the tenant.
        path: String,
        /// Size of the file, bytes.
        size: u64,
        /// Operations a second; 0: as fast as possible.
        iops: f64,
        direct: bool,
    },
    /// Sends datagrams to a sink.
    Source {
        /// `ADDRESS:PORT`.
        to: String,
        /// Payload bits a second; 0: as fast as possible.
        bits: f64,
        /// Payload bytes of a datagram.
        bytes: u32,
        threads: u32,
    },
    /// Receives datagrams.
    Sink { port: u16 },
}

impl Load {
    /// Line that prepares the load in our own generator.
    pub fn line(&self) -> String {
        match self {
            Load::Cpu { cpus } => format!("cpu cpus={cpus}"),
            Load::Memory { bytes, rate } => format!("memory bytes={bytes} rate={rate}"),
            Load::Cache { bytes, threads } => format!("cache bytes={bytes} threads={threads}"),
            Load::Disk {
                path,
                size,
                iops,
                direct,
            } => format!(
                "disk path={path} size={size} iops={iops} write_pct={WRITE_PCT} direct={} \
                 threads={DISK_THREADS}",
                u8::from(*direct)
            ),
            Load::Source {
                to,
                bits,
                bytes,
                threads,
            } => format!("source to={to} bits={bits} size={bytes} threads={threads}"),
            Load::Sink { port } => format!("sink port={port}"),
        }
    }
}

/// Targets of a tenant's load.
#[derive(Clone, Debug, Default)]
pub(super) struct Target {
    /// Path of the disk load's file in the tenant.
    pub file: String,
    /// Address and port of the sink.
    pub sink: String,
}

/// Demand of `level`.
pub(super) fn demand(
    experiment: &Experiment,
    resource: Resource,
    level: Level,
    target: &Target,
) -> Demand {
    let limits = &experiment.limits;
    match resource {
        Resource::Cpu | Resource::NetworkCpu => {
            let host = host_facts::online_cpus().len() as f64;
            let limit = experiment.cpus();
            let cpus = match level {
                Level::Undercommitted => limit / 2.0,
                Level::Saturated => limit,
                Level::Overcommitted => limit * 2.0,
                Level::Unrestricted => host,
            };
            Demand {
                asked: (level != Level::Unrestricted).then_some(cpus),
                load: Load::Cpu { cpus },
            }
        }
        Resource::Memory => {
            let part = match level {
                Level::Undercommitted => 0.5,
                Level::Saturated => 0.9,
                Level::Overcommitted => 1.25,
                Level::Unrestricted => FREE_MEMORY,
            };
            let limit = experiment.memory().0;
            let bytes = (limit as f64 * part) as u64;
            let rate = match level {
                Level::Unrestricted => 0,
                _ => limit / WALK_S,
            };
            Demand {
                asked: (level != Level::Unrestricted).then_some(bytes as f64),
                load: Load::Memory { bytes, rate },
            }
        }
        Resource::Disk | Resource::DiskBuffered => {
            let limit = f64::from(limits.disk_iops.unwrap_or(0));
            let asked = rate(limit, 0.5, level);
            Demand {
                asked,
                load: Load::Disk {
                    path: target.file.clone(),
                    size: limits.disk_file.0,
                    iops: asked.unwrap_or(0.0),
                    direct: resource == Resource::Disk,
                },
            }
        }
        Resource::Llc => {
            let share = experiment.llc().0;
            let bytes = match level {
                Level::Undercommitted => share / 2,
                Level::Saturated => share,
                Level::Overcommitted => share * 2,
                Level::Unrestricted => share * FREE_LLC,
            };
            // One CPU stays free for the neighbour, which should contend for the cache and not for
            // the CPU.
            let threads = match level {
                Level::Unrestricted => host_facts::online_cpus().len().saturating_sub(1).max(1),
                _ => 1,
            };
            Demand {
                asked: (level != Level::Unrestricted).then_some(bytes as f64),
                load: Load::Cache {
                    bytes,
                    threads: threads as u32,
                },
            }
        }
        Resource::Network => {
            let limit = limits.network.0 as f64;
            let wire = rate(limit, LITTLE_TRAFFIC, level);
            // Limits and links count whole frames, the generator its payload.
            let payload =
                wire.unwrap_or(0.0) * f64::from(DATAGRAM_BYTES) * 8.0 / DATAGRAM_WIRE_BITS;
            Demand {
                asked: wire,
                load: Load::Source {
                    to: target.sink.clone(),
                    bits: payload,
                    bytes: DATAGRAM_BYTES,
                    threads: if wire.is_some() { 1 } else { FLOOD_THREADS },
                },
            }
        }
    }
}

/// Rate of `level`, where `little` is the undercommitted part of the limit; `None`: no bound.
fn rate(limit: f64, little: f64, level: Level) -> Option<f64> {
    match level {
        Level::Undercommitted => Some(limit * little),
        Level::Saturated => Some(limit),
        Level::Overcommitted => Some(limit * 2.0),
        Level::Unrestricted => None,
    }
}

/// Datagrams to tenant b at `level` if network CPU is measured, and the peer's load that sends them
/// to `to`.
pub(super) fn flood(experiment: &Experiment, level: Level, to: String) -> Demand {
    let limit = f64::from(experiment.limits.datagrams);
    let per_s = rate(limit, LITTLE_TRAFFIC, level);
    Demand {
        asked: per_s,
        load: Load::Source {
            to,
            bits: per_s.unwrap_or(0.0) * f64::from(SMALL_BYTES) * 8.0,
            bytes: SMALL_BYTES,
            threads: 1,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::quantity::Size;

    /// Promise 46.
    #[test]
    fn each_level_asks_for_more_and_the_limit_lies_between() {
        let mut experiment = Experiment::quick();
        experiment.limits.disk_iops = Some(1000);
        experiment.limits.llc = Some(Size(1 << 20));
        let target = Target {
            file: "/data/a".into(),
            sink: "10.0.0.1:9".into(),
        };
        for resource in Resource::ALL {
            let asked = |level| demand(&experiment, *resource, level, &target).asked;
            let below = asked(Level::Undercommitted).unwrap();
            let at = asked(Level::Saturated).unwrap();
            let above = asked(Level::Overcommitted).unwrap();
            assert!(below < at && at < above, "{resource}");
            assert_eq!(asked(Level::Unrestricted), None);
            let limit = match resource {
                Resource::Cpu | Resource::NetworkCpu => experiment.cpus(),
                Resource::Memory => experiment.memory().0 as f64,
                Resource::Disk | Resource::DiskBuffered => 1000.0,
                Resource::Network => experiment.limits.network.0 as f64,
                Resource::Llc => experiment.llc().0 as f64,
            };
            assert!(below < limit && at <= limit && above > limit, "{resource}");
        }
    }

    /// Promise 46.
    #[test]
    fn a_tenant_is_sent_more_at_each_level() {
        let mut experiment = Experiment::quick();
        experiment.limits.datagrams = 1000;
        let sent = |level| flood(&experiment, level, "10.0.0.1:9".into());
        let rates: Vec<_> = Level::ALL.iter().map(|level| sent(*level).asked).collect();
        assert_eq!(rates, [Some(200.0), Some(1000.0), Some(2000.0), None]);
        assert_eq!(
            sent(Level::Saturated).load.line(),
            "source to=10.0.0.1:9 bits=512000 size=64 threads=1"
        );
        assert_eq!(
            sent(Level::Unrestricted).load.line(),
            "source to=10.0.0.1:9 bits=0 size=64 threads=1"
        );
    }
}
