//! Medians with intervals, from samples and simulations.

use crate::simulation::data::{SimulationCase, SimulationCaseResult, SimulationSample, TenantRow};
use crate::stats::estimate;

/// Computes the result of `case`; `None` without a sample. `simulated` has the shares of each
/// round's seed. The last sample of a round counts: the earlier ones were disturbed.
pub(super) fn case(
    case: &SimulationCase,
    samples: &[SimulationSample],
    simulated: &[Vec<f64>],
    seed: u64,
) -> Option<SimulationCaseResult> {
    let mine: Vec<&SimulationSample> = samples.iter().filter(|s| s.case == case.id).collect();
    let rounds = mine.iter().map(|s| s.round + 1).max()?;
    let last = |round| mine.iter().rfind(|s| s.round == round).copied();
    let counted: Vec<&SimulationSample> = (0..rounds).filter_map(last).collect();
    let measured: Vec<Vec<f64>> = counted.iter().map(|s| s.shares()).collect();
    let column = |rows: &[Vec<f64>], tenant: usize| {
        let values: Vec<f64> = rows.iter().filter_map(|r| r.get(tenant)).copied().collect();
        estimate(&values, seed)
    };
    let rows = case.tenants.iter().enumerate().map(|(i, tenant)| {
        Some(TenantRow {
            name: tenant.name.clone(),
            measured: column(&measured, i)?,
            simulated: column(simulated, i)?,
        })
    });
    let rows = rows.collect::<Option<Vec<TenantRow>>>()?;
    // Compares with the simulation's median: one run of it is as random as one of the host.
    let differences: Vec<f64> = measured
        .iter()
        .map(|shares| {
            let each = shares.iter().zip(&rows);
            let each = each.map(|(share, row)| (share - row.simulated.median).abs() * 100.0);
            each.fold(0.0, f64::max)
        })
        .collect();
    let taken = |s: &&SimulationSample| {
        let all = s.foreign_s + s.steal_s + s.idle_s + s.cpu_s.iter().sum::<f64>();
        s.taken_s / all.max(1e-9) * 100.0
    };
    let taken: Vec<f64> = counted.iter().map(taken).collect();
    Some(SimulationCaseResult {
        case: case.clone(),
        rows,
        difference_pct: estimate(&differences, seed)?,
        taken_pct: estimate(&taken, seed)?,
        repeated: (mine.len() - counted.len()) as u32,
        disturbed: counted.iter().filter(|s| s.disturbed).count() as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::SCHEMA;
    use crate::simulation::cases::cases;

    /// Only the last sample of each round counts. The CPU time that other processes took is left
    /// out.
    #[test]
    fn the_last_sample_counts_without_the_time_of_others() {
        let one = &cases(2, true)[0];
        let sample = |round, cpu_s: [f64; 2], taken_s, disturbed| SimulationSample {
            schema: SCHEMA,
            time: String::new(),
            case: one.id.clone(),
            round,
            elapsed_s: 1.0,
            cpu_s: cpu_s.to_vec(),
            idle_s: 0.0,
            foreign_s: taken_s,
            steal_s: 0.0,
            taken_s,
            disturbed,
        };
        let samples = [
            sample(0, [0.1, 0.9], 1.0, true),
            sample(0, [1.0, 1.0], 0.0, false),
            sample(1, [0.9, 0.9], 0.2, true),
        ];
        let simulated = vec![vec![0.5, 0.5], vec![0.48, 0.52]];
        let result = case(one, &samples, &simulated, 1).unwrap();
        assert_eq!((result.repeated, result.disturbed), (1, 1));
        assert_eq!(result.rows[0].measured.values, [0.5, 0.5]);
        assert!((result.difference_pct.median - 1.0).abs() < 1e-9);
        assert!(case(one, &[], &simulated, 1).is_none());
    }
}
