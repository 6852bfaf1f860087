//! Plan of a penalty run. A run resumes only in a directory with the same plan.

use super::Options;
use crate::data::{Cell, VictimKind};
use crate::error::BenchError;
use crate::rundir::RunDir;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Name of the plan's file within a run directory.
pub(crate) const PLAN: &str = "plan.json";

/// Everything that makes the samples of two calls comparable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    cells: Vec<String>,
    pairs: u32,
    attempts: u32,
    /// Labels of the treatments.
    treatments: Vec<String>,
    victim_seconds: f64,
    segmentation_offload: bool,
    /// `podman` or `process`.
    made_by: String,
    trace: Option<PathBuf>,
    seed: u64,
    /// Units of work by victim, once calibrated: the victim's answer must not change.
    #[serde(default)]
    work: BTreeMap<String, u64>,
}

impl Plan {
    pub fn new(options: &Options, cells: &[Cell]) -> Plan {
        Plan {
            cells: cells.iter().map(|cell| cell.id.clone()).collect(),
            pairs: options.pairs,
            attempts: options.attempts,
            treatments: options.treatments.iter().map(|t| t.to_string()).collect(),
            victim_seconds: options.victim_seconds(),
            segmentation_offload: options.segmentation_offload,
            made_by: options.made_by.label().to_owned(),
            trace: options.trace.clone(),
            seed: options.seed,
            work: BTreeMap::new(),
        }
    }

    /// Returns the plan of an earlier call in `dir` with its units of work; `self` if there is
    /// none.
    ///
    /// # Errors
    /// The directory has another plan.
    pub fn resume(self, dir: &Path) -> Result<Plan, BenchError> {
        let path = dir.join(PLAN);
        let unusable = |reason: String| BenchError::Usage(format!("{}: {reason}", dir.display()));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(self),
            Err(e) => return Err(unusable(format!("{PLAN} cannot be read: {e}"))),
        };
        let earlier: Plan = serde_json::from_str(&text)
            .map_err(|e| unusable(format!("{PLAN} is damaged or newer ({e})")))?;
        let same = Plan {
            work: BTreeMap::new(),
            ..earlier.clone()
        };
        if same != self {
            return Err(unusable(
                "it holds a run of other cells, pairs or treatments: give a new directory with \
                 --output, or the same options to resume it"
                    .to_owned(),
            ));
        }
        Ok(earlier)
    }

    /// Writes the plan, with the units of work calibrated so far.
    pub fn keep(
        &mut self,
        work: &HashMap<VictimKind, u64>,
        dir: &RunDir,
    ) -> Result<(), BenchError> {
        let work = work.iter();
        self.work = work
            .map(|(victim, units)| (victim.to_string(), *units))
            .collect();
        dir.document(PLAN, self)
    }

    /// Units of work by victim.
    pub fn work(&self) -> HashMap<VictimKind, u64> {
        let parse = |(label, units): (&String, &u64)| Some((label.parse().ok()?, *units));
        self.work.iter().filter_map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::penalty::cells;

    fn plan(pairs: u32) -> Plan {
        let options = Options {
            quick: true,
            pairs,
            ..Options::default()
        };
        Plan::new(&options, &cells(&options).unwrap())
    }

    /// Promise 44.
    #[test]
    fn only_the_same_plan_resumes_and_keeps_the_work_found() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(plan(5).resume(dir.path()).unwrap(), plan(5));
        let mut found = plan(5);
        found.work.insert("cpu".to_owned(), 7);
        fs::write(dir.path().join(PLAN), serde_json::to_vec(&found).unwrap()).unwrap();
        let resumed = plan(5).resume(dir.path()).unwrap();
        assert_eq!(resumed.work(), HashMap::from([(VictimKind::Cpu, 7)]));
        let other = plan(6).resume(dir.path()).unwrap_err();
        assert!(other.exit_code() == 2 && other.to_string().contains("the same options"));
        fs::write(dir.path().join(PLAN), "{\"cells\": [").unwrap();
        let damaged = plan(5).resume(dir.path()).unwrap_err().to_string();
        assert!(damaged.contains("plan.json is damaged"), "{damaged}");
    }
}
