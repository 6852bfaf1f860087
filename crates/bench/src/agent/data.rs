//! The data of `bench agent`: what the agent takes of the host.

use crate::data::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A part of `bench agent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentExperiment {
    /// CPU time and memory of an agent that looks after many containers.
    Cost,
    /// Cost of the diagnosis from processes that do nothing but wake each other.
    Diagnosis,
    /// How long a container runtime waits for the agent's answers.
    Answers,
}
labels!(AgentExperiment { Cost => "cost", Diagnosis => "diagnosis", Answers => "answers" });

/// What the agent has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentDuty {
    /// One rule: observe.
    Observe,
    /// One rule: enforce for every container.
    Enforce,
    /// A thousand rules, of which the last matches: enforce for every container.
    ThousandRules,
    /// One rule: enforce for every container; and the history is kept.
    History,
    /// The same, and somebody looks at the live page.
    Page,
}
labels!(AgentDuty {
    Observe => "observe", Enforce => "enforce", ThousandRules => "thousand-rules",
    History => "history", Page => "page",
});

impl AgentDuty {
    /// For people.
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

/// Where the two processes are whose switches the diagnosis watches.
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

/// One measurement: a line of `samples.jsonl` in agent runs. The fields that its experiment does
/// not have are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSample {
    /// Schema of this line.
    pub schema: u32,
    /// Its end, RFC 3339 in UTC.
    pub time: String,
    /// `cost`, `diagnosis` or `answers`.
    pub experiment: String,
    /// The duty, or where the processes are.
    pub case: String,
    /// Number of the round or pair, from 0.
    pub round: u32,
    /// CPU time of the agent, percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// Its resident memory, bytes.
    pub resident_bytes: Option<u64>,
    /// Its last control step, milliseconds.
    pub step_ms: Option<f64>,
    /// Round trips a second with the diagnosis off.
    pub off_per_s: Option<f64>,
    /// Round trips a second with the diagnosis on.
    pub on_per_s: Option<f64>,
    /// Round trips a second with a program that does nothing at each switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_per_s: Option<f64>,
    /// Round trips a second of a period of the agent's windows, one window in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_per_s: Option<f64>,
    /// Half of the runtime's requests were answered within this time, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_p50_ms: Option<f64>,
    /// All but a hundredth of them were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_p99_ms: Option<f64>,
    /// All of them were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_max_ms: Option<f64>,
}

/// How long a container runtime waits until the agent has answered that a container may be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// Pods that were there, and containers that were made in each round.
    pub containers: u32,
    /// Containers that the agent looked after meanwhile.
    pub live: u32,
    /// Median of each round, milliseconds.
    pub p50_ms: Estimate,
    /// 99th percentile of each round, milliseconds.
    pub p99_ms: Estimate,
    /// The longest of any round, milliseconds.
    pub max_ms: f64,
}

/// What an agent takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentCostRow {
    /// What it does.
    pub duty: AgentDuty,
    /// Containers that it looks after.
    pub containers: u32,
    /// Those of them that have traffic.
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
    /// Where the processes are.
    pub case: SwitchCase,
    /// Round trips a second, off.
    pub off: Estimate,
    /// Round trips a second, on.
    pub on: Estimate,
    /// On ÷ off of each pair.
    pub ratio: Estimate,
    /// The same with a program that does nothing at each switch: what any program there costs. Absent from runs before it
    /// was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_ratio: Option<Estimate>,
    /// The same with the diagnosis in windows, as the agent takes them while nobody loses anything: a period of them and as
    /// long without, in turns. Absent where there were too few rounds, and on two CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_ratio: Option<Estimate>,
    /// The same by the kernel's statistics: time of the programs in a round trip, percent of
    /// it. Steadier than `ratio`, and blind to what the programs do to caches.
    pub programs_pct: f64,
    /// What the statistics themselves add to every run, nanoseconds.
    pub statistics_ns_per_run: f64,
    /// Each program's runs in a round trip and its time a run, by the kernel's statistics,
    /// their own cost included.
    pub programs: Vec<SwitchProgramRow>,
}

/// One program in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchProgramRow {
    /// Its name.
    pub name: String,
    /// Runs in a round trip.
    pub runs_per_round_trip: f64,
    /// Nanoseconds a run.
    pub ns_per_run: f64,
}

/// The outcome of an agent run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentResult {
    /// CPU time and memory, by duty.
    pub cost: Vec<AgentCostRow>,
    /// Cost of the diagnosis, by case.
    pub diagnosis: Vec<DiagnosisCostRow>,
    /// Answers to a container runtime.
    #[serde(default)]
    pub answers: Vec<AnswerRow>,
    /// What could not be measured, with the reason.
    pub failed: BTreeMap<String, String>,
}
