//! From samples to a cell's medians and intervals.

use super::sample::Measured;
use crate::data::{
    Cell, CellResult, Estimate, LedgerContainer, LedgerRecord, Metric, Rate, Role, Sample,
    TreatedResult, Treatment, VictimKind,
};
use crate::stats::{estimate, median};

/// What the numbers of one cell are joined with.
pub(crate) struct Context<'a> {
    pub cell: &'a Cell,
    pub victim_cpu: u32,
    pub competitor_paths: &'a [String],
    pub victim_path: &'a str,
    pub seed: u64,
}

/// The result of a cell; `None` without one whole pair.
pub(crate) fn cell_result(context: &Context<'_>, measured: &[Measured]) -> Option<CellResult> {
    let metric = match context.cell.victim {
        VictimKind::Rpc => Metric::P99Us,
        _ => Metric::ElapsedS,
    };
    let estimated = |values: &[f64]| estimate(values, context.seed);
    let values = |role| -> Vec<f64> {
        of(measured, role, Treatment::Vanilla)
            .map(|m| value(metric, &m.sample))
            .collect()
    };
    let vanilla = treated(context, measured, metric, Treatment::Vanilla)?;
    let mut treatments: Vec<Treatment> = measured.iter().map(|m| m.sample.treatment).collect();
    treatments.sort_unstable();
    treatments.dedup();
    let tests = || of(measured, Role::Traffic, Treatment::Vanilla);
    Some(CellResult {
        cell: context.cell.clone(),
        metric,
        alone: estimated(&values(Role::Alone)),
        baseline: estimated(&values(Role::Compute))?,
        test: vanilla.test,
        penalty: vanilla.penalty,
        softirq_fraction: vanilla.softirq_fraction,
        softirq_source: tests().find_map(|m| m.sample.softirq_source),
        // A CPU that did nothing else has no prediction.
        predicted: vanilla
            .softirq_fraction
            .filter(|s| *s < 1.0)
            .map(|s| 1.0 / (1.0 - s)),
        offered: median_rate(tests().filter_map(|m| m.sample.offered)),
        received: vanilla.received,
        offender_caused_fraction: competitors_share(
            context,
            tests().filter_map(|m| m.ledger.as_ref()),
        ),
        victim_charged_fraction: vanilla.victim_charged_fraction,
        offender_corrected_fraction: vanilla.offender_corrected_fraction,
        treated: treatments
            .into_iter()
            .filter(|t| *t != Treatment::Vanilla)
            .filter_map(|t| treated(context, measured, metric, t))
            .collect(),
    })
}

/// The test under one treatment; `None` without a pair.
fn treated(
    context: &Context<'_>,
    measured: &[Measured],
    metric: Metric,
    treatment: Treatment,
) -> Option<TreatedResult> {
    let estimated = |values: &[f64]| estimate(values, context.seed);
    let tests = || of(measured, Role::Traffic, treatment);
    let ledgers = || tests().filter_map(|m| m.ledger.as_ref());
    let in_pair = |test: &Measured, role| {
        of(measured, role, Treatment::Vanilla)
            .find(|other| other.sample.pair == test.sample.pair)
            .map(|other| &other.sample)
    };
    let penalties: Vec<f64> = tests()
        .filter_map(|test| {
            let baseline = in_pair(test, Role::Compute)?;
            Some(value(metric, &test.sample) / value(metric, baseline))
        })
        .collect();
    // Against vanilla of the same pair, which is no treatment of its own.
    let kept = |rate: fn(&Sample) -> Option<Rate>| -> Option<Estimate> {
        let ratios: Vec<f64> = tests()
            .filter(|_| treatment != Treatment::Vanilla)
            .filter_map(|test| {
                let vanilla = rate(in_pair(test, Role::Traffic)?)?.bytes_per_s;
                (vanilla > 0.0).then_some(rate(&test.sample)?.bytes_per_s / vanilla)
            })
            .collect();
        estimated(&ratios)
    };
    let times: Vec<f64> = tests().map(|m| value(metric, &m.sample)).collect();
    let fractions: Vec<f64> = tests().filter_map(|m| m.sample.softirq_fraction).collect();
    let corrected: Vec<f64> = ledgers()
        .filter(|ledger| ledger.interval_s > 0.0)
        .map(|ledger| {
            let containers = context.competitor_paths.iter();
            let used: i64 = containers
                .filter_map(|path| ledger.container(path))
                .map(|c| c.corrected_cpu_ns)
                .sum();
            used as f64 / 1e9 / ledger.interval_s
        })
        .collect();
    let charged: Vec<f64> = ledgers()
        .filter_map(|l| {
            share(l, context.victim_path, context.victim_cpu, |c| {
                &c.charged_by_cpu_ns
            })
        })
        .collect();
    Some(TreatedResult {
        treatment,
        test: estimated(&times)?,
        penalty: estimated(&penalties)?,
        goodput_kept: kept(|s| s.received),
        idle_goodput_kept: kept(|s| s.received_idle),
        softirq_fraction: median(&fractions),
        received: median_rate(tests().filter_map(|m| m.sample.received)),
        offender_corrected_fraction: median(&corrected),
        victim_charged_fraction: median(&charged),
    })
}

/// Median over the tests of what all competitors caused on the victim's CPU.
fn competitors_share<'a>(
    context: &Context<'_>,
    ledgers: impl Iterator<Item = &'a LedgerRecord>,
) -> Option<f64> {
    let caused = |ledger| {
        let shares = context
            .competitor_paths
            .iter()
            .filter_map(|path| share(ledger, path, context.victim_cpu, |c| &c.caused_by_cpu_ns));
        shares.reduce(|a, b| a + b)
    };
    median(&ledgers.filter_map(caused).collect::<Vec<_>>())
}

fn of(measured: &[Measured], role: Role, treatment: Treatment) -> impl Iterator<Item = &Measured> {
    measured
        .iter()
        .filter(move |m| m.sample.role == role && m.sample.treatment == treatment)
}

fn value(metric: Metric, sample: &Sample) -> f64 {
    match (metric, &sample.latency) {
        (Metric::P99Us, Some(latency)) => latency.p99_us,
        _ => sample.elapsed_s,
    }
}

/// A container's share of the victim's CPU; 0 where the ledger does not list it: it was idle.
fn share(
    ledger: &LedgerRecord,
    path: &str,
    cpu: u32,
    column: fn(&LedgerContainer) -> &Vec<u64>,
) -> Option<f64> {
    match ledger.container(path) {
        Some(container) => ledger.share_of(cpu, column(container)),
        None => Some(0.0),
    }
}

fn median_rate(rates: impl Iterator<Item = Rate>) -> Option<Rate> {
    let (packets, bytes): (Vec<f64>, Vec<f64>) =
        rates.map(|r| (r.packets_per_s, r.bytes_per_s)).unzip();
    Some(Rate {
        packets_per_s: median(&packets)?,
        bytes_per_s: median(&bytes)?,
    })
}

/// True when all samples gave the same answer.
pub(crate) fn same_answers(measured: &[Measured]) -> bool {
    measured
        .windows(2)
        .all(|pair| pair[0].sample.checksum == pair[1].sample.checksum)
}
