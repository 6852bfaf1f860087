//! The experiment as one file: everything that decides what is measured.

use super::quantity::{BitRate, Size, Span};
use crate::data::{Care, CellKey, Resource, RuntimeKind, Scenario};
use crate::error::BenchError;
use crate::host_facts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// Smallest limit of a tenant's memory: the generator itself must fit.
const LEAST_MEMORY: u64 = 32 * MIB;
/// Smallest share of the cache: half of it is still a set of lines.
const LEAST_LLC: u64 = 64 << 10;
/// A tenant's limit by default is this part of the host's memory, in whole MiB.
const PARTS_OF_MEMORY: u64 = 16;
const MIB: u64 = 1 << 20;

/// A whole experiment. Unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name, for people.
    #[serde(default = "unnamed")]
    pub name: String,
    /// What runs the tenants, in this order.
    pub runtimes: Vec<RuntimeKind>,
    /// What the tenants compete for.
    #[serde(default = "paper_resources")]
    pub resources: Vec<Resource>,
    /// What the tenants do; the baseline of each contended scenario is added where it is missing.
    #[serde(default = "Scenario::paper")]
    pub scenarios: Vec<Scenario>,
    /// Blocks: in each, every scenario is measured once, in an order drawn at random.
    pub repetitions: u32,
    /// Cut off at the beginning of each cell: nothing in it counts.
    pub warmup: Span,
    /// Measured in each cell after that.
    pub measure: Span,
    /// Seed of the orders and of the bootstrap.
    #[serde(default = "one")]
    pub seed: u64,
    /// Measure everything once more with Cofferdam's agent looking after the tenants.
    #[serde(default)]
    pub cofferdam: bool,
    /// The limits of each tenant; both have the same.
    #[serde(default)]
    pub limits: Limits,
    /// Rate of the link that the tenants share towards their peer.
    #[serde(default = "link")]
    pub link: BitRate,
}

/// One tenant's limits. Each is set only while its resource is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// CPUs; absent: a quarter of the host's, as in the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Memory; absent: a sixteenth of the host's. An unrestricted tenant takes three limits' worth,
    /// so that with its neighbour a quarter of the host is used, and the host lives on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Block operations a second: seven tenths reads, three tenths writes. Absent: a quarter of
    /// what an unrestricted process alone gets of this disk, measured before the first disk cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_iops: Option<u32>,
    /// Size of the file that disk loads use.
    pub disk_file: Size,
    /// Network, by HTB on the tenant's interface.
    pub network: BitRate,
    /// Share of the last-level cache, which no runtime keeps; absent: half of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llc: Option<Size>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            cpus: None,
            memory: None,
            disk_iops: None,
            disk_file: Size(64 << 20),
            network: BitRate(200_000_000),
            llc: None,
        }
    }
}

fn unnamed() -> String {
    "unnamed".to_owned()
}

fn paper_resources() -> Vec<Resource> {
    Resource::PAPER.to_vec()
}

fn one() -> u64 {
    1
}

fn link() -> BitRate {
    BitRate(400_000_000)
}

impl Experiment {
    /// The whole matrix of one runtime in about ten minutes: 64 cells five times.
    pub fn quick() -> Experiment {
        Experiment {
            name: "quick".to_owned(),
            runtimes: vec![RuntimeKind::Process],
            resources: paper_resources(),
            scenarios: Scenario::paper(),
            repetitions: 5,
            warmup: Span(Duration::from_millis(400)),
            measure: Span(Duration::from_millis(1200)),
            seed: 1,
            cofferdam: false,
            limits: Limits::default(),
            link: link(),
        }
    }

    /// The paper's: 30 minutes a scenario, ten times; 80 hours a resource.
    pub fn paper() -> Experiment {
        Experiment {
            name: "paper".to_owned(),
            repetitions: 10,
            warmup: Span(Duration::from_secs(60)),
            measure: Span(Duration::from_secs(1740)),
            ..Experiment::quick()
        }
    }

    /// Reads a file. Errors name the line and the column, and what is allowed.
    pub fn read(path: &Path) -> Result<Experiment, BenchError> {
        let text = std::fs::read_to_string(path).map_err(|source| BenchError::Host {
            action: "read",
            path: path.to_owned(),
            source,
        })?;
        Experiment::parse(&text, &path.display().to_string())
    }

    /// Reads YAML; `name` is what errors call it.
    pub fn parse(text: &str, name: &str) -> Result<Experiment, BenchError> {
        let options = serde_saphyr::options! { with_snippet: false };
        let mut experiment: Experiment = serde_saphyr::from_str_with_options(text, options)
            .map_err(|e| BenchError::Usage(located(name, &e)))?;
        experiment.complete();
        experiment
            .check()
            .map_err(|reason| BenchError::Usage(format!("{name}: {reason}")))?;
        Ok(experiment)
    }

    /// Adds missing baselines and puts the scenarios into the paper's order.
    pub fn complete(&mut self) {
        let baselines: Vec<Scenario> = self.scenarios.iter().map(|s| s.baseline()).collect();
        self.scenarios.extend(baselines);
        self.scenarios.sort_by_key(|s| s.number());
        self.scenarios.dedup();
    }

    /// What no single value tells.
    pub fn check(&self) -> Result<(), String> {
        let twice = |name: &str| Err(format!("'{name}' has a value twice"));
        if self.runtimes.is_empty() || self.resources.is_empty() || self.scenarios.is_empty() {
            return Err("'runtimes', 'resources' and 'scenarios' need at least one value".into());
        }
        if !unique(&self.runtimes) {
            return twice("runtimes");
        }
        if !unique(&self.resources) {
            return twice("resources");
        }
        if self.repetitions == 0 || self.repetitions > 1000 {
            return Err(format!(
                "'repetitions' is {}: give 1 to 1000",
                self.repetitions
            ));
        }
        if self.measure.0 < Duration::from_millis(200) {
            return Err(format!(
                "'measure' is {}: give at least 200ms",
                self.measure
            ));
        }
        let host = host_facts::online_cpus().len() as f64;
        if let Some(cpus) = self.limits.cpus
            && !(cpus >= 0.05 && cpus <= host)
        {
            return Err(format!("'limits.cpus' is {cpus}: give 0.05 to {host}"));
        }
        let memory = self.memory();
        if memory.0 < LEAST_MEMORY {
            return Err(format!(
                "'limits.memory' is {memory}: give at least {}",
                Size(LEAST_MEMORY)
            ));
        }
        if self.limits.disk_iops == Some(0) {
            return Err("'limits.disk_iops' is 0: give at least 1".into());
        }
        if self.limits.llc.is_some_and(|llc| llc.0 < LEAST_LLC) {
            return Err(format!(
                "'limits.llc' is {}: give at least {}",
                self.llc(),
                Size(LEAST_LLC)
            ));
        }
        if self.limits.network.0 > self.link.0 {
            return Err(format!(
                "'limits.network' is {}, more than the 'link' of {}",
                self.limits.network, self.link
            ));
        }
        Ok(())
    }

    /// A tenant's limit in CPUs.
    pub fn cpus(&self) -> f64 {
        let host = host_facts::online_cpus().len() as f64;
        self.limits.cpus.unwrap_or(host / 4.0)
    }

    /// A tenant's limit of memory.
    pub fn memory(&self) -> Size {
        let part = host_facts::memory_bytes() / PARTS_OF_MEMORY;
        self.limits.memory.unwrap_or(Size(part & !(MIB - 1)))
    }

    /// A tenant's share of the last-level cache; 0 where the host does not tell its size.
    pub fn llc(&self) -> Size {
        let half = || host_facts::last_level_cache_bytes().unwrap_or(0) / 2;
        self.limits.llc.unwrap_or_else(|| Size(half()))
    }

    /// Every cell in the order in which they are measured: runtime, care and resource outside,
    /// because their tenants live on from cell to cell; within, block by block, each shuffled.
    /// The same seed gives the same order, wherever a run was interrupted.
    pub fn cells(&self) -> Vec<CellKey> {
        let cares: &[Care] = match self.cofferdam {
            true => Care::ALL,
            false => &[Care::Vanilla],
        };
        let mut cells = Vec::new();
        for runtime in &self.runtimes {
            for care in cares {
                for resource in &self.resources {
                    for repetition in 0..self.repetitions {
                        let place = (*runtime as u64) << 24 | (*care as u64) << 16;
                        let place = place | (*resource as u64) << 32 | u64::from(repetition);
                        let mut random = fastrand::Rng::with_seed(self.seed ^ place);
                        let mut block = self.scenarios.clone();
                        random.shuffle(&mut block);
                        cells.extend(block.into_iter().map(|scenario| CellKey {
                            runtime: *runtime,
                            care: *care,
                            resource: *resource,
                            scenario,
                            repetition,
                        }));
                    }
                }
            }
        }
        cells
    }

    /// The JSON Schema of the file.
    pub fn schema() -> schemars::Schema {
        schemars::schema_for!(Experiment)
    }
}

fn unique<T: std::hash::Hash + Eq>(values: &[T]) -> bool {
    let mut seen = HashSet::new();
    values.iter().all(|v| seen.insert(v))
}

/// `FILE:LINE:COLUMN: what is wrong`.
fn located(name: &str, error: &serde_saphyr::Error) -> String {
    let message = error.without_snippet().to_string();
    // The parser ends its messages with the place, which stands at the front here.
    let message = message.split(" at line ").next().unwrap_or_default();
    match error.location() {
        Some(at) => format!("{name}:{}:{}: {message}", at.line(), at.column()),
        None => format!("{name}: {message}"),
    }
}

#[cfg(test)]
mod tests;
