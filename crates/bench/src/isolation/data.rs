//! What `bench isolation` measured: how much two tenants with equal limits feel of each other
//! (methodology of ICPE'23).

mod kind;

pub use kind::{GeneratorKind, Level, Protection, Resource, RuntimeKind, Scenario};

use super::Experiment;
use crate::data::Estimate;
pub use crate::noise::DISTURBING_STEAL;
use crate::run::error::DataError;
use crate::run::load::document;
use crate::run::{Kept, RunData, RunSamples};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Which measurement: a run never makes the same one twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CellKey {
    /// What ran the tenants.
    pub runtime: RuntimeKind,
    /// With or without Cofferdam.
    #[serde(default, rename = "care")]
    pub protection: Protection,
    /// What they competed for.
    pub resource: Resource,
    /// What they did.
    pub scenario: Scenario,
    /// Number of the block, from 0: each block has every scenario once, in an order of its own.
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

/// One moment of a tenant, by its cgroup's files: counters since the cell began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Since the load was let go, milliseconds.
    pub t_ms: f64,
    /// CPU time used, milliseconds.
    pub cpu_ms: f64,
    /// Anonymous memory held, bytes.
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
    /// Operations that its load generator had done.
    pub ops: u64,
    /// Bytes that its load generator had moved; for the network, that had arrived at the peer.
    pub bytes: u64,
    /// The same moment by BPF; `None` where the programs could not be loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<Traced>,
}

/// One moment of a tenant by BPF, by its cgroup: counters since the cell began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// Resident memory of its processes by the tracepoint `rss_stat`, bytes.
    pub rss_bytes: u64,
    /// Requests that block devices completed for it.
    pub device_ops: u64,
    /// Bytes of those.
    pub device_bytes: u64,
}

/// What one tenant did in a cell, within the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantSample {
    /// What its load was asked for, in the resource's own unit; `None`: as much as it can.
    pub asked: Option<f64>,
    /// What it got of the resource, by the kernel's count: CPUs, bytes held, operations/s, bit/s.
    pub used: f64,
    /// What its work achieved, in [`Resource::performance_unit`].
    pub performance: f64,
    /// Median time from when an operation was due until it was done, microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of that.
    pub p99_us: Option<f64>,
    /// Operations given up as too late, or that never arrived.
    pub lost: u64,
    /// Times it was killed and began again.
    pub restarts: u64,
    /// Its counters each 100 ms.
    pub series: Vec<Point>,
}

/// One finished cell: a line of `samples.jsonl` in isolation runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IsolationSample {
    /// Schema of this line.
    pub schema: u32,
    /// End of the cell, RFC 3339 in UTC.
    pub time: String,
    /// Which.
    pub key: CellKey,
    /// Place within its block, from 0: the order that was drawn.
    pub position: u32,
    /// Which measurement of this cell, from 0: one that the hypervisor disturbed is made again.
    #[serde(default)]
    pub attempt: u32,
    /// Length of the measured window, seconds.
    pub window_s: f64,
    /// Each tenant's limit, in the resource's own unit.
    #[serde(default)]
    pub limit: f64,
    /// The tenant that is judged.
    pub a: TenantSample,
    /// The other.
    pub b: Option<TenantSample>,
    /// CPU that the acquisition took, its BPF programs included, percent of one CPU a tenant.
    pub acquisition_cpu_pct: f64,
    /// Share of all CPUs that the hypervisor took meanwhile, 0 to 1.
    pub steal_fraction: Option<f64>,
}

impl IsolationSample {
    /// Share of the CPUs that the hypervisor took; 0 where the host does not tell.
    pub fn steal(&self) -> f64 {
        self.steal_fraction.unwrap_or(0.0)
    }

    /// Whether the hypervisor disturbed it.
    pub fn disturbed(&self) -> bool {
        self.steal() > DISTURBING_STEAL
    }
}

/// What an isolation run keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IsolationSamples {
    /// What counts, one a cell.
    pub samples: Vec<IsolationSample>,
    /// Disturbed measurements of its cells that were made again.
    pub repeated: Vec<IsolationSample>,
    /// What was to be measured; `None` where the run did not get that far.
    pub experiment: Option<Box<Experiment>>,
}

impl IsolationSamples {
    /// Those of `run`; none if it is another experiment's.
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

impl Kept for IsolationSamples {
    fn read(dir: &Path) -> Result<IsolationSamples, DataError> {
        let (samples, repeated) = counted(Vec::read(dir)?);
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

/// Divides what was measured into what counts and the disturbed measurements that were made again.
/// Of each cell the one counts during which the hypervisor took least, whatever its figures are;
/// of equals the first. The order stays.
pub fn counted(samples: Vec<IsolationSample>) -> (Vec<IsolationSample>, Vec<IsolationSample>) {
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
    /// The paper's number.
    pub id: u32,
    /// What the tenants did.
    pub scenario: Scenario,
    /// Utilisation by a, percent of the capacity.
    pub utilisation_pct: Estimate,
    /// Utilisation by b.
    pub b_utilisation_pct: Option<Estimate>,
    /// |a − a′| in points, halved for CPU: as the paper's tables have it.
    pub i_ulr: Option<f64>,
    /// 100·|a − a′| ÷ a: as the paper's tables have it.
    pub i_plr: Option<f64>,
    /// 100·(a − a′) ÷ a block by block: below 0 it gained.
    pub utilisation_loss_pct: Option<Estimate>,
    /// What its work achieved.
    pub performance: Estimate,
    /// 100·(p − p′) ÷ p block by block: below 0 it gained.
    pub performance_loss_pct: Option<Estimate>,
    /// Achieved ÷ asked; `None` where it asked for all it can get.
    pub achieved: Option<Estimate>,
    /// 99th percentile of its operations' time, microseconds.
    pub p99_us: Option<Estimate>,
    /// p99′ ÷ p99 block by block.
    pub p99_factor: Option<Estimate>,
    /// Most restarts in one cell.
    pub restarts: u64,
}

/// One table: a runtime and a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IsolationTable {
    /// What ran the tenants.
    pub runtime: RuntimeKind,
    /// With or without Cofferdam.
    #[serde(default, rename = "care")]
    pub protection: Protection,
    /// What they competed for.
    pub resource: Resource,
    /// What 100% is, in the resource's own unit.
    pub capacity: f64,
    /// By id.
    pub rows: Vec<IsolationRow>,
}

impl IsolationTable {
    /// `podman: network`, and whether Cofferdam was at work.
    pub fn title(&self) -> String {
        match self.protection {
            Protection::Vanilla => format!("{}: {}", self.runtime, self.resource),
            Protection::Cofferdam => format!("{}: {}, with Cofferdam", self.runtime, self.resource),
        }
    }
}

/// What was measured with: compared by `bench compare`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IsolationEnvironment {
    /// Facts of the host that the manifest does not have, by name.
    pub host: BTreeMap<String, String>,
    /// Runtime → what it says its version is.
    pub runtimes: BTreeMap<String, String>,
    /// Image → digest.
    pub images: BTreeMap<String, String>,
}

/// The outcome of an isolation run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IsolationResult {
    /// Where it was measured.
    pub environment: IsolationEnvironment,
    /// One a runtime, protection and resource.
    pub tables: Vec<IsolationTable>,
    /// Runtimes that this host lacks, with the reason.
    pub unavailable: BTreeMap<String, String>,
    /// Cells that could not be measured, with the reason.
    pub failed: BTreeMap<String, String>,
    /// Cells that are measured and cells of the whole experiment.
    pub done: [u32; 2],
    /// Disturbed measurements that were made again and do not count.
    #[serde(default)]
    pub repeated: u32,
    /// CPU that the acquisition took, percent of one CPU for each tenant.
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
        assert!(!sample(0, 0, Some(DISTURBING_STEAL)).disturbed());
        assert!(sample(0, 0, Some(DISTURBING_STEAL + 1e-9)).disturbed());
        assert!(!sample(0, 0, None).disturbed());
        let all = vec![
            sample(0, 0, Some(0.3)),
            sample(1, 0, None),
            sample(2, 0, Some(0.2)),
            sample(0, 1, Some(0.1)),
            sample(0, 2, Some(0.4)),
            sample(2, 1, Some(0.2)),
        ];
        let (counting, repeated) = counted(all);
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
