//! Synthetic fleet for measurements and tests. Its containers cause and pay for each other like
//! those of a recorded ledger, by a fixed rule for each host, container and hour.

use cofferdam_records::accounting::{
    ACCOUNTING, AccountingRecord, ConservationRecord, ContainerRecord, CpuRecord, HealthRecord,
};
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

/// Begin of all ledgers, seconds since 1970: the first hour of a day.
pub const BEGIN_S: u64 = 1_793_491_200;

/// Synthetic host.
pub struct Host {
    seed: u64,
    cpus: usize,
    containers: Vec<ContainerRecord>,
}

impl Host {
    /// Creates a host with this number of CPUs and containers. One container in ten receives much
    /// traffic.
    pub fn new(name: &str, cpus: usize, containers: usize) -> Host {
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let container = |n: usize| ContainerRecord {
            name: format!("app-{n}"),
            cgroup_id: 4000 + n as u64,
            cgroup_path: format!("/kubepods.slice/pod-{n}/{name}-{n}"),
            runtime: "containerd".to_owned(),
            pod: Some(format!(
                "team-{}/app-{n}-{:04x}",
                n % 17,
                mix(seed, n as u64) & 0xffff
            )),
            ..ContainerRecord::default()
        };
        Host {
            seed,
            cpus,
            containers: (0..containers).map(container).collect(),
        }
    }

    /// Record of the interval with this number and length.
    pub fn record(&self, number: u64, interval_s: f64) -> AccountingRecord {
        let end = Duration::from_secs(BEGIN_S)
            + Duration::from_secs_f64(interval_s * (number + 1) as f64);
        let of_day = (interval_s * number as f64 / 86_400.0).fract();
        let load = 0.6 + 0.4 * (of_day * std::f64::consts::TAU).sin();
        let containers: Vec<ContainerRecord> = (self.containers.iter().enumerate())
            .map(|(n, base)| self.container(n, base, number, interval_s * load))
            .collect();
        let measured: Vec<u64> = (0..self.cpus)
            .map(|cpu| containers.iter().map(|c| c.caused_by_cpu_ns[cpu]).sum())
            .collect();
        let sum = measured.iter().sum();
        AccountingRecord {
            schema: ACCOUNTING.to_owned(),
            time: cofferdam_records::time(UNIX_EPOCH + end),
            interval_s,
            containers,
            unattributed_ns: BTreeMap::from([("host_traffic".to_owned(), 1_000_000)]),
            conservation: ConservationRecord {
                measured_ns: sum,
                attributed_ns: sum,
                worst_cpu_error_pct: 0.0,
            },
            health: HealthRecord::default(),
            cpus: (0..)
                .zip(measured)
                .map(|(cpu, ns)| cpu_record(cpu, ns))
                .collect(),
            accounting: None,
            diagnosis: None,
        }
    }

    fn container(
        &self,
        n: usize,
        base: &ContainerRecord,
        number: u64,
        busy_s: f64,
    ) -> ContainerRecord {
        let noise = mix(self.seed, ((n as u64) << 32) ^ number);
        let budget_ns = busy_s * 1e9 * self.cpus as f64 / self.containers.len() as f64;
        let used_ns = budget_ns * (0.2 + 0.6 * unit(noise));
        let is_heavy = (mix(self.seed, n as u64) + n as u64).is_multiple_of(10);
        let caused_ns = used_ns * if is_heavy { 0.5 } else { 0.005 };
        let charged_ns = used_ns * if is_heavy { 0.2 } else { 0.02 };
        // Each container runs on two CPUs; its packets arrive on one of them.
        let home = n % self.cpus;
        let mut caused = vec![0; self.cpus];
        let mut charged = vec![0; self.cpus];
        caused[home] = caused_ns as u64;
        charged[home] += (charged_ns * 0.7) as u64;
        charged[(home + 1) % self.cpus] += (charged_ns * 0.3) as u64;
        let (caused_sum, charged_sum): (u64, u64) = (caused.iter().sum(), charged.iter().sum());
        let owed_ns = caused_sum.cast_signed() - charged_sum.cast_signed();
        ContainerRecord {
            caused_rx_ns: caused_sum,
            caused_ns: caused_sum,
            rx_packets: caused_sum / 1200,
            rx_bytes: caused_sum / 6,
            charged_network_ns: charged_sum,
            owed_ns,
            cpu_usage_ns: used_ns as u64,
            corrected_cpu_ns: (used_ns as i64) + owed_ns,
            caused_by_cpu_ns: caused,
            charged_by_cpu_ns: charged,
            ..base.clone()
        }
    }
}

fn cpu_record(cpu: u32, ns: u64) -> CpuRecord {
    CpuRecord {
        cpu,
        softirq_ns: ns,
        network_softirq_ns: ns,
        measured_ns: ns,
        attributed_ns: ns,
        ..CpuRecord::default()
    }
}

/// Pseudo-random 64 bits (splitmix64's finalizer).
fn mix(a: u64, b: u64) -> u64 {
    let mut z = a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Maps bits to the range 0 to 1.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
