//! Synthetic run of `bench agent`.

use super::{estimate, five, run};
use crate::agent::data::*;
use crate::run::*;

pub fn agent() -> RunData {
    let cost = |duty, cpu: &[f64]| AgentCostRow {
        duty,
        containers: 100,
        busy: 10,
        cpu_pct: estimate(cpu),
        resident_bytes: 18 << 20,
        step_ms: estimate(&[0.4, 0.5, 0.45]),
    };
    let diagnosis = |case, ratios: &[f64]| DiagnosisCostRow {
        case,
        off: estimate(&vec![180e3; ratios.len()]),
        on: estimate(&ratios.iter().map(|r| r * 180e3).collect::<Vec<_>>()),
        ratio: estimate(ratios),
        empty_ratio: Some(estimate(&vec![0.99; ratios.len()])),
        windows_ratio: Some(five(0.995)),
        programs_pct: 1.4,
        statistics_ns_per_run: 26.0,
        programs: vec![SwitchProgramRow {
            name: "cf_sched_switch".to_owned(),
            runs_per_round_trip: 2.0,
            ns_per_run: 61.0,
        }],
    };
    RunData {
        result: Some(RunResult::Agent(AgentResult {
            cost: vec![
                cost(AgentDuty::Observe, &[0.5, 0.6, 0.7, 0.6, 0.6]),
                cost(AgentDuty::Enforce, &[0.8, 0.9, 0.98, 0.85, 0.95]),
                cost(AgentDuty::ThousandRules, &[1.1, 1.2, 1.3, 1.15, 1.25]),
                cost(AgentDuty::History, &[0.9, 1.0, 1.05, 0.95, 0.98]),
            ],
            diagnosis: vec![
                diagnosis(
                    SwitchCase::OneContainerOneCpu,
                    &[0.981, 0.99, 1.0, 0.985, 0.995],
                ),
                diagnosis(
                    SwitchCase::TwoContainersOneCpu,
                    &[0.95, 0.96, 0.97, 0.955, 0.965],
                ),
            ],
            answers: vec![AnswerRow {
                containers: 1_000,
                live: 100,
                p50_ms: estimate(&[0.1, 0.11, 0.12]),
                p99_ms: estimate(&[0.9, 1.0, 1.1]),
                max_ms: 7.5,
            }],
            failed: Default::default(),
        })),
        ..run("agent", Kind::Agent)
    }
}
