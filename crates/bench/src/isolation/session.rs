//! Run of the experiment: opens or resumes its directory, measures the missing cells, writes the
//! results.

use super::analyse;
use super::bench::Bench;
use super::calibrate;
use super::environment;
use super::experiment::Experiment;
use super::export;
use super::generator;
use crate::error::BenchError;
use crate::experiment::schedule::{self, Attempts};
use crate::host_facts;
use crate::isolation::data::{
    CellKey, EXPERIMENT, IsolationEnvironment, IsolationResult, IsolationSample, Protection,
    Resource, RuntimeKind, split_repeated,
};
use crate::noise;
use crate::progress::Progress;
use crate::run::{Kind, RunData, RunResult, RunSamples};
use crate::rundir::{About, MANIFEST, RunDir};
use crate::signals::Signals;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time between two summaries during a run: computing the intervals takes seconds of CPU time.
const SUMMARY: Duration = Duration::from_secs(120);

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The experiment.
    pub experiment: Experiment,
    /// Whether the experiment is the quick preset.
    pub quick: bool,
    /// Run directory; one with the same experiment is resumed.
    pub output: Option<PathBuf>,
    /// Time after which the run stops; the next run resumes.
    pub stop_after: Option<Duration>,
}

/// Measures the missing cells and returns the directory. However the run ends, the measured samples
/// stay there.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(BenchError::Unsupported(
            "the experiment creates containers, network namespaces and cgroups: run as root (sudo)"
                .to_owned(),
        ));
    }
    options.experiment.check().map_err(BenchError::Usage)?;
    let started = Instant::now();
    let signals = Signals::catch(&*progress)?;
    let mut environment = environment::capture();
    let generator = generator::version(options.experiment.generator)?;
    let facts = &mut environment.host;
    facts.insert("load generator".to_owned(), generator);
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
            // Runtimes and images of earlier parts of this run stay listed.
            environment: IsolationEnvironment {
                runtimes: earlier.runtimes,
                images: earlier.images,
                ..environment
            },
            ..IsolationResult::default()
        },
        attempts: attempts(&samples),
        samples,
        failed: HashSet::new(),
        given_up: HashMap::new(),
        asked: HashSet::new(),
        untraced: false,
        summarised: started,
        progress,
    };
    let outcome = session.measure(&mut dir);
    let (samples, repeated) = session.summarise();
    let interrupted = matches!(outcome, Err(BenchError::Interrupted { .. }));
    let result = session.result;
    let written = match samples.is_empty() {
        true => Ok(()),
        false => export::write(dir.path(), &samples, &repeated, &result),
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

/// Opens a new directory, or that of an earlier run of the same experiment with its samples and its
/// environment.
fn open(
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<(RunDir, Vec<IsolationSample>, IsolationEnvironment), BenchError> {
    let experiment = &options.experiment;
    if let Some(path) = &options.output
        && path.join(MANIFEST).exists()
    {
        let dir = RunDir::reopen(path, Kind::Isolation)?;
        let unusable = |reason: String| BenchError::Usage(format!("{}: {reason}", path.display()));
        let run = RunData::load(path).map_err(|e| unusable(e.to_string()))?;
        let RunSamples::Isolation(samples) = run.samples else {
            return Err(unusable("it holds no isolation run".to_owned()));
        };
        if samples.experiment.as_deref() != Some(experiment) {
            return Err(unusable(
                "this directory holds another experiment: give a new one with --output, or the \
                 same experiment to resume it"
                    .to_owned(),
            ));
        }
        let earlier = match run.result {
            Some(RunResult::Isolation(result)) => result.environment,
            _ => IsolationEnvironment::default(),
        };
        let samples = [samples.samples, samples.repeated].concat();
        return Ok((dir, samples, earlier));
    }
    progress.step(0, 0, "looking for noise");
    let pair = host_facts::outer_cpus();
    let noise = noise::await_calm(pair, None, |reason| {
        progress.step(0, 0, reason);
        !progress
            .interrupted()
            .is_some_and(|flag| flag.load(Ordering::Relaxed))
    });
    for warning in &noise.warnings {
        progress.warn(warning);
    }
    let about = About {
        kind: Kind::Isolation,
        quick: options.quick,
        victim_cpu: pair[0],
        peer_cpu: pair[1],
        seed: experiment.seed,
        warnings: noise.warnings,
        is_busy: noise.is_busy,
    };
    let dir = RunDir::create(options.output.as_deref(), &about)?;
    dir.document(EXPERIMENT, experiment)?;
    Ok((dir, Vec::new(), IsolationEnvironment::default()))
}

/// Steal fractions of the samples, in the form of [`schedule::next`].
fn attempts(samples: &[IsolationSample]) -> Attempts<CellKey> {
    let mut attempts = Attempts::new();
    for sample in samples {
        let of = attempts.entry(sample.key.clone()).or_default();
        of.push(sample.steal());
    }
    attempts
}

struct Session<'a> {
    options: &'a Options,
    /// The options' experiment, with limits of the host filled in once they are measured.
    experiment: Experiment,
    started: Instant,
    signals: &'a Signals,
    result: IsolationResult,
    /// Every measurement, repeated ones included.
    samples: Vec<IsolationSample>,
    attempts: Attempts<CellKey>,
    /// Cells that failed in this call.
    failed: HashSet<CellKey>,
    /// Groups that are not tried again, with the reason.
    given_up: HashMap<(RuntimeKind, Protection, Resource), String>,
    /// Runtimes whose version was read.
    asked: HashSet<&'static str>,
    /// Whether the lack of BPF programs was reported.
    untraced: bool,
    /// Time of the last summary.
    summarised: Instant,
    progress: &'a mut dyn Progress,
}

impl Session<'_> {
    /// Measures block by block. Within a block, the cells of one runtime, protection and resource
    /// share their tenants.
    fn measure(&mut self, dir: &mut RunDir) -> Result<(), BenchError> {
        let cells = self.options.experiment.cells();
        self.result.done = [self.attempts.len() as u32, cells.len() as u32];
        for block in cells.chunk_by(|a, b| group(a) == group(b) && a.repetition == b.repetition) {
            let first = &block[0];
            if self.next(block).is_none() || !self.is_available(dir, first)? {
                continue;
            }
            if let Some(reason) = self.given_up.get(&group(first)) {
                let reason = reason.clone();
                self.fail_rest(block, &reason);
                continue;
            }
            if self.time_is_up() || !self.block(dir, block)? {
                return Ok(());
            }
            self.keep(dir)?;
        }
        Ok(())
    }

    /// Next cell of `block` and its attempt.
    fn next<'b>(&self, block: &'b [CellKey]) -> Option<(&'b CellKey, u32)> {
        let most = self.options.experiment.attempts;
        schedule::next(block, &self.attempts, &self.failed, most)
    }

    /// Whether the cell's runtime can be used on this host; checked once.
    fn is_available(&mut self, dir: &mut RunDir, key: &CellKey) -> Result<bool, BenchError> {
        let name = key.runtime.label();
        if self.result.unavailable.contains_key(name) {
            return Ok(false);
        }
        if self.asked.contains(name) {
            return Ok(true);
        }
        match environment::runtime(key.runtime) {
            Ok(version) => {
                let runtimes = &mut self.result.environment.runtimes;
                runtimes.insert(name.to_owned(), version);
                self.asked.insert(name);
                Ok(true)
            }
            Err(e) => {
                self.warn(dir, &format!("{name} is not available: {e}"))?;
                let unavailable = &mut self.result.unavailable;
                unavailable.insert(name.to_owned(), e.to_string());
                Ok(false)
            }
        }
    }

    /// Measures a block. Returns false if the time is up.
    fn block(&mut self, dir: &mut RunDir, block: &[CellKey]) -> Result<bool, BenchError> {
        let first = &block[0];
        self.progress.step(
            self.result.done[0] as usize,
            self.result.done[1] as usize,
            &format!("{}/{}: starting tenants", first.runtime, first.resource),
        );
        if let Err(e) = self.settle(first) {
            if matches!(e, BenchError::Interrupted { .. }) {
                return Err(e);
            }
            self.give_up(dir, block, &e)?;
            return Ok(true);
        }
        let experiment = self.experiment.clone();
        let opened = Bench::new(&experiment, first, self.signals);
        let mut bench = match opened {
            Ok(bench) => bench,
            Err(e) => {
                self.give_up(dir, block, &e)?;
                return Ok(true);
            }
        };
        if let Some((image, digest)) = bench.image.take() {
            self.result.environment.images.insert(image, digest);
        }
        if let Some(reason) = bench.untraced.take().filter(|_| !self.untraced) {
            self.untraced = true;
            let text = format!("the tenants' use is read from files only: {reason}");
            self.warn(dir, &text)?;
        }
        // If the run is killed from here on, the directory has the environment of its samples.
        self.keep(dir)?;
        let mut failures = 0;
        while let Some((key, attempt)) = self.next(block) {
            if self.signals.caught() {
                return Err(BenchError::Interrupted {
                    dir: dir.path().to_owned(),
                });
            }
            if self.time_is_up() {
                return Ok(false);
            }
            self.tell(key);
            let position = block.iter().position(|k| k == key).unwrap_or(0);
            match bench.cell(key, position as u32) {
                Ok(sample) => {
                    let sample = IsolationSample { attempt, ..sample };
                    dir.sample(&sample)?;
                    self.attempts
                        .entry(key.clone())
                        .or_default()
                        .push(sample.steal());
                    self.samples.push(sample);
                    self.result.done[0] += u32::from(attempt == 0);
                    failures = 0;
                }
                Err(e @ BenchError::Interrupted { .. }) => return Err(e),
                Err(e) => {
                    self.warn(dir, &format!("{key}: {e}"))?;
                    self.fail(key, &e.to_string());
                    failures += 1;
                }
            }
            // Three failures in a row have a cause that the next cell has too.
            if failures == 3 {
                let reason = "given up after three failures in a row".to_owned();
                self.fail_rest(block, &reason);
                self.given_up.insert(group(first), reason);
            }
        }
        Ok(true)
    }

    /// Sets the limit of block operations if the experiment leaves it to the host: that of earlier
    /// samples, or a quarter of the rate of an unrestricted process without neighbour.
    fn settle(&mut self, first: &CellKey) -> Result<(), BenchError> {
        if !first.resource.is_disk() || self.experiment.limits.disk_iops.is_some() {
            return Ok(());
        }
        let mut before = self.samples.iter().filter(|s| s.key.resource.is_disk());
        let iops = match before.next() {
            Some(sample) => sample.limit,
            None => calibrate::disk_iops(&self.experiment, self.signals)?,
        };
        self.experiment.limits.disk_iops = Some((iops.round() as u32).max(1));
        Ok(())
    }

    /// Writes the results so far, in case the run is killed.
    fn keep(&mut self, dir: &RunDir) -> Result<(), BenchError> {
        if self.summarised.elapsed() > SUMMARY {
            self.summarise();
        }
        dir.result(&RunResult::Isolation(self.result.clone()))
    }

    /// Gives up a group in every block, because one reason makes all its cells fail.
    fn give_up(
        &mut self,
        dir: &mut RunDir,
        block: &[CellKey],
        error: &BenchError,
    ) -> Result<(), BenchError> {
        let first = &block[0];
        self.fail_rest(block, &error.to_string());
        self.given_up.insert(group(first), error.to_string());
        self.warn(
            dir,
            &format!("{}/{}: {error}", first.runtime, first.resource),
        )
    }

    /// Marks the cells of `block` as failed that are neither measured nor failed for another
    /// reason.
    fn fail_rest(&mut self, block: &[CellKey], reason: &str) {
        for key in block {
            if !self.attempts.contains_key(key) && !self.failed.contains(key) {
                self.fail(key, reason);
            }
        }
    }

    fn time_is_up(&self) -> bool {
        let cell = self.options.experiment.warmup.0 + self.options.experiment.measure.0;
        let limit = self.options.stop_after;
        limit.is_some_and(|limit| self.started.elapsed() + cell > limit)
    }

    /// Reports the progress, and the shortest time that remains.
    fn tell(&mut self, key: &CellKey) {
        let [done, total] = self.result.done;
        let cell = self.options.experiment.warmup.0 + self.options.experiment.measure.0;
        let left = (cell + Duration::from_millis(250)) * total.saturating_sub(done);
        let left = humantime::format_duration(Duration::from_secs(left.as_secs()));
        let text = format!("{key}, {left} left");
        self.progress.step(done as usize, total as usize, &text);
    }

    /// Records a failure. A cell that could not be measured again keeps its earlier sample.
    fn fail(&mut self, key: &CellKey, reason: &str) {
        self.failed.insert(key.clone());
        if !self.attempts.contains_key(key) {
            let failed = &mut self.result.failed;
            failed.insert(key.to_string(), reason.to_owned());
        }
    }

    fn warn(&mut self, dir: &mut RunDir, text: &str) -> Result<(), BenchError> {
        self.progress.warn(text);
        dir.warn(text)
    }

    /// Computes the tables. Returns the samples that count, and the repeated ones.
    fn summarise(&mut self) -> (Vec<IsolationSample>, Vec<IsolationSample>) {
        let experiment = &self.options.experiment;
        let (samples, repeated) = split_repeated(self.samples.clone());
        self.result.tables = analyse::tables(experiment, &samples);
        self.result.acquisition_cpu_pct = analyse::acquisition(experiment, &samples);
        self.result.repeated = repeated.len() as u32;
        self.summarised = Instant::now();
        (samples, repeated)
    }
}

/// Group of cells that fail together if their tenants cannot be started.
fn group(key: &CellKey) -> (RuntimeKind, Protection, Resource) {
    (key.runtime, key.protection, key.resource)
}
