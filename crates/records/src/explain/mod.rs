//! Explanation of what is wrong on this host now: schema `cofferdam.explain/1`, the document of
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

/// Most findings in the agent's status.
const MOST_FINDINGS: usize = 100;

/// Schema of [`Explanation`].
pub const EXPLAIN: &str = "cofferdam.explain/1";

/// Explanation of what is wrong on this host now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Always `cofferdam.explain/1`.
    pub schema: String,
    /// End of the measurement, RFC 3339 in UTC.
    pub time: String,
    /// `running`, `not_running`, or `not_permitted` if this user may not ask the agent.
    pub agent: String,
    /// One sentence: the worst finding, or that nothing is wrong.
    pub summary: String,
    /// Findings: harm to containers first, ordered by what the offender does to all others.
    pub findings: Vec<Finding>,
    /// Figures of the measurement.
    pub figures: Figures,
}

/// Harm that containers suffered over the last seconds, as the agent measured it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Harm {
    /// Findings, the offender that does most harm to others first; at most 100.
    pub findings: Vec<Finding>,
    /// Number of findings, with those left out.
    pub findings_total: u64,
    /// Figures of the measurement.
    pub figures: Figures,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name: `pays_for_others`, `cpu_taken_by_others`, `held_by_own_quota`,
    /// `measurement_doubtful`, or a name of the status' `degraded`.
    pub name: String,
    /// The problem: offender, size of the harm, victim.
    pub sentence: String,
    /// Sentences that give the reasons, each with its figures.
    pub reasons: Vec<String>,
    /// The container that does the harm; null if it is the host, or none.
    pub offender: Option<Party>,
    /// The container that suffers the harm; null for the host as a whole.
    pub victim: Option<Party>,
    /// Size of the harm, CPUs; null where the harm is not CPU time.
    pub cpus: Option<f64>,
    /// Begin of the harm, RFC 3339 in UTC; null if no agent has watched.
    pub since: Option<String>,
    /// Least duration of the harm, seconds; null if unknown.
    pub for_s: Option<f64>,
    /// Certainty: `certain`, `likely` or `unclear`.
    pub certainty: String,
    /// Figures that the certainty rests on.
    pub evidence: String,
    /// Remedy as a command for a shell; null if there is none.
    pub command: Option<String>,
    /// Effect of the command, or what to do instead.
    pub effect: String,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Party {
    /// Name of the container.
    pub name: String,
    /// Id of the container's cgroup.
    pub cgroup_id: u64,
}

/// Figures of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Number of readings.
    pub readings: u64,
    /// Length of all readings together, seconds.
    pub measured_s: f64,
    /// Number of containers.
    pub containers: u64,
    /// Network CPU that containers caused, CPUs.
    pub caused_cpus: f64,
    /// Largest amount that one container paid for others, CPUs.
    pub most_paid_cpus: f64,
    /// The container that paid it; null if none paid.
    pub most_paid_by: Option<Party>,
    /// Largest CPU time that others took from one container, CPUs; null if that is not diagnosed.
    pub most_taken_cpus: Option<f64>,
    /// The container that lost it; null if none lost any.
    pub most_taken_from: Option<Party>,
    /// Difference between ledger and clock on the worst CPU, percent.
    pub ledger_error_pct: f64,
}

/// Way to start an agent on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// systemd runs and has a unit `cofferdam.service`.
    #[default]
    Service,
    /// No such unit: only by hand.
    ByHand,
}

/// State of the agent, as seen by a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Agent {
    /// Running, with the status before and after the readings.
    Running(Box<(StatusReport, StatusReport)>),
    /// No process listens on the socket.
    NotRunning(Start),
    /// Running, but refuses this user.
    NotPermitted,
}

impl Agent {
    /// Newest status.
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

/// Explains what is wrong in `readings`, consecutive intervals of one accounting, and in the
/// agent's status. Harm is ranked by what an offender does to others.
///
/// An agent that watches has one answer for all clients, the [`Harm`] of its status, so that all
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

/// Finds the harm in `readings`: the agent's answer for all its clients.
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
    findings.extend(cpu_time::throttled(evidence, owed));
    Harm {
        findings_total: findings.len() as u64,
        findings,
        figures: evidence.figures(&all),
    }
}

/// Whether `transfer` is worth a finding of its own: it is large, or the largest of a victim that
/// loses much to many by the same means. `of_victim` has all transfers of the victim.
fn is_finding(transfer: &Transfer, of_victim: &[&Transfer]) -> bool {
    if transfer.cpus() >= SUFFERS_CPUS {
        return true;
    }
    let alike = || of_victim.iter().filter(|t| t.means == transfer.means);
    let all: f64 = alike().map(|t| t.cpus()).sum();
    let largest = alike().rev().max_by(|a, b| a.cpus().total_cmp(&b.cpus()));
    all >= SUFFERS_CPUS && largest.is_some_and(|t| *t == transfer)
}

/// Command that has the agent charge `offender`, one of `all`, for its own packets; `None` where
/// its name and path cannot be typed safely.
pub fn enforce_command(offender: &ContainerRecord, all: &[ContainerRecord]) -> Option<String> {
    rule::selector(offender, all).map(|selector| rule::enforce(&selector))
}

/// Sentence for a host where nothing is wrong.
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
