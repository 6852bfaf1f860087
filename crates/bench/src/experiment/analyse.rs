//! From samples to a cell's medians and intervals.

use crate::data::{
    Cell, CellResult, Estimate, Metric, Rate, Role, Sample, TreatedResult, Treatment, VictimKind,
};
use crate::stats::{estimate, median};

/// Computes the result of a cell from its samples; `None` without a complete pair. `seed` seeds the
/// bootstrap.
pub(crate) fn cell_result(cell: &Cell, samples: &[Sample], seed: u64) -> Option<CellResult> {
    let metric = match cell.victim {
        VictimKind::Rpc => Metric::P99Us,
        _ => Metric::ElapsedS,
    };
    let estimated = |values: &[f64]| estimate(values, seed);
    let values = |role| -> Vec<f64> {
        let samples = of(samples, role, Treatment::Vanilla);
        samples.map(|s| value(metric, s)).collect()
    };
    let vanilla = treated_results(samples, metric, Treatment::Vanilla, seed)?;
    let mut treatments: Vec<Treatment> = samples.iter().map(|s| s.treatment).collect();
    treatments.sort_unstable();
    treatments.dedup();
    let tests = || of(samples, Role::Traffic, Treatment::Vanilla);
    Some(CellResult {
        cell: cell.clone(),
        metric,
        alone: estimated(&values(Role::Alone)),
        baseline: estimated(&values(Role::Compute))?,
        test: vanilla.test,
        penalty: vanilla.penalty,
        softirq_fraction: vanilla.softirq_fraction,
        softirq_source: tests().find_map(|s| s.softirq_source),
        // A CPU that spent all its time in softirq has no prediction.
        predicted: vanilla
            .softirq_fraction
            .filter(|s| *s < 1.0)
            .map(|s| 1.0 / (1.0 - s)),
        offered: median_rate(tests().filter_map(|s| s.offered)),
        received: vanilla.received,
        offender_caused_fraction: median_of(tests(), |s| s.offender_caused_fraction),
        victim_charged_fraction: vanilla.victim_charged_fraction,
        offender_corrected_fraction: vanilla.offender_corrected_fraction,
        treated: treatments
            .into_iter()
            .filter(|t| *t != Treatment::Vanilla)
            .filter_map(|t| treated_results(samples, metric, t, seed))
            .collect(),
    })
}

/// Computes the test's result under one treatment; `None` without a pair.
fn treated_results(
    samples: &[Sample],
    metric: Metric,
    treatment: Treatment,
    seed: u64,
) -> Option<TreatedResult> {
    let estimated = |values: &[f64]| estimate(values, seed);
    let tests = || of(samples, Role::Traffic, treatment);
    let in_pair = |test: &Sample, role| {
        of(samples, role, Treatment::Vanilla).find(|other| other.pair == test.pair)
    };
    let penalties: Vec<f64> = tests()
        .filter_map(|test| {
            let baseline = in_pair(test, Role::Compute)?;
            Some(value(metric, test) / value(metric, baseline))
        })
        .collect();
    // Ratios to the vanilla test of the same pair. Vanilla itself has none.
    let ratio_to_vanilla = |rate: fn(&Sample) -> Option<Rate>| -> Option<Estimate> {
        let ratios: Vec<f64> = tests()
            .filter(|_| treatment != Treatment::Vanilla)
            .filter_map(|test| {
                let vanilla = rate(in_pair(test, Role::Traffic)?)?.bytes_per_s;
                (vanilla > 0.0).then_some(rate(test)?.bytes_per_s / vanilla)
            })
            .collect();
        estimated(&ratios)
    };
    let times: Vec<f64> = tests().map(|s| value(metric, s)).collect();
    let corrected: Vec<f64> = tests()
        .filter_map(|s| s.offender_corrected_fraction)
        .collect();
    Some(TreatedResult {
        treatment,
        test: estimated(&times)?,
        penalty: estimated(&penalties)?,
        goodput_kept: ratio_to_vanilla(|s| s.received),
        idle_goodput_kept: ratio_to_vanilla(|s| s.received_idle),
        softirq_fraction: median_of(tests(), |s| s.softirq_fraction),
        received: median_rate(tests().filter_map(|s| s.received)),
        offender_corrected_fraction: median(&corrected),
        offender_corrected: estimated(&corrected),
        victim_charged_fraction: median_of(tests(), |s| s.victim_charged_fraction),
    })
}

fn of(samples: &[Sample], role: Role, treatment: Treatment) -> impl Iterator<Item = &Sample> {
    let wanted = move |s: &&Sample| s.role == role && s.treatment == treatment;
    samples.iter().filter(wanted)
}

fn value(metric: Metric, sample: &Sample) -> f64 {
    match (metric, &sample.latency) {
        (Metric::P99Us, Some(latency)) => latency.p99_us,
        _ => sample.elapsed_s,
    }
}

fn median_of<'a>(
    samples: impl Iterator<Item = &'a Sample>,
    figure: fn(&Sample) -> Option<f64>,
) -> Option<f64> {
    median(&samples.filter_map(figure).collect::<Vec<_>>())
}

fn median_rate(rates: impl Iterator<Item = Rate>) -> Option<Rate> {
    let (packets, bytes): (Vec<f64>, Vec<f64>) =
        rates.map(|r| (r.packets_per_s, r.bytes_per_s)).unzip();
    Some(Rate {
        packets_per_s: median(&packets)?,
        bytes_per_s: median(&bytes)?,
    })
}

/// Whether all samples gave the same answer.
pub(crate) fn same_answers(samples: &[Sample]) -> bool {
    samples
        .windows(2)
        .all(|pair| pair[0].checksum == pair[1].checksum)
}
