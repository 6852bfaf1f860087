//! Synthetic intervals for tests.

use crate::interrupt::Interrupt;
use crate::source::Source;
use cofferdam_accounting::ReadError;
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_types::{
    CgroupId, Container, ContainerLedger, CpuId, CpuTime, Health, Interval, Ledger, NetnsId,
    Reason, Snapshot,
};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

const MS: u64 = 1_000_000;

/// Container with usual properties.
pub fn container(cgroup: u64, name: &str) -> Container {
    Container {
        netns: Some(NetnsId(4_026_531_000 + cgroup as u32)),
        pid: Some(100 + cgroup as u32),
        ..Container::plain(CgroupId(cgroup), format!("/tenants/{name}"), name)
    }
}

/// Ledger of a container: received packets, caused and charged milliseconds on CPU 0, CPU use.
pub fn entry(
    cgroup: u64,
    name: &str,
    packets: u64,
    caused_ms: u64,
    charged_ms: u64,
    cpu_ms: u64,
) -> ContainerLedger {
    ContainerLedger {
        container: Arc::new(container(cgroup, name)),
        ledger: Ledger {
            caused_rx_ns: caused_ms * MS,
            rx_packets: packets,
            rx_bytes: packets * 228,
            charged_network_ns: charged_ms * MS,
            cpu_usage_ns: cpu_ms * MS,
            ..Ledger::default()
        },
        caused_by_cpu_ns: vec![caused_ms * MS, 0],
        charged_by_cpu_ns: vec![charged_ms * MS, 0],
        interruptions_by_cpu: vec![charged_ms, 0],
        received_from: Default::default(),
    }
}

/// Reading `seconds` after `web-3` began to flood CPU 0, where `db-1` computes.
pub fn snapshot(seconds: u64) -> Snapshot {
    let s = seconds;
    Snapshot {
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + s),
        uptime: Duration::from_secs(s),
        cpus: vec![
            (
                CpuId(0),
                CpuTime {
                    softirq_ns: s * 450 * MS,
                    network_softirq_ns: s * 440 * MS,
                    hardirq_ns: s * MS,
                    attributed_ns: s * 451 * MS,
                    charged_ns: s * 410 * MS,
                    charged_nobody_ns: s * 41 * MS,
                    ..CpuTime::default()
                },
            ),
            (
                CpuId(1),
                CpuTime {
                    softirq_ns: s * 20 * MS,
                    network_softirq_ns: s * 5 * MS,
                    attributed_ns: s * 20 * MS,
                    charged_nobody_ns: s * 20 * MS,
                    ..CpuTime::default()
                },
            ),
        ],
        containers: vec![
            entry(11, "db-1", 0, 0, s * 310, s * 620),
            entry(12, "web-3", s * 700_000, s * 430, s * 100, s * 380),
            entry(13, "cache", 0, 0, 0, 0),
        ],
        unattributed_ns: BTreeMap::from([
            (Reason::HostTraffic, s * 5 * MS),
            (Reason::TimerSoftirq, s * 36 * MS),
        ]),
        health: Health::default(),
        sampling: None,
    }
}

/// First second of the flood.
pub fn interval() -> Interval {
    snapshot(1).since(&snapshot(0))
}

/// First second of the flood as a document.
pub fn record() -> AccountingRecord {
    AccountingRecord::new(&interval())
}

/// Readings from a list, without waiting.
pub struct Fake {
    /// Results of the next readings.
    pub readings: VecDeque<Result<Snapshot, ReadError>>,
    /// Number of waits that end in time; a signal ends every later one.
    pub waits: usize,
}

impl Fake {
    /// One reading for each second, and no signal.
    pub fn seconds(count: u64) -> Fake {
        Fake {
            readings: (0..=count).map(|s| Ok(snapshot(s))).collect(),
            waits: usize::MAX,
        }
    }
}

impl Source for Fake {
    fn follow(&mut self, _: Instant, _: BorrowedFd<'_>) -> Result<bool, ReadError> {
        match self.waits.checked_sub(1) {
            Some(left) => {
                self.waits = left;
                Ok(false)
            }
            None => Ok(true),
        }
    }

    fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        self.readings
            .pop_front()
            .unwrap_or_else(|| Err(ReadError("no more readings".to_owned())))
    }
}

/// An interrupt that no signal has raised.
pub fn quiet() -> Interrupt {
    Interrupt::install().unwrap()
}
