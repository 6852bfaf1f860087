//! The main finding, in words.

use super::format::{cell as cell_name, estimate, number};
use super::{penalty, reservation, verdicts};
use crate::data::{AccountingResult, RunData, RunResult};
use crate::evidence;

/// What was found, then the goals; never empty.
pub fn of(run: &RunData) -> Vec<String> {
    let mut text = match &run.result {
        None => vec![
            "The run ended before anything could be compared. The measurements so far are below."
                .to_owned(),
        ],
        Some(RunResult::Penalty(result)) => penalty::finding(run, &result.cells),
        Some(RunResult::Demo(result)) => {
            let mut text = penalty::finding(run, std::slice::from_ref(&result.cell));
            text.extend(result.reservation.as_ref().and_then(reservation::story));
            text
        }
        Some(RunResult::Accounting(result)) => accounting(result),
        Some(RunResult::Reservation(result)) => reservation::finding(result),
        Some(RunResult::Dataplane(result)) => super::dataplane::finding(result),
        Some(RunResult::Isolation(result)) => super::isolation::finding(run, result),
        Some(RunResult::Latency(result)) => super::latency::finding(result),
        Some(RunResult::Agent(result)) => super::agent::finding(result),
    };
    let is_measured = evidence::is_measured(run.result.as_ref());
    if run.result.is_some() && !is_measured {
        text = vec!["No measurement was completed.".to_owned()];
    }
    let goals = verdicts::sentences(&evidence::of(run));
    match &run.result {
        // It has a goal a cell, and has counted them.
        Some(RunResult::Isolation(_)) => {}
        // All that it is for.
        Some(RunResult::Dataplane(_)) => text = [goals, text].concat(),
        _ => text.extend(goals),
    }
    if run.manifest.is_busy && is_measured {
        // Before what it makes doubtful.
        let busy = "Inconclusive: the host was busy before the run. Run it again on a calm host.";
        text.insert(0, busy.to_owned());
    }
    if run.manifest.interrupted {
        text.push("The run was interrupted: it is not complete.".to_owned());
    }
    text
}

fn accounting(result: &AccountingResult) -> Vec<String> {
    let mut text: Vec<String> = result
        .overhead
        .iter()
        .map(|row| {
            format!(
                "With the accounting on, {} keeps {} of its {}.",
                row.load.label(),
                estimate(&row.ratio),
                row.unit
            )
        })
        .collect();
    let worst = result
        .conservation
        .iter()
        .map(|c| c.worst_cpu_error_pct)
        .reduce(f64::max);
    if let Some(worst) = worst {
        text.push(format!(
            "The ledgers miss at most {}% of the measured time on any CPU.",
            number(worst)
        ));
    }
    let worst = result
        .accuracy
        .iter()
        .max_by(|a, b| a.error_pct.abs().total_cmp(&b.error_pct.abs()));
    if let Some(row) = worst {
        text.push(format!(
            "The largest error of attribution is {} ({}).",
            row.error(),
            row.case
        ));
    }
    text
}

/// Title of the page.
pub fn title(run: &RunData) -> String {
    let what = match &run.result {
        Some(RunResult::Demo(result)) => format!("Demo: {}", cell_name(&result.cell.cell)),
        _ => match run.manifest.kind {
            crate::data::Kind::Penalty => "Penalty of network work".to_owned(),
            crate::data::Kind::Accounting => "Cost and accuracy of the accounting".to_owned(),
            crate::data::Kind::Latency => "Accuracy and cost of the latency measurement".to_owned(),
            crate::data::Kind::Demo => "Demo".to_owned(),
            crate::data::Kind::Isolation => "How well tenants are isolated".to_owned(),
            crate::data::Kind::Reservation => "What a CPU reservation is worth".to_owned(),
            crate::data::Kind::Agent => "Cost of the agent".to_owned(),
            crate::data::Kind::Dataplane => "The dataplane compared with Linux sockets".to_owned(),
        },
    };
    format!("Cofferdam · {what}")
}
