//! Experiment file: everything that decides what is measured.

use super::quantity::{BitRate, Size, Span};
use crate::error::BenchError;
use crate::host_facts;
use crate::isolation::data::{CellKey, GeneratorKind, Protection, Resource, RuntimeKind, Scenario};
use cofferdam_paths::read_text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// Smallest memory limit of a tenant: the generator itself must fit.
const LEAST_MEMORY: u64 = 32 * MIB;
/// Smallest share of the cache: half of it is still a set of lines.
const LEAST_LLC: u64 = 64 << 10;
/// Ratio of the host's memory to the default limit of a tenant, which is in whole MiB.
const PARTS_OF_MEMORY: u64 = 16;
/// Largest file of an experiment, bytes.
const LARGEST_FILE_BYTES: u64 = 4 * MIB;
const MIB: u64 = 1 << 20;
/// Largest memory limit of the quick preset: an unrestricted tenant fills three times the limit
/// before its cell begins.
const QUICK_MEMORY: u64 = 1 << 30;

/// Shortest warm-up of a generator that is started for each cell.
const FOREIGN_START: Duration = Duration::from_millis(500);

/// A whole experiment. Unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// A label.
    #[serde(default = "default_name")]
    pub name: String,
    /// Runtimes of the tenants, in this order.
    pub runtimes: Vec<RuntimeKind>,
    /// Generator of their load; any but our own is a program of the host, and needs the runtime
    /// `process`.
    #[serde(default)]
    pub generator: GeneratorKind,
    /// Resources for which the tenants compete.
    #[serde(default = "paper_resources")]
    pub resources: Vec<Resource>,
    /// Levels of the tenants; a missing baseline of a contended scenario is added.
    #[serde(default = "Scenario::paper")]
    pub scenarios: Vec<Scenario>,
    /// Blocks, each of which measures every scenario once, in random order.
    pub repetitions: u32,
    /// Discarded at the beginning of each cell.
    pub warmup: Span,
    /// Measured in each cell after that.
    pub measure: Span,
    /// Maximum number of measurements of one cell: a measurement that the hypervisor disturbed is
    /// repeated at the end of its block. With 1, none is.
    #[serde(default = "three")]
    pub attempts: u32,
    /// Seed of the orders and of the bootstrap.
    #[serde(default = "one")]
    pub seed: u64,
    /// Repeat every measurement with Cofferdam's agent managing the tenants.
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
    /// Memory; if absent, a sixteenth of the host's. An unrestricted tenant uses three times the
    /// limit, so that with its neighbour a quarter of the host is used, and the host survives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Block operations a second: seven tenths reads, three tenths writes. If absent: a quarter of
    /// what an unrestricted process alone gets from this disk, measured before the first disk cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_iops: Option<u32>,
    /// Size of the file that disk loads use.
    pub disk_file: Size,
    /// Network, by HTB on the tenant's interface.
    pub network: BitRate,
    /// Datagrams of 64 bytes a second sent to a saturated tenant b (`network-cpu`), which no
    /// runtime limits.
    pub datagrams: u32,
    /// Share of the last-level cache, which no runtime enforces; if absent, half of it.
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
            datagrams: 100_000,
            llc: None,
        }
    }
}

/// Default memory limit of a tenant, bytes.
fn part_of_memory() -> u64 {
    (host_facts::memory_bytes() / PARTS_OF_MEMORY) & !(MIB - 1)
}

fn default_name() -> String {
    "unnamed".to_owned()
}

fn paper_resources() -> Vec<Resource> {
    Resource::PAPER.to_vec()
}

fn three() -> u32 {
    3
}

fn one() -> u64 {
    1
}

fn link() -> BitRate {
    BitRate(400_000_000)
}

impl Experiment {
    /// The whole matrix of one runtime in about ten minutes: 64 cells five times, each a second and
    /// its start. Filling memory takes longest, so the memory limit is bounded.
    pub fn quick() -> Experiment {
        Experiment {
            name: "quick".to_owned(),
            runtimes: vec![RuntimeKind::Process],
            generator: GeneratorKind::CofferdamLoad,
            resources: paper_resources(),
            scenarios: Scenario::paper(),
            repetitions: 5,
            warmup: Span(Duration::from_millis(300)),
            measure: Span(Duration::from_millis(700)),
            attempts: three(),
            seed: 1,
            cofferdam: false,
            limits: Limits {
                memory: Some(Size(part_of_memory().min(QUICK_MEMORY))),
                ..Limits::default()
            },
            link: link(),
        }
    }

    /// The paper's experiment: 30 minutes a scenario, ten times; 80 hours a resource.
    pub fn paper() -> Experiment {
        Experiment {
            name: "paper".to_owned(),
            repetitions: 10,
            warmup: Span(Duration::from_secs(60)),
            measure: Span(Duration::from_secs(1740)),
            limits: Limits::default(),
            ..Experiment::quick()
        }
    }

    /// Reads a file. Errors name the line, the column and the allowed values.
    pub fn read(path: &Path) -> Result<Experiment, BenchError> {
        let text = read_text(path, LARGEST_FILE_BYTES)
            .map_err(|why| BenchError::host("read", path)(why.into()))?;
        Experiment::parse(&text, &path.display().to_string())
    }

    /// Parses YAML. Errors call it `name`.
    pub fn parse(text: &str, name: &str) -> Result<Experiment, BenchError> {
        let options = serde_saphyr::options! { with_snippet: false };
        let mut experiment: Experiment = serde_saphyr::from_str_with_options(text, options)
            .map_err(|e| BenchError::Usage(locate_error(name, &e)))?;
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

    /// Checks the relations between values.
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
        if self.attempts == 0 || self.attempts > 10 {
            return Err(format!("'attempts' is {}: give 1 to 10", self.attempts));
        }
        if self.measure.0 < Duration::from_millis(200) {
            return Err(format!(
                "'measure' is {}: give at least 200ms",
                self.measure
            ));
        }
        self.check_generator()?;
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
        if self.limits.datagrams == 0 {
            return Err("'limits.datagrams' is 0: give at least 1".into());
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

    fn check_generator(&self) -> Result<(), String> {
        let generator = self.generator;
        let can = generator.resources();
        if let Some(other) = self.resources.iter().find(|r| !can.contains(r)) {
            let can: Vec<&str> = can.iter().map(|r| r.label()).collect();
            return Err(format!(
                "'generator' {generator} has no load for '{other}': set 'resources' to {}",
                can.join(", ")
            ));
        }
        let mut others = self.runtimes.iter();
        if generator.is_foreign()
            && let Some(other) = others.find(|r| **r != RuntimeKind::Process)
        {
            return Err(format!(
                "'generator' {generator} is a program of the host, which tenants of '{other}' do \
                 not have: set 'runtimes: [process]'"
            ));
        }
        if generator.is_foreign() && self.warmup.0 < FOREIGN_START {
            return Err(format!(
                "'warmup' is {}: give at least {}, which {generator} may take to start",
                self.warmup,
                Span(FOREIGN_START)
            ));
        }
        Ok(())
    }

    /// A tenant's CPU limit.
    pub fn cpus(&self) -> f64 {
        let host = host_facts::online_cpus().len() as f64;
        self.limits.cpus.unwrap_or(host / 4.0)
    }

    /// A tenant's memory limit.
    pub fn memory(&self) -> Size {
        self.limits.memory.unwrap_or_else(|| Size(part_of_memory()))
    }

    /// A tenant's share of the last-level cache; 0 if the host does not report its size.
    pub fn llc(&self) -> Size {
        let half = || host_facts::last_level_cache_bytes().unwrap_or(0) / 2;
        self.limits.llc.unwrap_or_else(|| Size(half()))
    }

    /// Returns every cell in the order of measurement.
    ///
    /// A runtime's blocks follow one another. A block has all resources with and without
    /// protection, and each of these has the scenarios in a random order. So the blocks of a cell
    /// are spread over the whole time, and their spread includes changes of the host. The same seed
    /// gives the same order, wherever a run was interrupted.
    pub fn cells(&self) -> Vec<CellKey> {
        let mut cells = Vec::new();
        for runtime in &self.runtimes {
            for repetition in 0..self.repetitions {
                for (resource, protection) in self.groups(repetition) {
                    let place = (*runtime as u64) << 24 | (protection as u64) << 16;
                    let place = place | (resource as u64) << 32 | u64::from(repetition);
                    let mut random = fastrand::Rng::with_seed(self.seed ^ place);
                    let mut block = self.scenarios.clone();
                    random.shuffle(&mut block);
                    cells.extend(block.into_iter().map(|scenario| CellKey {
                        runtime: *runtime,
                        protection,
                        resource,
                        scenario,
                        repetition,
                    }));
                }
            }
        }
        cells
    }

    /// Returns the groups of block `repetition` that share tenants. Cells with and without
    /// protection follow each other directly, so that the host is in the same state for both. Each
    /// comes first in every other block.
    fn groups(&self, repetition: u32) -> impl Iterator<Item = (Resource, Protection)> {
        let mut protections = match self.cofferdam {
            true => Protection::ALL.to_vec(),
            false => vec![Protection::Vanilla],
        };
        if repetition % 2 == 1 {
            protections.reverse();
        }
        let resources = self.resources.iter();
        resources.flat_map(move |resource| {
            protections
                .clone()
                .into_iter()
                .map(|protection| (*resource, protection))
        })
    }

    /// JSON Schema of the file.
    pub fn schema() -> schemars::Schema {
        schemars::schema_for!(Experiment)
    }
}

fn unique<T: std::hash::Hash + Eq>(values: &[T]) -> bool {
    let mut seen = HashSet::new();
    values.iter().all(|v| seen.insert(v))
}

/// `FILE:LINE:COLUMN: message`.
fn locate_error(name: &str, error: &serde_saphyr::Error) -> String {
    let message = error.without_snippet().to_string();
    // The parser puts the place at the end of its messages; here it comes first.
    let message = message.split(" at line ").next().unwrap_or_default();
    match error.location() {
        Some(at) => format!("{name}:{}:{}: {message}", at.line(), at.column()),
        None => format!("{name}: {message}"),
    }
}

#[cfg(test)]
mod tests;
