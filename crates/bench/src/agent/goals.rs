//! Goals of the agent.

use crate::agent::data::{AgentDuty, AgentResult};
use crate::data::{GoalBound, Judgement};
use crate::evidence::{Figure, goal};

/// Most CPU time of an agent that enforces, percent of one CPU.
pub const GOAL_CPU_PCT: f64 = 1.0;
/// Most resident memory, MiB.
const GOAL_RESIDENT_MIB: f64 = 50.0;
/// Lowest ratio of round trips with the diagnosis on ÷ off, for a load that only switches.
pub const GOAL_SWITCHES: f64 = 0.98;

/// Longest wait of a container runtime for 99 of 100 answers, milliseconds.
pub const GOAL_ANSWER_MS: f64 = 2.0;

pub(crate) fn goals(result: &AgentResult) -> Vec<Judgement> {
    let judged = result.cost.iter().filter(|r| r.duty != AgentDuty::Observe);
    let cost = judged.flat_map(|row| {
        let case = format!("{}, {} containers", row.duty.words(), row.containers);
        let cpu = goal(
            "CPU time of the agent, % of one CPU",
            Some(case.clone()),
            GoalBound::AtMost(GOAL_CPU_PCT),
            Some(Figure::Sampled(&row.cpu_pct)),
        );
        let memory = goal(
            "Resident memory of the agent, MiB",
            Some(case),
            GoalBound::AtMost(GOAL_RESIDENT_MIB),
            Some(Figure::Count(
                row.resident_bytes as f64 / f64::from(1 << 20),
            )),
        );
        [cpu, memory]
    });
    let diagnosis = result.diagnosis.iter().map(|row| {
        goal(
            "Round trips with the diagnosis on ÷ off",
            Some(row.case.to_string()),
            GoalBound::AtLeast(GOAL_SWITCHES),
            Some(Figure::Sampled(&row.ratio)),
        )
    });
    let windows = result.diagnosis.iter().filter_map(|row| {
        let ratio = row.windows_ratio.as_ref()?;
        Some(goal(
            "Round trips with the diagnosis in windows ÷ off",
            Some(row.case.to_string()),
            GoalBound::AtLeast(GOAL_SWITCHES),
            Some(Figure::Sampled(ratio)),
        ))
    });
    let answers = result.answers.iter().map(|row| {
        goal(
            "99th percentile of the answers to a container runtime, ms",
            Some(format!("{} containers", row.containers)),
            GoalBound::AtMost(GOAL_ANSWER_MS),
            Some(Figure::Sampled(&row.p99_ms)),
        )
    });
    let diagnosis = diagnosis.chain(windows);
    cost.chain(diagnosis).chain(answers).collect()
}
