//! From samples to a cell's medians and intervals.

use super::sample::Measured;
use crate::data::{
    Cell, CellResult, LedgerContainer, LedgerRecord, Metric, Rate, Role, Sample, VictimKind,
};
use crate::stats::{estimate, median};

/// What the numbers of one cell are joined with.
pub(crate) struct Context<'a> {
    pub cell: &'a Cell,
    pub victim_cpu: u32,
    pub competitor_path: &'a str,
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
        of(measured, role)
            .map(|m| value(metric, &m.sample))
            .collect()
    };
    let penalties: Vec<f64> = of(measured, Role::Traffic)
        .filter_map(|test| {
            let baseline =
                of(measured, Role::Compute).find(|b| b.sample.pair == test.sample.pair)?;
            Some(value(metric, &test.sample) / value(metric, &baseline.sample))
        })
        .collect();
    let tests = || of(measured, Role::Traffic);
    let softirq_fraction = median(
        &tests()
            .filter_map(|m| m.sample.softirq_fraction)
            .collect::<Vec<_>>(),
    );
    let shares = |path: &str, column: fn(&LedgerContainer) -> &Vec<u64>| {
        let shares: Vec<f64> = tests()
            .filter_map(|m| share(m.ledger.as_ref()?, path, context.victim_cpu, column))
            .collect();
        median(&shares)
    };
    Some(CellResult {
        cell: context.cell.clone(),
        metric,
        alone: estimated(&values(Role::Alone)),
        baseline: estimated(&values(Role::Compute))?,
        test: estimated(&values(Role::Traffic))?,
        penalty: estimated(&penalties)?,
        softirq_fraction,
        softirq_source: tests().find_map(|m| m.sample.softirq_source),
        // A CPU that did nothing else has no prediction.
        predicted: softirq_fraction
            .filter(|s| *s < 1.0)
            .map(|s| 1.0 / (1.0 - s)),
        offered: median_rate(tests().filter_map(|m| m.sample.offered)),
        received: median_rate(tests().filter_map(|m| m.sample.received)),
        offender_caused_fraction: shares(context.competitor_path, |c| &c.caused_by_cpu_ns),
        victim_charged_fraction: shares(context.victim_path, |c| &c.charged_by_cpu_ns),
    })
}

fn of(measured: &[Measured], role: Role) -> impl Iterator<Item = &Measured> {
    measured.iter().filter(move |m| m.sample.role == role)
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
