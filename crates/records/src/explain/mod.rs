//! What is wrong on this host now, in words: schema `cofferdam.explain/1`, the document of
//! `cofferdam explain --json`.
//!
//! [`explain`] is a pure function from the documents of `top --json` and `status --json`. Every
//! sentence names the figures that it rests on.

mod cpu_time;
mod evidence;
#[cfg(test)]
pub(crate) mod made_up;
mod packets;
mod problems;
mod rule;
#[cfg(test)]
mod tests;
pub mod text;

use crate::accounting::{AccountingRecord, ContainerRecord};
use crate::status::{SUFFERS_CPUS, StatusReport};
use evidence::Evidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema of [`Explanation`].
pub const EXPLAIN: &str = "cofferdam.explain/1";

/// What is wrong on this host now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Always `cofferdam.explain/1`.
    pub schema: String,
    /// End of the measurement, RFC 3339 in UTC.
    pub time: String,
    /// `running`, `not_running`, or `not_permitted` if this user may not ask it.
    pub agent: String,
    /// One sentence: the worst, or that nothing is wrong.
    pub summary: String,
    /// What is wrong: harm to containers first, the largest first.
    pub findings: Vec<Finding>,
    /// What was measured.
    pub figures: Figures,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name: `pays_for_others`, `cpu_taken_by_others`, `held_by_own_quota`,
    /// `measurement_doubtful`, or a name of the status' `degraded`.
    pub name: String,
    /// What is wrong: offender, size of the harm, victim.
    pub sentence: String,
    /// The sentences behind it, each with its figures.
    pub reasons: Vec<String>,
    /// The container that does the harm; null if it is the host, or none.
    pub offender: Option<Party>,
    /// The container that suffers; null for the host as a whole.
    pub victim: Option<Party>,
    /// Size of the harm, CPUs; null where it is none of CPU time.
    pub cpus: Option<f64>,
    /// When it began, RFC 3339 in UTC; null if nobody has watched.
    pub since: Option<String>,
    /// For how long it has lasted at least, seconds; null if that is not known.
    pub for_s: Option<f64>,
    /// How sure: `certain`, `likely` or `unclear`.
    pub certainty: String,
    /// On what figures that rests.
    pub evidence: String,
    /// The command that helps, for a shell; null if there is none.
    pub command: Option<String>,
    /// What the command does, or what to do instead.
    pub effect: String,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Party {
    /// Its name.
    pub name: String,
    /// Id of its cgroup.
    pub cgroup_id: u64,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Readings.
    pub readings: u64,
    /// All of them together, seconds.
    pub measured_s: f64,
    /// Containers.
    pub containers: u64,
    /// Network CPU that containers caused, CPUs.
    pub caused_cpus: f64,
    /// The most that one container paid for others, CPUs.
    pub most_paid_cpus: f64,
    /// That container; null if none paid.
    pub most_paid_by: Option<Party>,
    /// The most CPU time that others took from one container, CPUs; null if it is not diagnosed.
    pub most_taken_cpus: Option<f64>,
    /// That container; null if none lost any.
    pub most_taken_from: Option<Party>,
    /// Difference between ledger and clock on the worst CPU, percent.
    pub ledger_error_pct: f64,
}

/// The agent, as far as it answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Agent {
    /// Its status before and after the readings.
    Running(Box<(StatusReport, StatusReport)>),
    /// Nobody listens.
    NotRunning,
    /// It does not answer this user.
    NotPermitted,
}

impl Agent {
    /// Its newest status.
    fn status(&self) -> Option<&StatusReport> {
        match self {
            Agent::Running(both) => Some(&both.1),
            Agent::NotRunning | Agent::NotPermitted => None,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Agent::Running(_) => "running",
            Agent::NotRunning => "not_running",
            Agent::NotPermitted => "not_permitted",
        }
    }
}

/// Finds what is wrong in `readings`, consecutive intervals of one accounting, and in what the agent
/// says of itself.
pub fn explain(readings: &[AccountingRecord], agent: &Agent, time: String) -> Explanation {
    let evidence = Evidence::new(readings, agent);
    let mut findings = packets::findings(&evidence);
    findings.extend(cpu_time::findings(&evidence));
    findings.sort_by(|a, b| {
        let harm = |f: &Finding| f.cpus.unwrap_or(0.0);
        harm(b).total_cmp(&harm(a))
    });
    findings.extend(problems::findings(&evidence));
    let figures = evidence.figures();
    Explanation {
        schema: EXPLAIN.to_owned(),
        time,
        agent: agent.label().to_owned(),
        summary: match findings.first() {
            Some(worst) => worst.sentence.clone(),
            None => nothing(&figures),
        },
        findings,
        figures,
    }
}

/// The command that has the agent charge `offender`, one of `all`, for its own packets; `None` where its
/// name and path cannot be typed safely.
pub fn enforce_command(offender: &ContainerRecord, all: &[ContainerRecord]) -> Option<String> {
    rule::selector(offender, all).map(|selector| rule::enforce(&selector))
}

/// The sentence when nothing is wrong.
fn nothing(figures: &Figures) -> String {
    match figures.containers {
        0 => "Nothing is wrong: there is no container on this host.".to_owned(),
        count => format!(
            "Nothing is wrong: none of {count} {} pays or loses {SUFFERS_CPUS} CPUs to others.",
            plural(count, "container")
        ),
    }
}

fn plural(count: u64, word: &str) -> String {
    match count {
        1 => word.to_owned(),
        _ => format!("{word}s"),
    }
}
