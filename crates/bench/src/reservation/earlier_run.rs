//! Earlier part of a run that is resumed.

use crate::error::BenchError;
use crate::reservation::data::{ReservationCell, ReservationResult, ReservationSample};
use crate::run::{RunData, RunResult, RunSamples};
use crate::rundir::MANIFEST;
use std::path::Path;

/// Measurements of the earlier part.
#[derive(Debug, Default)]
pub(super) struct EarlierRun {
    pub samples: Vec<ReservationSample>,
    pub result: ReservationResult,
}

impl EarlierRun {
    /// Loads the run in `path`, if there is one.
    ///
    /// # Errors
    /// The run's cells differ from `cells`.
    pub fn of(path: &Path, cells: &[ReservationCell]) -> Result<EarlierRun, BenchError> {
        if !path.join(MANIFEST).exists() {
            return Ok(EarlierRun::default());
        }
        let unusable = |reason: String| BenchError::Usage(format!("{}: {reason}", path.display()));
        let run = RunData::load(path).map_err(|e| unusable(e.to_string()))?;
        let RunSamples::Reservation(samples) = run.samples else {
            return Err(unusable("it holds no reservation run".to_owned()));
        };
        let result = match run.result {
            Some(RunResult::Reservation(result)) => result,
            _ => ReservationResult::default(),
        };
        let differs = result.cells.iter().find(|before| {
            let now = cells.iter().find(|cell| cell.id == before.cell.id);
            now.is_some_and(|cell| *cell != before.cell)
                || cells.iter().any(|cell| cell.runtime != before.cell.runtime)
        });
        match differs {
            Some(before) => Err(unusable(format!(
                "{} was measured there with another runtime or another number of CPUs or threads: \
                 give a new directory with --output",
                before.cell.id
            ))),
            None => Ok(EarlierRun { samples, result }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservation::cells::cells;
    use crate::reservation::data::ReservationRuntime;
    use crate::reservation::options::Options;

    /// Promise 47.
    #[test]
    fn a_directory_is_new_or_of_the_same_conditions() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            runtime: ReservationRuntime::Kubernetes,
            ..Options::default()
        };
        let cells = cells(&options, 2).unwrap();
        assert_eq!(EarlierRun::of(dir.path(), &cells).unwrap().samples.len(), 0);
        std::fs::write(dir.path().join(MANIFEST), "{}").unwrap();
        let reason = EarlierRun::of(dir.path(), &cells).unwrap_err();
        assert_eq!(reason.exit_code(), 2);
    }
}
