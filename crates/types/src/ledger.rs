//! The ledger: which container caused the kernel's network work, and which was charged for it.

use serde::{Deserialize, Serialize};
use std::ops::{AddAssign, Sub};

/// Cumulative counts of one container. Times in nanoseconds, since the accounting started.
///
/// Invariant: every field except `cpu_usage_ns` grows only.
/// Source: Iron (NSDI'18), section 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Softirq and NAPI-thread time that its received packets made necessary, batch share
    /// included.
    pub caused_rx_ns: u64,
    /// Softirq time that its transmitted packets made necessary, batch share included, and
    /// time in other tasks' system calls that drained its packets from a shared qdisc.
    pub caused_tx_ns: u64,
    /// The container's share of the network devices' hardirq time.
    pub caused_hardirq_ns: u64,
    /// Packets received (GRO super-packets count their segments).
    pub rx_packets: u64,
    /// Bytes of those packets, without the link-layer header.
    pub rx_bytes: u64,
    /// Packets of the container that softirqs handled on the way out.
    pub tx_packets: u64,
    /// Bytes of those packets.
    pub tx_bytes: u64,
    /// Network CPU that ran in the container's time slices, whatever its cause.
    pub charged_network_ns: u64,
    /// Other softirq and hardirq time (timer, RCU, block, …) inside its time slices.
    pub charged_other_ns: u64,
    /// CPU time that the scheduler billed to the cgroup.
    pub cpu_usage_ns: u64,
}

impl Ledger {
    /// Network CPU that this container's packets made necessary: receive, transmit, hardirq.
    pub fn caused_ns(&self) -> u64 {
        self.caused_rx_ns + self.caused_tx_ns + self.caused_hardirq_ns
    }

    /// caused − charged: positive when others were charged for this container's packets.
    pub fn owed_ns(&self) -> i64 {
        signed(self.caused_ns()) - signed(self.charged_network_ns)
    }

    /// CPU use as it would read if every packet had been charged to its owner:
    /// `cpu_usage_ns` + owed. Negative only while the scheduler's own count lags behind.
    pub fn corrected_cpu_ns(&self) -> i64 {
        signed(self.cpu_usage_ns) + self.owed_ns()
    }

    /// Packets handled, both directions.
    pub fn packets(&self) -> u64 {
        self.rx_packets + self.tx_packets
    }

    /// Mean CPU time of one packet in nanoseconds; `None` without packets.
    pub fn ns_per_packet(&self) -> Option<f64> {
        (self.packets() > 0).then(|| self.caused_ns() as f64 / self.packets() as f64)
    }

    /// True when nothing was caused, charged or counted.
    pub fn is_idle(&self) -> bool {
        self.caused_ns() == 0 && self.charged_network_ns == 0 && self.packets() == 0
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

macro_rules! fieldwise {
    ($($field:ident),* $(,)?) => {
        impl AddAssign for Ledger {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }
        /// Difference of two readings; a counter that decreased reads as 0.
        impl Sub for Ledger {
            type Output = Ledger;
            fn sub(self, earlier: Self) -> Ledger {
                Ledger { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }
        }
    };
}
fieldwise!(
    caused_rx_ns,
    caused_tx_ns,
    caused_hardirq_ns,
    rx_packets,
    rx_bytes,
    tx_packets,
    tx_bytes,
    charged_network_ns,
    charged_other_ns,
    cpu_usage_ns,
);

/// Reason why kernel time belongs to no container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Packets of the host's own sockets, or of its kernel (ARP, ICMP).
    HostTraffic,
    /// Packets that the host forwards between devices that belong to no container.
    Forwarding,
    /// Packets in a network namespace that belongs to no tracked container (yet).
    UnknownNamespace,
    /// The container has no slot: there are more containers than the accounting was loaded for.
    NoSlot,
    /// A NAPI poll or transmit softirq that handled no packet (transmit completions, say).
    NoPacket,
    /// Hardirqs of devices that are not network devices.
    OtherHardirq,
    /// `HI` softirq outside network work.
    HiSoftirq,
    /// `TIMER` softirq outside network work.
    TimerSoftirq,
    /// `BLOCK` softirq.
    BlockSoftirq,
    /// `IRQ_POLL` softirq.
    IrqPollSoftirq,
    /// `TASKLET` softirq outside network work.
    TaskletSoftirq,
    /// `SCHED` softirq.
    SchedSoftirq,
    /// `HRTIMER` softirq outside network work.
    HrtimerSoftirq,
    /// `RCU` softirq.
    RcuSoftirq,
}

impl Reason {
    /// All reasons, network ones first.
    pub const ALL: [Reason; 14] = [
        Reason::HostTraffic,
        Reason::Forwarding,
        Reason::UnknownNamespace,
        Reason::NoSlot,
        Reason::NoPacket,
        Reason::OtherHardirq,
        Reason::HiSoftirq,
        Reason::TimerSoftirq,
        Reason::BlockSoftirq,
        Reason::IrqPollSoftirq,
        Reason::TaskletSoftirq,
        Reason::SchedSoftirq,
        Reason::HrtimerSoftirq,
        Reason::RcuSoftirq,
    ];

    /// Whether the time is network CPU all the same.
    pub fn is_network(self) -> bool {
        self < Reason::OtherHardirq
    }

    /// Short name for tables.
    pub fn label(self) -> &'static str {
        match self {
            Reason::HostTraffic => "host traffic",
            Reason::Forwarding => "forwarding only",
            Reason::UnknownNamespace => "unknown namespace",
            Reason::NoSlot => "no slot left",
            Reason::NoPacket => "no packet",
            Reason::OtherHardirq => "other hardirq",
            Reason::HiSoftirq => "softirq hi",
            Reason::TimerSoftirq => "softirq timer",
            Reason::BlockSoftirq => "softirq block",
            Reason::IrqPollSoftirq => "softirq irq_poll",
            Reason::TaskletSoftirq => "softirq tasklet",
            Reason::SchedSoftirq => "softirq sched",
            Reason::HrtimerSoftirq => "softirq hrtimer",
            Reason::RcuSoftirq => "softirq rcu",
        }
    }
}

/// Time measured on one CPU, independent of its owner. Nanoseconds, cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// All softirq time, nested hardirqs left out.
    pub softirq_ns: u64,
    /// The part of `softirq_ns` in NET_RX and NET_TX.
    pub network_softirq_ns: u64,
    /// All device hardirq time.
    pub hardirq_ns: u64,
    /// Run time of NAPI threads, nested interrupts left out.
    pub napi_thread_ns: u64,
    /// Time in system calls of one container that drained another's packets.
    pub drain_ns: u64,
    /// Σ caused + Σ unattributed on this CPU: the measured time as the ledgers have it.
    pub attributed_ns: u64,
    /// Σ charged on this CPU to containers and to cgroups of the host (network and other).
    pub charged_ns: u64,
    /// Measured time charged to neither: that of the idle task, of threads that do network work
    /// themselves, and `charged_host_ns`.
    pub charged_nobody_ns: u64,
    /// Network CPU that ran in tasks of cgroups that have no row of their own (yet).
    #[serde(default)]
    pub charged_host_ns: u64,
    /// Number of times that a network softirq, receive or transmit, interrupted a task. The idle
    /// task and threads that do network work themselves do not count, and neither does a softirq
    /// that follows another within 2 µs.
    #[serde(default)]
    pub interruptions: u64,
}

impl CpuTime {
    /// Time that can be for packets: network softirq + hardirq + NAPI-thread + drain time.
    pub fn network_ns(&self) -> u64 {
        self.network_softirq_ns + self.hardirq_ns + self.napi_thread_ns + self.drain_ns
    }

    /// Sum of this time and `scale` times `more`.
    #[must_use]
    pub fn plus(self, more: CpuTime, scale: f64) -> CpuTime {
        self.with(more, |now, more| now + (more as f64 * scale).round() as u64)
    }

    /// Joins each field with the same field of `other`.
    fn with(self, other: CpuTime, join: impl Fn(u64, u64) -> u64) -> CpuTime {
        CpuTime {
            softirq_ns: join(self.softirq_ns, other.softirq_ns),
            network_softirq_ns: join(self.network_softirq_ns, other.network_softirq_ns),
            hardirq_ns: join(self.hardirq_ns, other.hardirq_ns),
            napi_thread_ns: join(self.napi_thread_ns, other.napi_thread_ns),
            drain_ns: join(self.drain_ns, other.drain_ns),
            attributed_ns: join(self.attributed_ns, other.attributed_ns),
            charged_ns: join(self.charged_ns, other.charged_ns),
            charged_nobody_ns: join(self.charged_nobody_ns, other.charged_nobody_ns),
            charged_host_ns: join(self.charged_host_ns, other.charged_host_ns),
            interruptions: join(self.interruptions, other.interruptions),
        }
    }

    /// softirq + hardirq + NAPI-thread + drain time.
    pub fn measured_ns(&self) -> u64 {
        self.softirq_ns + self.hardirq_ns + self.napi_thread_ns + self.drain_ns
    }
}

impl Sub for CpuTime {
    type Output = CpuTime;
    fn sub(self, earlier: Self) -> CpuTime {
        self.with(earlier, u64::saturating_sub)
    }
}
