//! Results of `bench penalty`.

use crate::data::{CellResult, LedgerRecord, Sample};
use crate::run::SampleSet;
use crate::run::error::DataError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Result of a penalty run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PenaltyResult {
    /// Runtime of the containers; absent if the benchmark itself made them of namespaces and
    /// cgroups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containers_by: Option<String>,
    /// Every cell with at least one complete pair, in the order of measurement.
    pub cells: Vec<CellResult>,
    /// Cells that could not be measured, with the reason.
    pub failed: BTreeMap<String, String>,
    /// Number of measured cells, and of cells of the plan; `[0, 0]` in runs of earlier versions.
    #[serde(default)]
    pub done: [u32; 2],
    /// Number of disturbed attempts at a pair that were repeated and do not count.
    #[serde(default)]
    pub repeated: u32,
}

/// Samples of a penalty run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PenaltySamples {
    /// Samples that count: of each pair the calmest complete attempt.
    pub samples: Vec<Sample>,
    /// Samples of the attempts that were repeated.
    pub repeated: Vec<Sample>,
}

/// Facts of one attempt at a pair.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempt {
    /// Number of samples; an interrupted attempt has fewer than the others.
    pub turns: usize,
    /// Largest steal fraction of its samples.
    pub steal: f64,
}

/// Every attempt, by cell, pair and number.
pub(super) fn attempts(samples: &[Sample]) -> BTreeMap<(&str, u32, u32), Attempt> {
    let mut attempts: BTreeMap<(&str, u32, u32), Attempt> = BTreeMap::new();
    for sample in samples {
        let key = (sample.cell.as_str(), sample.pair, sample.attempt);
        let attempt = attempts.entry(key).or_default();
        attempt.turns += 1;
        attempt.steal = attempt.steal.max(sample.steal_fraction.unwrap_or(0.0));
    }
    attempts
}

impl From<Vec<Sample>> for PenaltySamples {
    /// Separates the samples that count. Of each pair the complete attempt with the least steal
    /// time counts, whatever its figures are; the first of equals. The order stays.
    fn from(samples: Vec<Sample>) -> PenaltySamples {
        let mut best: HashMap<(String, u32), (u32, Attempt)> = HashMap::new();
        for ((cell, pair, number), attempt) in attempts(&samples) {
            let best = best
                .entry((cell.to_owned(), pair))
                .or_insert((number, attempt));
            let order = best.1.turns.cmp(&attempt.turns);
            if order.then(attempt.steal.total_cmp(&best.1.steal)).is_lt() {
                *best = (number, attempt);
            }
        }
        let counts = |s: &Sample| {
            let best = best.get(&(s.cell.clone(), s.pair));
            best.is_some_and(|(number, _)| *number == s.attempt)
        };
        let (samples, repeated) = samples.into_iter().partition(counts);
        PenaltySamples { samples, repeated }
    }
}

impl SampleSet for PenaltySamples {
    fn read(dir: &Path) -> Result<PenaltySamples, DataError> {
        Vec::read(dir).map(|samples: Vec<Sample>| samples.into())
    }

    fn count(&self) -> usize {
        self.samples.len()
    }

    fn counts(&self, ledger: &LedgerRecord) -> bool {
        let of = |s: &Sample| {
            (s.pair, s.attempt) == (ledger.pair, ledger.attempt) && s.cell == ledger.cell
        };
        !self.repeated.iter().any(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Role, SCHEMA, Treatment};

    fn sample(pair: u32, attempt: u32, role: Role, steal: f64) -> Sample {
        Sample {
            schema: SCHEMA,
            time: "2026-11-24T00:00:00Z".to_owned(),
            cell: "cell".to_owned(),
            pair,
            attempt,
            position: 0,
            role,
            treatment: Treatment::Vanilla,
            elapsed_s: 1.0,
            victim_cpu_s: 1.0,
            checksum: String::new(),
            latency: None,
            softirq_fraction: None,
            softirq_source: None,
            steal_fraction: Some(steal),
            offered: None,
            received: None,
            received_idle: None,
            offender_caused_fraction: None,
            offender_corrected_fraction: None,
            victim_charged_fraction: None,
        }
    }

    /// Promise 44.
    #[test]
    fn the_calmest_whole_attempt_at_a_pair_counts() {
        use Role::{Compute, Traffic};
        let split = PenaltySamples::from(vec![
            // Disturbed in one of its turns; then calm; then calm, but incomplete.
            sample(0, 0, Compute, 0.0),
            sample(0, 0, Traffic, 0.4),
            sample(0, 1, Compute, 0.01),
            sample(0, 1, Traffic, 0.02),
            sample(0, 2, Compute, 0.0),
            // The only attempt.
            sample(1, 0, Compute, 0.9),
        ]);
        let keys = |samples: &[Sample]| -> Vec<(u32, u32)> {
            samples.iter().map(|s| (s.pair, s.attempt)).collect()
        };
        assert_eq!(keys(&split.samples), [(0, 1), (0, 1), (1, 0)]);
        assert_eq!(keys(&split.repeated), [(0, 0), (0, 0), (0, 2)]);
    }
}
