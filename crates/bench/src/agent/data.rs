//! Data of `bench agent`: the resources that the agent uses on the host.

use crate::data::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Part of `bench agent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentExperiment {
    /// CPU time and memory of an agent that manages many containers.
    Cost,
    /// Cost of the diagnosis for processes that only wake each other.
    Diagnosis,
    /// Time that a container runtime waits for the agent's answers.
    Answers,
}
labels!(AgentExperiment { Cost => "cost", Diagnosis => "diagnosis", Answers => "answers" });

/// Work of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentDuty {
    /// One rule: observe.
    Observe,
    /// One rule: enforce for every container.
    Enforce,
    /// A thousand rules, of which the last matches: enforce for every container.
    ThousandRules,
    /// One rule: enforce for every container; the agent writes a history.
    History,
    /// Duty `History`, with one viewer of the live page.
    Page,
}
labels!(AgentDuty {
    Observe => "observe", Enforce => "enforce", ThousandRules => "thousand-rules",
    History => "history", Page => "page",
});

impl AgentDuty {
    /// Text for people.
    pub fn words(self) -> &'static str {
        match self {
            AgentDuty::Observe => "observes",
            AgentDuty::Enforce => "enforces (one rule)",
            AgentDuty::ThousandRules => "enforces (1,000 rules)",
            AgentDuty::History => "enforces and keeps a history",
            AgentDuty::Page => "enforces, keeps a history and shows the page to one viewer",
        }
    }
}

/// Place of the two processes whose context switches the diagnosis watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SwitchCase {
    /// In one container, on one CPU.
    OneContainerOneCpu,
    /// In one container, on two CPUs.
    OneContainerTwoCpus,
    /// In two containers, on one CPU: each switch is between containers.
    TwoContainersOneCpu,
    /// In two containers, on two CPUs.
    TwoContainersTwoCpus,
    /// In no container, on one CPU.
    NoContainerOneCpu,
}
labels!(SwitchCase {
    OneContainerOneCpu => "one container, one CPU",
    OneContainerTwoCpus => "one container, two CPUs",
    TwoContainersOneCpu => "two containers, one CPU",
    TwoContainersTwoCpus => "two containers, two CPUs",
    NoContainerOneCpu => "no container, one CPU",
});

/// One measurement: a line of `samples.jsonl` in agent runs. Fields of the other experiments are
/// absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSample {
    /// Schema of this line.
    pub schema: u32,
    /// End of the measurement, RFC 3339 in UTC.
    pub time: String,
    /// `cost`, `diagnosis` or `answers`.
    pub experiment: String,
    /// The duty, or the place of the processes.
    pub case: String,
    /// Number of the round or pair, from 0.
    pub round: u32,
    /// CPU time of the agent, percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// Resident memory of the agent, bytes.
    pub resident_bytes: Option<u64>,
    /// Last control step of the agent, milliseconds.
    pub step_ms: Option<f64>,
    /// Round trips a second with the diagnosis off.
    pub off_per_s: Option<f64>,
    /// Round trips a second with the diagnosis on.
    pub on_per_s: Option<f64>,
    /// Round trips a second with an empty program at each switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_per_s: Option<f64>,
    /// Round trips a second over a period that contains one window of the diagnosis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_per_s: Option<f64>,
    /// Time within which half of the runtime's requests were answered, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_p50_ms: Option<f64>,
    /// Time within which 99% were answered, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_p99_ms: Option<f64>,
    /// Time within which all were answered, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_max_ms: Option<f64>,
}

/// Time that a container runtime waits for the agent's answer before it makes a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// Pods at the start, and containers that each round makes.
    pub containers: u32,
    /// Containers that the agent managed at the same time.
    pub live: u32,
    /// Median of each round, milliseconds.
    pub p50_ms: Estimate,
    /// 99th percentile of each round, milliseconds.
    pub p99_ms: Estimate,
    /// The longest of any round, milliseconds.
    pub max_ms: f64,
}

/// Resources of an agent with one duty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentCostRow {
    /// The duty.
    pub duty: AgentDuty,
    /// Containers that it manages.
    pub containers: u32,
    /// Containers with traffic among them.
    pub busy: u32,
    /// CPU time, percent of one CPU.
    pub cpu_pct: Estimate,
    /// Resident memory, bytes, the most of any round.
    pub resident_bytes: u64,
    /// One control step, milliseconds.
    pub step_ms: Estimate,
}

/// Cost of the diagnosis in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiagnosisCostRow {
    /// Place of the processes.
    pub case: SwitchCase,
    /// Round trips a second with the diagnosis off.
    pub off: Estimate,
    /// Round trips a second with the diagnosis on.
    pub on: Estimate,
    /// On ÷ off of each pair.
    pub ratio: Estimate,
    /// Ratio with an empty program at each switch, the cost of any program there; absent from runs
    /// before it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_ratio: Option<Estimate>,
    /// Ratio with the diagnosis in windows, as the agent takes them while no container loses CPU
    /// time. Periods with and without a window take turns. Absent with too few rounds, and on two
    /// CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_ratio: Option<Estimate>,
    /// Time of the programs by the kernel's statistics, percent of a round trip. Steadier than
    /// `ratio`, but without the programs' effect on caches.
    pub programs_pct: f64,
    /// Time that the statistics add to every run, nanoseconds.
    pub statistics_ns_per_run: f64,
    /// Runs in a round trip and time a run of each program, by the kernel's statistics, their own
    /// cost included.
    pub programs: Vec<SwitchProgramRow>,
}

/// One program in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchProgramRow {
    /// Name of the program.
    pub name: String,
    /// Runs in a round trip.
    pub runs_per_round_trip: f64,
    /// Nanoseconds a run.
    pub ns_per_run: f64,
}

/// Result of an agent run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentResult {
    /// CPU time and memory, by duty.
    pub cost: Vec<AgentCostRow>,
    /// Cost of the diagnosis, by case.
    pub diagnosis: Vec<DiagnosisCostRow>,
    /// Answers to a container runtime.
    #[serde(default)]
    pub answers: Vec<AnswerRow>,
    /// Experiments that could not be measured, with the reason.
    pub failed: BTreeMap<String, String>,
}
