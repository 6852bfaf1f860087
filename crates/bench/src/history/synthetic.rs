//! Synthetic frames: counts from a seed, as large as those of a host.

use super::data::HistoryCase;
use cofferdam_history::Frame;
use cofferdam_records::accounting::{
    ACCOUNTING, AccountingRecord, ConservationRecord, ContainerRecord, CpuRecord, HealthRecord,
};
use cofferdam_records::diagnosis::{CpuLossRecord, DiagnosisRecord, NeighbourRecord};
use cofferdam_types::Entitlement;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// CPUs of the host.
const CPUS: u64 = 2;

/// Generator of consecutive frames.
pub(super) struct Maker {
    random: fastrand::Rng,
    case: HistoryCase,
    containers: u32,
    end: SystemTime,
}

impl Maker {
    pub fn new(case: HistoryCase, containers: u32, begin: SystemTime, seed: u64) -> Maker {
        Maker {
            random: fastrand::Rng::with_seed(seed),
            case,
            containers,
            end: begin,
        }
    }

    /// Returns the next frame, `seconds` long.
    pub fn next(&mut self, seconds: u64) -> Frame {
        let length = Duration::from_secs(seconds);
        let start = self.end;
        self.end += length;
        let scale = seconds;
        let mut containers: Vec<_> = (0..self.containers)
            .map(|id| self.container(u64::from(id), scale))
            .collect();
        containers.sort_by_key(|c| (std::cmp::Reverse(c.owed_ns), c.cgroup_id));
        let losses = containers.iter().map(|c| self.loss(c, scale)).collect();
        let conservation = ConservationRecord {
            measured_ns: self.random.u64(..) >> 16,
            attributed_ns: self.random.u64(..) >> 16,
            worst_cpu_error_pct: self.random.f64(),
        };
        let mut any = |most: u64| self.random.u64(0..most) * scale;
        let diagnosis = DiagnosisRecord {
            interval_s: length.as_secs_f64(),
            counted_s: None,
            containers: losses,
            idle_ns: any(1_000_000_000),
            left_idle_ns: any(10_000_000),
            host_ns: any(500_000_000),
            containers_without_slot: 0,
            mismatches: 0,
            segments_rejected: 0,
            shares: Vec::new(),
            by_cpu: Vec::new(),
        };
        let reasons = [
            "host_traffic",
            "timer_softirq",
            "rcu_softirq",
            "sched_softirq",
            "no_packet",
        ];
        let unattributed: BTreeMap<_, _> = reasons
            .iter()
            .map(|reason| ((*reason).to_owned(), any(3_000_000)))
            .collect();
        let cpus = (0..CPUS).map(|cpu| CpuRecord {
            cpu: cpu as u32,
            softirq_ns: any(200_000_000),
            network_softirq_ns: any(150_000_000),
            hardirq_ns: any(5_000_000),
            napi_thread_ns: 0,
            drain_ns: any(100_000),
            measured_ns: any(205_000_000),
            attributed_ns: any(205_000_000),
            charged_ns: any(180_000_000),
            charged_nobody_ns: any(20_000_000),
            charged_host_ns: any(1_000_000),
        });
        let record = AccountingRecord {
            schema: ACCOUNTING.to_owned(),
            time: cofferdam_records::time(self.end),
            interval_s: length.as_secs_f64(),
            containers,
            unattributed_ns: unattributed,
            conservation,
            health: HealthRecord {
                containers_gone: 12,
                markers_missed: 3,
                ..HealthRecord::default()
            },
            cpus: cpus.collect(),
            accounting: None,
            diagnosis: Some(diagnosis),
        };
        Frame {
            start,
            end: self.end,
            length,
            resolution: length,
            record,
            conditions: Vec::new(),
        }
    }

    fn container(&mut self, id: u64, scale: u64) -> ContainerRecord {
        let busy = self.case == HistoryCase::All || id.is_multiple_of(10);
        let mut any = |most: u64| match busy {
            true => self.random.u64(0..most) * scale,
            false => 0,
        };
        let by_cpu = [any(20_000_000), any(20_000_000)];
        let charged_by_cpu = [any(20_000_000), any(20_000_000)];
        let caused_tx_ns = by_cpu[1] / 2;
        let caused_rx_ns = by_cpu[0] + by_cpu[1] - caused_tx_ns;
        let caused_ns = caused_rx_ns + caused_tx_ns;
        let charged_network_ns = charged_by_cpu[0] + charged_by_cpu[1];
        let owed_ns = caused_ns as i64 - charged_network_ns as i64;
        let (rx_packets, tx_packets) = (any(50_000), any(50_000));
        let senders = (0..u64::from(busy)).map(|n| (1000 + (id + n + 1) % 100, any(10_000)));
        let received_from = senders.collect();
        // An idle container wakes now and then.
        let cpu_usage_ns = any(900_000_000) + (id * 7919 % 50_000) * scale;
        let packets = rx_packets + tx_packets;
        ContainerRecord {
            name: format!("shop-front-{id}"),
            cgroup_id: 1000 + id,
            cgroup_path: format!("/kubepods.slice/kubepods-burstable.slice/pod-{id}/cri-{id:064x}"),
            id: Some(format!("{id:064x}")),
            runtime: "containerd".to_owned(),
            pod: Some(format!("shop/front-{id}")),
            netns: Some(4_026_532_000 + id as u32),
            host_network: false,
            caused_rx_ns,
            caused_tx_ns,
            caused_hardirq_ns: 0,
            caused_ns,
            rx_packets,
            rx_bytes: rx_packets * 900,
            tx_packets,
            tx_bytes: tx_packets * 700,
            charged_network_ns,
            charged_other_ns: charged_network_ns / 7 + id * 13 % 9_000 * scale,
            owed_ns,
            cpu_usage_ns,
            corrected_cpu_ns: cpu_usage_ns as i64 + owed_ns,
            ns_per_packet: (packets > 0).then(|| caused_ns as f64 / packets as f64),
            caused_by_cpu_ns: by_cpu.to_vec(),
            charged_by_cpu_ns: charged_by_cpu.to_vec(),
            received_from,
            interval_95: None,
        }
    }

    fn loss(&mut self, container: &ContainerRecord, scale: u64) -> CpuLossRecord {
        let busy = container.caused_ns > 0;
        let mut any = |most: u64| match busy {
            true => self.random.u64(0..most) * scale,
            false => 0,
        };
        CpuLossRecord {
            name: container.name.clone(),
            cgroup_id: container.cgroup_id,
            entitled_ns: any(1_000_000_000),
            entitled_by: Entitlement::Weight,
            got_ns: container.cpu_usage_ns,
            forced_sharing_ns: any(300_000_000),
            phantom_ns: any(50_000_000),
            throttled_ns: 0,
            lack_ns: any(600_000_000),
            neighbour: busy.then_some(NeighbourRecord::Host),
        }
    }
}
