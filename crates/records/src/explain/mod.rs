//! What is wrong on this host now, in words: schema `cofferdam.explain/1`, the document of
//! `cofferdam explain --json`.
//!
//! [`explain`] is a pure function from the documents of `top --json` and `status --json`. Every
//! sentence names the figures that it rests on.

mod cpu_time;
mod evidence;
mod loss;
#[cfg(test)]
pub(crate) mod made_up;
mod packets;
mod problems;
mod rule;
#[cfg(test)]
mod tests;
pub mod text;
mod transfer;

use crate::accounting::{AccountingRecord, ContainerRecord};
use crate::status::{SUFFERS_CPUS, StatusReport};
use evidence::Evidence;
pub use problems::shell_word;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transfer::{Means, Transfer};

/// Findings that the agent's status has, at most.
const MOST_FINDINGS: usize = 100;

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
    /// What is wrong: harm to containers first, by what the offender does to all others.
    pub findings: Vec<Finding>,
    /// What was measured.
    pub figures: Figures,
}

/// Harm that containers suffered over the last seconds, as the agent saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Harm {
    /// The offender that does most harm to others first; at most 100.
    pub findings: Vec<Finding>,
    /// Findings, with those left out.
    pub findings_total: u64,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// How an agent can be started on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// systemd runs and has a unit `cofferdam.service`.
    #[default]
    Service,
    /// Only by hand.
    ByHand,
}

/// The agent, as far as it answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Agent {
    /// Its status before and after the readings.
    Running(Box<(StatusReport, StatusReport)>),
    /// Nobody listens.
    NotRunning(Start),
    /// It does not answer this user.
    NotPermitted,
}

impl Agent {
    /// Its newest status.
    fn status(&self) -> Option<&StatusReport> {
        match self {
            Agent::Running(both) => Some(&both.1),
            Agent::NotRunning(_) | Agent::NotPermitted => None,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Agent::Running(_) => "running",
            Agent::NotRunning(_) => "not_running",
            Agent::NotPermitted => "not_permitted",
        }
    }
}

/// Finds what is wrong in `readings`, consecutive intervals of one accounting, and in what the
/// agent says of itself. Harm is ranked by what an offender does to others.
///
/// An agent that watches has one answer for all who ask: the [`Harm`] of its status, so that all
/// views name the same offender.
pub fn explain(readings: &[AccountingRecord], agent: &Agent, time: String) -> Explanation {
    let evidence = Evidence::new(readings, agent);
    let watched = agent.status().and_then(|s| s.harm.as_ref());
    let harm = match watched {
        Some(harm) => harm.clone(),
        None => harm_of(&evidence),
    };
    let mut findings = harm.findings;
    findings.extend(problems::findings(&evidence));
    Explanation {
        schema: EXPLAIN.to_owned(),
        time,
        agent: agent.label().to_owned(),
        summary: match findings.first() {
            Some(worst) => worst.sentence.clone(),
            None => nothing(&harm.figures),
        },
        findings,
        figures: harm.figures,
    }
}

/// Finds the harm in `readings`: the agent's answer for all who ask it.
pub fn harm(readings: &[AccountingRecord], agent: &Agent) -> Harm {
    let mut harm = harm_of(&Evidence::new(readings, agent));
    harm.findings.truncate(MOST_FINDINGS);
    harm
}

fn harm_of(evidence: &Evidence) -> Harm {
    let all = transfer::transfers(evidence);
    let owed = |id| transfer::harm_by_packets(&all, id);
    let mut by_victim: BTreeMap<u64, Vec<&Transfer>> = BTreeMap::new();
    for transfer in &all {
        by_victim.entry(transfer.victim).or_default().push(transfer);
    }
    let mut findings = Vec::new();
    for transfer in &all {
        let of_victim = by_victim
            .get(&transfer.victim)
            .map_or(&[][..], Vec::as_slice);
        if !is_finding(transfer, of_victim) {
            continue;
        }
        let is_other = |t: &&&Transfer| !is_finding(t, of_victim);
        let others: Vec<&Transfer> = of_victim.iter().filter(is_other).copied().collect();
        findings.push(match transfer.means {
            Means::Packets => packets::finding(evidence, transfer, &others),
            Means::Tasks => cpu_time::finding(evidence, transfer, &others, owed),
        });
    }
    findings.extend(cpu_time::held(evidence, owed));
    Harm {
        findings_total: findings.len() as u64,
        findings,
        figures: evidence.figures(&all),
    }
}

/// Whether `transfer` is worth a finding of its own: it is large, or the largest of a victim that
/// loses much to many by the same means. `of_victim` has all of its victim.
fn is_finding(transfer: &Transfer, of_victim: &[&Transfer]) -> bool {
    if transfer.cpus() >= SUFFERS_CPUS {
        return true;
    }
    let alike = || of_victim.iter().filter(|t| t.means == transfer.means);
    let all: f64 = alike().map(|t| t.cpus()).sum();
    let largest = alike().rev().max_by(|a, b| a.cpus().total_cmp(&b.cpus()));
    all >= SUFFERS_CPUS && largest.is_some_and(|t| *t == transfer)
}

/// The command that has the agent charge `offender`, one of `all`, for its own packets; `None`
/// where its name and path cannot be typed safely.
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
