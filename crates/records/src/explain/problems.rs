//! What is wrong with the agent or with the measurement itself.

use super::evidence::{Evidence, TRUSTED_WITHIN_PCT};
use super::{Finding, Party};
use crate::status::{DegradedRecord, PAYS};

/// Name of the finding of a measurement that is not to be trusted.
const DOUBTFUL: &str = "measurement_doubtful";

/// One finding for each problem that the agent reports, and one when the ledger does not add up.
pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(status) = evidence.agent.status() {
        found.extend(status.degraded.iter().map(|d| degraded(d, None)));
        for container in &status.containers {
            let victim = Party {
                name: container.name.clone(),
                cgroup_id: container.cgroup_id,
            };
            // That a container pays is measured here, with more figures.
            let others = container.degraded.iter().filter(|d| d.name != PAYS);
            found.extend(others.map(|d| degraded(d, Some(victim.clone()))));
        }
    }
    found.extend(doubtful(evidence));
    found
}

fn degraded(record: &DegradedRecord, victim: Option<Party>) -> Finding {
    let (command, effect) = remedy(&record.name);
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
        command: Some(command.to_owned()),
        effect: effect.to_owned(),
    }
}

/// Command and effect for a name of the status' `degraded`.
fn remedy(name: &str) -> (&'static str, &'static str) {
    match name {
        "configuration_refused" => (
            "sudo cofferdam agent --check-config",
            "lists every mistake with its line; 'systemctl reload cofferdam' when they are mended",
        ),
        "restart_needed" => (
            "sudo systemctl restart cofferdam",
            "puts the whole configuration in force",
        ),
        "metrics_address" | "socket_group" | "web_page" | "history_unavailable" => (
            "sudo systemctl reload cofferdam",
            "tries again, once the cause in the sentence is mended",
        ),
        "accounting_unreadable"
        | "diagnosis_unavailable"
        | "diagnosis_unreadable"
        | "enforcement_unavailable" => (
            "sudo cofferdam doctor",
            "says what this host lacks, and the remedy",
        ),
        "not_taken_back" => (
            "sudo systemctl stop cofferdam && sudo cofferdam agent --restore",
            "reverts what an earlier agent has left",
        ),
        _ => (
            "sudo cofferdam status",
            "shows it with all that is in force",
        ),
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
        sentence: format!("The measurement is not whole: {}.", reasons[0]),
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
