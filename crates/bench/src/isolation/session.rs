//! A run: opens or goes on with its directory, measures what is missing, writes what came out.

use super::analyse;
use super::bench::Bench;
use super::calibrate;
use super::environment;
use super::experiment::Experiment;
use super::export;
use crate::data::{
    CellKey, IsolationEnvironment, IsolationResult, IsolationSample, Kind, Resource, RunData,
    RunResult,
};
use crate::error::BenchError;
use crate::host_facts;
use crate::noise;
use crate::progress::Progress;
use crate::rundir::{About, RunDir};
use crate::signals::Signals;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The experiment.
    pub experiment: Experiment,
    /// Whether it is the quick preset.
    pub quick: bool,
    /// The run directory; one with the same experiment is gone on with.
    pub output: Option<PathBuf>,
    /// End in order after this long; the next run goes on.
    pub stop_after: Option<Duration>,
}

/// Runs the cells that are missing. Returns the directory; what was measured stays in it however
/// the run ends.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(BenchError::Unsupported(
            "the experiment makes containers, network namespaces and cgroups: run as root (sudo)"
                .to_owned(),
        ));
    }
    options.experiment.check().map_err(BenchError::Usage)?;
    let started = Instant::now();
    let signals = Signals::catch().map_err(|source| BenchError::Host {
        action: "handle signals of",
        path: PathBuf::from("/proc/self"),
        source,
    })?;
    let environment = environment::capture();
    let (mut dir, samples, earlier) = open(options, progress)?;
    for change in environment::changes(&earlier, &environment) {
        progress.warn(&change);
        dir.warn(&change)?;
    }
    let mut session = Session {
        options,
        experiment: options.experiment.clone(),
        started,
        signals: &signals,
        result: IsolationResult {
            // What earlier parts of this run used stays named.
            environment: IsolationEnvironment {
                runtimes: earlier.runtimes,
                images: earlier.images,
                ..environment
            },
            ..IsolationResult::default()
        },
        samples,
        progress,
    };
    let outcome = session.measure(&mut dir);
    session.summarise();
    let interrupted = matches!(outcome, Err(BenchError::Interrupted { .. }));
    let (samples, result) = (session.samples, session.result);
    let written = match samples.is_empty() {
        true => Ok(()),
        false => export::write(dir.path(), &samples, &result),
    };
    let written = written
        .and_then(|()| dir.result(&RunResult::Isolation(result)))
        .and_then(|()| dir.finish(interrupted));
    match outcome.and(written) {
        Ok(()) => Ok(dir),
        Err(BenchError::Interrupted { .. }) => Err(BenchError::Interrupted {
            dir: dir.path().to_owned(),
        }),
        Err(e) => {
            dir.discard_if_empty();
            Err(e)
        }
    }
}

/// A new directory, or the one of an earlier run of the same experiment with its samples and what
/// it was measured with.
fn open(
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<(RunDir, Vec<IsolationSample>, IsolationEnvironment), BenchError> {
    let experiment = &options.experiment;
    if let Some(path) = &options.output
        && path.join("manifest.json").exists()
    {
        let dir = RunDir::reopen(path, Kind::Isolation)?;
        let unusable = |reason: String| BenchError::Usage(format!("{}: {reason}", path.display()));
        let kept = RunData::load(path).map_err(|e| unusable(e.to_string()))?;
        if kept.experiment.as_ref() != Some(experiment) {
            return Err(unusable(
                "this directory holds another experiment: give a new one with --output, or the same experiment to go on with it".to_owned(),
            ));
        }
        let earlier = match kept.result {
            Some(RunResult::Isolation(result)) => result.environment,
            _ => IsolationEnvironment::default(),
        };
        return Ok((dir, kept.isolation, earlier));
    }
    progress.step(0, 0, "looking for noise");
    let cpus = host_facts::online_cpus();
    let pair = [cpus.first(), cpus.last()].map(|cpu| cpu.copied().unwrap_or(0));
    let warnings = noise::check(pair, Duration::from_millis(500));
    for warning in &warnings {
        progress.warn(warning);
    }
    let about = About {
        kind: Kind::Isolation,
        quick: options.quick,
        victim_cpu: pair[0],
        peer_cpu: pair[1],
        seed: experiment.seed,
        warnings,
    };
    let dir = RunDir::create(options.output.as_deref(), &about)?;
    dir.experiment(experiment)?;
    Ok((dir, Vec::new(), IsolationEnvironment::default()))
}

struct Session<'a> {
    options: &'a Options,
    /// The options' experiment, with what it leaves to the host filled in as it becomes known.
    experiment: Experiment,
    started: Instant,
    signals: &'a Signals,
    result: IsolationResult,
    samples: Vec<IsolationSample>,
    progress: &'a mut dyn Progress,
}

impl Session<'_> {
    /// Measures group by group: a runtime, care and resource share their tenants.
    fn measure(&mut self, dir: &mut RunDir) -> Result<(), BenchError> {
        let experiment = &self.options.experiment;
        let cells = experiment.cells();
        let total = cells.len();
        let done: HashSet<CellKey> = self.samples.iter().map(|s| s.key.clone()).collect();
        let block = experiment.scenarios.len();
        let missing: Vec<(u32, CellKey)> = cells
            .into_iter()
            .enumerate()
            .filter(|(_, key)| !done.contains(key))
            .map(|(i, key)| ((i % block) as u32, key))
            .collect();
        self.result.done = [done.len() as u32, total as u32];
        let group = |key: &CellKey| (key.runtime, key.care, key.resource);
        for cells in missing.chunk_by(|a, b| group(&a.1) == group(&b.1)) {
            let key = &cells[0].1;
            let name = key.runtime.label();
            if self.result.unavailable.contains_key(name) {
                continue;
            }
            match environment::runtime(key.runtime) {
                Ok(version) => {
                    let runtimes = &mut self.result.environment.runtimes;
                    runtimes.insert(name.to_owned(), version);
                }
                Err(e) => {
                    self.warn(dir, &format!("{name} is not available: {e}"))?;
                    self.result
                        .unavailable
                        .insert(name.to_owned(), e.to_string());
                    continue;
                }
            }
            if !self.group(dir, cells)? {
                return Ok(());
            }
            self.keep(dir)?;
        }
        Ok(())
    }

    /// Measures the cells of one group; false when the time is up.
    fn group(&mut self, dir: &mut RunDir, cells: &[(u32, CellKey)]) -> Result<bool, BenchError> {
        let first = &cells[0].1;
        self.progress.step(
            self.result.done[0] as usize,
            self.result.done[1] as usize,
            &format!("{}/{}: starting tenants", first.runtime, first.resource),
        );
        if let Err(e) = self.settle(first) {
            if matches!(e, BenchError::Interrupted { .. }) {
                return Err(e);
            }
            self.give_up(dir, cells, &e)?;
            return Ok(true);
        }
        let experiment = self.experiment.clone();
        let opened = Bench::new(&experiment, first, self.signals);
        let mut bench = match opened {
            Ok(bench) => bench,
            Err(e) => {
                self.give_up(dir, cells, &e)?;
                return Ok(true);
            }
        };
        if let Some((image, digest)) = bench.image.take() {
            self.result.environment.images.insert(image, digest);
        }
        if let Some(reason) = bench.untraced.take() {
            let text = format!("what tenants use is read from files alone: {reason}");
            self.warn(dir, &text)?;
        }
        // Killed from now on, it still tells what its samples were measured with.
        self.keep(dir)?;
        let mut failures = 0;
        for (position, key) in cells {
            if self.signals.caught() {
                return Err(BenchError::Interrupted {
                    dir: dir.path().to_owned(),
                });
            }
            if self.time_is_up() {
                return Ok(false);
            }
            self.tell(key);
            match bench.cell(key, *position) {
                Ok(sample) => {
                    dir.isolation(&sample)?;
                    self.samples.push(sample);
                    self.result.done[0] += 1;
                    failures = 0;
                }
                Err(e @ BenchError::Interrupted { .. }) => return Err(e),
                Err(e) => {
                    self.warn(dir, &format!("{key}: {e}"))?;
                    self.failed(key, &e);
                    failures += 1;
                }
            }
            // What fails three times in a row fails for a reason that the next cell has too.
            if failures == 3 {
                let reason = "given up after three failures in a row".to_owned();
                for (_, key) in cells.iter().skip_while(|(_, k)| k != key).skip(1) {
                    self.result.failed.insert(key.to_string(), reason.clone());
                }
                break;
            }
        }
        Ok(true)
    }

    /// Fills in the limit of block operations where the experiment leaves it to the host: as the
    /// run had it before, or a quarter of what an unrestricted process alone gets.
    fn settle(&mut self, first: &CellKey) -> Result<(), BenchError> {
        let disk = |resource| matches!(resource, Resource::Disk | Resource::DiskBuffered);
        if !disk(first.resource) || self.experiment.limits.disk_iops.is_some() {
            return Ok(());
        }
        let mut before = self.samples.iter().filter(|s| disk(s.key.resource));
        let iops = match before.next() {
            Some(sample) => sample.limit,
            None => calibrate::disk_iops(&self.experiment, self.signals)?,
        };
        self.experiment.limits.disk_iops = Some((iops.round() as u32).max(1));
        Ok(())
    }

    /// Writes what there is so far.
    fn keep(&mut self, dir: &RunDir) -> Result<(), BenchError> {
        self.summarise();
        dir.result(&RunResult::Isolation(self.result.clone()))
    }

    /// A whole group fails for one reason.
    fn give_up(
        &mut self,
        dir: &mut RunDir,
        cells: &[(u32, CellKey)],
        error: &BenchError,
    ) -> Result<(), BenchError> {
        for (_, key) in cells {
            self.failed(key, error);
        }
        let first = &cells[0].1;
        self.warn(
            dir,
            &format!("{}/{}: {error}", first.runtime, first.resource),
        )
    }

    fn time_is_up(&self) -> bool {
        let cell = self.options.experiment.warmup.0 + self.options.experiment.measure.0;
        let limit = self.options.stop_after;
        limit.is_some_and(|limit| self.started.elapsed() + cell > limit)
    }

    /// Where it is, and how long the rest takes at least.
    fn tell(&mut self, key: &CellKey) {
        let [done, total] = self.result.done;
        let cell = self.options.experiment.warmup.0 + self.options.experiment.measure.0;
        let left = (cell + Duration::from_millis(250)) * total.saturating_sub(done);
        let left = humantime::format_duration(Duration::from_secs(left.as_secs()));
        let text = format!("{key}, {left} left");
        self.progress.step(done as usize, total as usize, &text);
    }

    fn failed(&mut self, key: &CellKey, error: &BenchError) {
        self.result
            .failed
            .insert(key.to_string(), error.to_string());
    }

    fn warn(&mut self, dir: &mut RunDir, text: &str) -> Result<(), BenchError> {
        self.progress.warn(text);
        dir.warn(text)
    }

    fn summarise(&mut self) {
        let experiment = &self.options.experiment;
        self.result.tables = analyse::tables(experiment, &self.samples);
        self.result.acquisition_cpu_pct = analyse::acquisition(experiment, &self.samples);
    }
}
