//! Merges cells from several directories into one run, for example from several machines.

use super::analyse;
use super::experiment::Experiment;
use super::export;
use crate::error::BenchError;
use crate::isolation::data::{
    EXPERIMENT, IsolationResult, IsolationSample, IsolationSamples, split_repeated,
};
use crate::run::error::DataError;
use crate::run::{Kind, Manifest, RunData, RunResult, RunSamples};
use crate::rundir::{About, RunDir};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Directories that could not be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// One of them cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// They do not belong together.
    #[error("{path}: {reason}")]
    Unfit {
        /// Directory.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The new directory cannot be written.
    #[error(transparent)]
    Write(#[from] BenchError),
}

/// Writes the samples of `parts` into the new directory `output`. The parts must have the same
/// experiment except for runtimes, resources and scenarios, so that a matrix can be spread over
/// machines.
///
/// # Errors
/// Two parts have the same cell, or the parts do not belong together.
pub fn merge(parts: &[PathBuf], output: &Path) -> Result<PathBuf, MergeError> {
    let mut samples: BTreeMap<_, IsolationSample> = BTreeMap::new();
    let mut whole: Option<Experiment> = None;
    let mut manifest: Option<Manifest> = None;
    let mut result = IsolationResult::default();
    let (mut warnings, mut is_busy) = (BTreeSet::new(), false);
    for path in parts {
        let run = RunData::load(path)?;
        let unfit = |reason: String| MergeError::Unfit {
            path: path.clone(),
            reason,
        };
        let RunSamples::Isolation(IsolationSamples {
            samples: counted,
            repeated,
            experiment: Some(experiment),
        }) = run.samples
        else {
            return Err(unfit("it is not a run of 'bench isolation'".to_owned()));
        };
        match &mut whole {
            None => whole = Some(*experiment),
            Some(whole) => join(whole, *experiment).map_err(unfit)?,
        }
        for sample in counted.into_iter().chain(repeated) {
            let key = (sample.key.clone(), sample.attempt);
            if let Some(twice) = samples.insert(key, sample) {
                return Err(MergeError::Unfit {
                    path: path.clone(),
                    reason: format!(
                        "{} is in another directory too: give each cell once",
                        twice.key
                    ),
                });
            }
        }
        if let Some(RunResult::Isolation(part)) = run.result {
            result.environment.host.extend(part.environment.host);
            result
                .environment
                .runtimes
                .extend(part.environment.runtimes);
            result.environment.images.extend(part.environment.images);
            result.unavailable.extend(part.unavailable);
            result.failed.extend(part.failed);
        }
        warnings.extend(run.manifest.warnings.iter().cloned());
        is_busy |= run.manifest.is_busy;
        manifest.get_or_insert(run.manifest);
    }
    let (Some(experiment), Some(manifest)) = (whole, manifest) else {
        return Err(MergeError::Unfit {
            path: output.to_owned(),
            reason: "there is nothing to merge".to_owned(),
        });
    };
    let about = About {
        kind: Kind::Isolation,
        quick: manifest.quick,
        victim_cpu: manifest.victim_cpu,
        peer_cpu: manifest.peer_cpu,
        seed: experiment.seed,
        warnings: warnings.into_iter().collect(),
        is_busy,
    };
    let mut dir = RunDir::create(Some(output), &about)?;
    dir.document(EXPERIMENT, &experiment)?;
    let samples: Vec<IsolationSample> = samples.into_values().collect();
    for sample in &samples {
        dir.sample(sample)?;
    }
    let (samples, repeated) = split_repeated(samples);
    result.done = [samples.len() as u32, experiment.cells().len() as u32];
    result.repeated = repeated.len() as u32;
    result.tables = analyse::tables(&experiment, &samples);
    result.acquisition_cpu_pct = analyse::acquisition(&experiment, &samples);
    export::write(dir.path(), &samples, &repeated, &result)?;
    dir.result(&RunResult::Isolation(result))?;
    dir.finish(false)?;
    Ok(dir.path().to_owned())
}

/// Adds the runtimes, resources and scenarios of `part` to `whole`; everything else must be equal.
fn join(whole: &mut Experiment, part: Experiment) -> Result<(), String> {
    let mut same = part.clone();
    same.runtimes = whole.runtimes.clone();
    same.resources = whole.resources.clone();
    same.scenarios = whole.scenarios.clone();
    if same != *whole {
        return Err(
            "its limits, times, repetitions, seed or name are not those of the first directory"
                .to_owned(),
        );
    }
    let Experiment {
        runtimes,
        resources,
        scenarios,
        ..
    } = part;
    add(&mut whole.runtimes, runtimes);
    add(&mut whole.resources, resources);
    add(&mut whole.scenarios, scenarios);
    whole.complete();
    Ok(())
}

fn add<T: PartialEq>(to: &mut Vec<T>, more: Vec<T>) {
    for value in more {
        if !to.contains(&value) {
            to.push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::data::{Resource, RuntimeKind};

    /// Promise 47.
    #[test]
    fn parts_of_one_experiment_join_and_others_do_not() {
        let mut whole = Experiment::quick();
        whole.resources = vec![Resource::Cpu];
        let mut part = whole.clone();
        part.resources = vec![Resource::Network];
        part.runtimes = vec![RuntimeKind::Podman];
        join(&mut whole, part.clone()).unwrap();
        assert_eq!(whole.resources, [Resource::Cpu, Resource::Network]);
        assert_eq!(whole.runtimes, [RuntimeKind::Process, RuntimeKind::Podman]);
        part.limits.disk_iops = Some(9);
        assert!(join(&mut whole, part).unwrap_err().contains("limits"));
    }
}
