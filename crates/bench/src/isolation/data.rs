//! Results of `bench isolation`: how much two tenants with equal limits disturb each other
//! (methodology of ICPE'23).

mod kind;

pub use kind::{GeneratorKind, Level, Protection, Resource, RuntimeKind, Scenario};

use super::Experiment;
use crate::data::Estimate;
pub use crate::noise::DISTURBING_STEAL;
use crate::run::error::DataError;
use crate::run::load::document;
use crate::run::{RunData, RunSamples, SampleSet};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Identity of a cell; a run measures each only once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CellKey {
    /// Runtime of the tenants.
    pub runtime: RuntimeKind,
    /// With or without Cofferdam.
    #[serde(default, rename = "care")]
    pub protection: Protection,
    /// Resource for which the tenants compete.
    pub resource: Resource,
    /// Levels of the two tenants.
    pub scenario: Scenario,
    /// Number of the block, from 0: each block has every scenario once, in a random order.
    pub repetition: u32,
}

impl std::fmt::Display for CellKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.runtime)?;
        if self.protection != Protection::Vanilla {
            write!(f, "+{}", self.protection)?;
        }
        write!(
            f,
            "/{}/{}#{}",
            self.resource, self.scenario, self.repetition
        )
    }
}

/// Counters of a tenant at one moment, from its cgroup's files, since the cell began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Time since the start of the load, milliseconds.
    pub t_ms: f64,
    /// CPU time used, milliseconds.
    pub cpu_ms: f64,
    /// Resident anonymous memory, bytes.
    pub rss_bytes: u64,
    /// Block I/O operations.
    pub io_ops: u64,
    /// Block I/O, bytes.
    pub io_bytes: u64,
    /// Sent through its interfaces, packets.
    pub tx_packets: u64,
    /// Sent through its interfaces, bytes.
    pub tx_bytes: u64,
    /// Received through its interfaces, packets.
    #[serde(default)]
    pub rx_packets: u64,
    /// Received through its interfaces, bytes.
    #[serde(default)]
    pub rx_bytes: u64,
    /// Finished operations of its load generator.
    pub ops: u64,
    /// Bytes that its load generator has moved; for the network, bytes received at the peer.
    pub bytes: u64,
    /// BPF's counters at the same moment; `None` if the programs could not be loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<TracedPoint>,
}

/// BPF's counters of a tenant at one moment, by its cgroup, since the cell began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedPoint {
    /// Resident memory of its processes by the tracepoint `rss_stat`, bytes.
    pub rss_bytes: u64,
    /// Requests of the tenant that block devices completed.
    pub device_ops: u64,
    /// Bytes of those requests.
    pub device_bytes: u64,
}

/// Figures of one tenant in a cell, within the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantSample {
    /// Demand of its load in the resource's own unit; `None`: all that it can get.
    pub asked: Option<f64>,
    /// Use of the resource by the kernel's count: CPUs, resident bytes, operations/s, bit/s.
    pub used: f64,
    /// Rate of its work, in [`Resource::performance_unit`].
    pub performance: f64,
    /// Median time from an operation's due time to its end, microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of that time, microseconds.
    pub p99_us: Option<f64>,
    /// Operations given up as too late, or never received.
    pub lost: u64,
    /// Restarts after a kill.
    pub restarts: u64,
    /// Counters each 100 ms.
    pub series: Vec<Point>,
}

/// One measured cell: a line of `samples.jsonl` in isolation runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IsolationSample {
    /// Schema of this line.
    pub schema: u32,
    /// End of the cell, RFC 3339 in UTC.
    pub time: String,
    /// Identity of the cell.
    pub key: CellKey,
    /// Position within its block, from 0: the drawn order.
    pub position: u32,
    /// Number of the attempt, from 0: a measurement that the hypervisor disturbed is repeated.
    #[serde(default)]
    pub attempt: u32,
    /// Length of the measured window, seconds.
    pub window_s: f64,
    /// Each tenant's limit, in the resource's own unit.
    #[serde(default)]
    pub limit: f64,
    /// The judged tenant.
    pub a: TenantSample,
    /// The neighbour.
    pub b: Option<TenantSample>,
    /// CPU time of the acquisition and its BPF programs, percent of one CPU, for each tenant.
    pub acquisition_cpu_pct: f64,
    /// Share of all CPUs that the hypervisor took during the cell, 0 to 1.
    pub steal_fraction: Option<f64>,
}

impl IsolationSample {
    /// Share of the CPUs that the hypervisor took; 0 if the host does not report it.
    pub fn steal(&self) -> f64 {
        self.steal_fraction.unwrap_or(0.0)
    }

    /// Whether the hypervisor disturbed the cell.
    pub fn is_disturbed(&self) -> bool {
        self.steal() > DISTURBING_STEAL
    }
}

/// Samples of an isolation run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IsolationSamples {
    /// Samples that count, one a cell.
    pub samples: Vec<IsolationSample>,
    /// Disturbed measurements of cells that were repeated.
    pub repeated: Vec<IsolationSample>,
    /// Experiment of the run; `None` if the run did not get that far.
    pub experiment: Option<Box<Experiment>>,
}

impl IsolationSamples {
    /// Samples of `run`; empty for another experiment.
    pub fn of(run: &RunData) -> &IsolationSamples {
        static NONE: IsolationSamples = IsolationSamples {
            samples: Vec::new(),
            repeated: Vec::new(),
            experiment: None,
        };
        match &run.samples {
            RunSamples::Isolation(samples) => samples,
            _ => &NONE,
        }
    }
}

/// Name of the experiment's file within a run directory.
pub(crate) const EXPERIMENT: &str = "experiment.json";

impl SampleSet for IsolationSamples {
    fn read(dir: &Path) -> Result<IsolationSamples, DataError> {
        let (samples, repeated) = split_repeated(Vec::read(dir)?);
        Ok(IsolationSamples {
            samples,
            repeated,
            experiment: document(&dir.join(EXPERIMENT))?,
        })
    }

    fn count(&self) -> usize {
        self.samples.len()
    }
}

/// Separates the samples that count from the repeated ones. The sample of a cell with the least
/// steal time counts, whatever its figures are; the first of equals. The order stays.
pub fn split_repeated(
    samples: Vec<IsolationSample>,
) -> (Vec<IsolationSample>, Vec<IsolationSample>) {
    let mut best: HashMap<CellKey, (f64, u32)> = HashMap::new();
    for sample in &samples {
        let this = (sample.steal(), sample.attempt);
        let least = best.entry(sample.key.clone()).or_insert(this);
        if this
            .0
            .total_cmp(&least.0)
            .then(this.1.cmp(&least.1))
            .is_lt()
        {
            *least = this;
        }
    }
    samples.into_iter().partition(|s| {
        best.get(&s.key)
            .is_some_and(|(_, attempt)| *attempt == s.attempt)
    })
}

/// One row of the paper's table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IsolationRow {
    /// Number in the paper.
    pub id: u32,
    /// Levels of the two tenants.
    pub scenario: Scenario,
    /// Utilisation by a, percent of the capacity.
    pub utilisation_pct: Estimate,
    /// Utilisation by b, percent of the capacity.
    pub b_utilisation_pct: Option<Estimate>,
    /// |a − a′| in points, halved for CPU, as in the paper's tables.
    pub i_ulr: Option<f64>,
    /// 100·|a − a′| ÷ a, as in the paper's tables.
    pub i_plr: Option<f64>,
    /// 100·(a − a′) ÷ a block by block; below 0 a used more.
    pub utilisation_loss_pct: Option<Estimate>,
    /// Rate of a's work.
    pub performance: Estimate,
    /// 100·(p − p′) ÷ p block by block; below 0 it gained.
    pub performance_loss_pct: Option<Estimate>,
    /// Ratio of use to demand; `None` if a asked for all that it can get.
    pub achieved: Option<Estimate>,
    /// 99th percentile of the time of a's operations, microseconds.
    pub p99_us: Option<Estimate>,
    /// p99′ ÷ p99 block by block.
    pub p99_factor: Option<Estimate>,
    /// Most restarts in one cell.
    pub restarts: u64,
}

/// Table of one runtime and resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IsolationTable {
    /// Runtime of the tenants.
    pub runtime: RuntimeKind,
    /// With or without Cofferdam.
    #[serde(default, rename = "care")]
    pub protection: Protection,
    /// Resource for which the tenants compete.
    pub resource: Resource,
    /// Capacity, which is 100%, in the resource's own unit.
    pub capacity: f64,
    /// Rows by id.
    pub rows: Vec<IsolationRow>,
}

impl IsolationTable {
    /// Title such as `podman: network`; says whether Cofferdam's agent ran.
    pub fn title(&self) -> String {
        match self.protection {
            Protection::Vanilla => format!("{}: {}", self.runtime, self.resource),
            Protection::Cofferdam => format!("{}: {}, with Cofferdam", self.runtime, self.resource),
        }
    }
}

/// Environment of the measurement, which `bench compare` compares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IsolationEnvironment {
    /// Facts of the host that the manifest does not have, by name.
    pub host: BTreeMap<String, String>,
    /// Version by runtime.
    pub runtimes: BTreeMap<String, String>,
    /// Image → digest.
    pub images: BTreeMap<String, String>,
}

/// Result of an isolation run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IsolationResult {
    /// Environment of the measurement.
    pub environment: IsolationEnvironment,
    /// Tables, one for each runtime, protection and resource.
    pub tables: Vec<IsolationTable>,
    /// Runtimes that this host lacks, with the reason.
    pub unavailable: BTreeMap<String, String>,
    /// Cells that could not be measured, with the reason.
    pub failed: BTreeMap<String, String>,
    /// Number of measured cells, and of cells of the whole experiment.
    pub done: [u32; 2],
    /// Number of disturbed measurements that were repeated and do not count.
    #[serde(default)]
    pub repeated: u32,
    /// CPU time of the acquisition, percent of one CPU, for each tenant.
    pub acquisition_cpu_pct: Option<Estimate>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 44.
    #[test]
    fn of_several_attempts_the_calmest_counts() {
        let sample = |repetition: u32, attempt: u32, steal: Option<f64>| IsolationSample {
            schema: crate::data::SCHEMA,
            time: String::new(),
            key: CellKey {
                runtime: RuntimeKind::Process,
                protection: Protection::Vanilla,
                resource: Resource::Cpu,
                scenario: "a_s".parse().unwrap(),
                repetition,
            },
            position: 0,
            attempt,
            window_s: 1.0,
            limit: 1.0,
            a: TenantSample::default(),
            b: None,
            acquisition_cpu_pct: 0.0,
            steal_fraction: steal,
        };
        assert!(!sample(0, 0, Some(DISTURBING_STEAL)).is_disturbed());
        assert!(sample(0, 0, Some(DISTURBING_STEAL + 1e-9)).is_disturbed());
        assert!(!sample(0, 0, None).is_disturbed());
        let all = vec![
            sample(0, 0, Some(0.3)),
            sample(1, 0, None),
            sample(2, 0, Some(0.2)),
            sample(0, 1, Some(0.1)),
            sample(0, 2, Some(0.4)),
            sample(2, 1, Some(0.2)),
        ];
        let (counting, repeated) = split_repeated(all);
        let short = |samples: &[IsolationSample]| -> Vec<(u32, u32)> {
            samples
                .iter()
                .map(|s| (s.key.repetition, s.attempt))
                .collect()
        };
        assert_eq!(short(&counting), [(1, 0), (2, 0), (0, 1)]);
        assert_eq!(short(&repeated), [(0, 0), (0, 2), (2, 1)]);
    }

    /// Promise 43.
    #[test]
    fn the_scenarios_are_the_papers() {
        let names: Vec<String> = Scenario::paper().iter().map(Scenario::to_string).collect();
        assert_eq!(
            names,
            [
                "a_u", "a_s", "a_o", "a_f", "a_u_b_u", "a_u_b_s", "a_u_b_o", "a_u_b_f", "a_s_b_u",
                "a_s_b_s", "a_s_b_o", "a_s_b_f", "a_o_b_u", "a_o_b_s", "a_o_b_o", "a_o_b_f"
            ]
        );
        for (i, scenario) in Scenario::all().into_iter().enumerate() {
            assert_eq!(scenario.number(), i + 1);
            assert_eq!(scenario.to_string().parse(), Ok(scenario));
        }
        assert_eq!(Scenario::all().len(), 20);
        assert!("a_x".parse::<Scenario>().is_err());
    }
}
