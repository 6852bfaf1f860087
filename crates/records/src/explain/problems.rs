//! Findings about the agent and about the measurement itself.

use super::evidence::{Evidence, TRUSTED_WITHIN_PCT};
use super::{Finding, Party};
use crate::status::{DegradedRecord, PAYS, StatusReport};

/// Name of the finding of a measurement that cannot be trusted.
const DOUBTFUL: &str = "measurement_doubtful";

/// Returns one finding for each problem that the agent reports, and one when the ledger does not
/// add up or counts were lost.
pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(status) = evidence.agent.status() {
        found.extend(status.degraded.iter().map(|d| degraded(d, None, status)));
        for container in &status.containers {
            let victim = Party {
                name: container.name.clone(),
                cgroup_id: container.cgroup_id,
            };
            // The readings show with more figures that a container pays.
            let others = container.degraded.iter().filter(|d| d.name != PAYS);
            found.extend(others.map(|d| degraded(d, Some(victim.clone()), status)));
        }
    }
    found.extend(doubtful(evidence));
    found
}

fn degraded(record: &DegradedRecord, victim: Option<Party>, status: &StatusReport) -> Finding {
    let (command, effect) = remedy(&record.name, status);
    let sentence = match &victim {
        Some(victim) => format!("{}: {}.", victim.name, record.text.trim_end_matches('.')),
        None => format!("The agent: {}.", record.text.trim_end_matches('.')),
    };
    Finding {
        name: record.name.clone(),
        sentence,
        reasons: Vec::new(),
        offender: None,
        victim,
        cpus: None,
        since: None,
        for_s: None,
        certainty: "certain".to_owned(),
        evidence: "the agent reports it itself".to_owned(),
        command: Some(command),
        effect: effect.to_owned(),
    }
}

/// Command and effect for a name of the status' `degraded`, as it works for this agent: with its
/// own configuration, and by its unit only where it runs in one.
fn remedy(name: &str, status: &StatusReport) -> (String, &'static str) {
    let agent = &status.agent;
    let config = shell_word(&status.configuration.path);
    let reload = match &agent.unit {
        Some(unit) => format!("sudo systemctl reload {unit}"),
        None => format!("sudo kill -HUP {}", agent.pid),
    };
    match name {
        "configuration_refused" => (
            format!("sudo cofferdam agent --check-config --config {config} && {reload}"),
            "lists every mistake with its line; without one, puts the configuration in force",
        ),
        "restart_needed" => match &agent.unit {
            Some(unit) => (
                format!("sudo systemctl restart {unit}"),
                "puts the whole configuration in force",
            ),
            None => (
                format!(
                    "sudo kill {} && sudo cofferdam agent --config {config}",
                    agent.pid
                ),
                "ends the agent, which no unit starts again, and starts one \
     with the whole configuration",
            ),
        },
        "metrics_address" | "socket_group" | "web_page" | "history_unavailable" => (
            reload,
            "tries again, once the cause in the sentence is mended",
        ),
        "accounting_unreadable"
        | "diagnosis_unavailable"
        | "diagnosis_unreadable"
        | "enforcement_unavailable" => (
            "sudo cofferdam doctor".to_owned(),
            "says what this host lacks, and the remedy",
        ),
        "not_taken_back" => (
            match &agent.unit {
                Some(unit) => {
                    format!("sudo systemctl stop {unit} && sudo cofferdam agent --restore")
                }
                None => "sudo cofferdam agent --stop && sudo cofferdam agent --restore".to_owned(),
            },
            "reverts what an earlier agent has left",
        ),
        _ => (
            "sudo cofferdam status".to_owned(),
            "shows it with all that is in force",
        ),
    }
}

/// Quotes `text` as one word for a shell.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

fn doubtful(evidence: &Evidence) -> Option<Finding> {
    let (error, lost) = (evidence.ledger_error_pct(), evidence.lost());
    if error <= TRUSTED_WITHIN_PCT && lost.is_empty() {
        return None;
    }
    let mut reasons = Vec::new();
    if error > TRUSTED_WITHIN_PCT {
        reasons.push(format!(
            "ledger and clock differ by {error:.1}% on the worst CPU"
        ));
    }
    reasons.extend(lost);
    Some(Finding {
        name: DOUBTFUL.to_owned(),
        sentence: format!("The measurement is incomplete: {}.", reasons[0]),
        reasons: reasons.split_off(1),
        offender: None,
        victim: None,
        cpus: None,
        since: None,
        for_s: None,
        certainty: "certain".to_owned(),
        evidence: "the accounting counts it itself".to_owned(),
        command: Some("sudo cofferdam doctor".to_owned()),
        effect: "says what this host lacks, and the remedy".to_owned(),
    })
}
