//! Main finding, in sentences.

use super::verdicts;
use crate::evidence;
use crate::run::{Goals, RunData};

/// Sentences of the finding, then the goals; never empty.
pub fn of(run: &RunData) -> Vec<String> {
    let result = run.result.as_ref();
    let outcome = result.map(|result| result.outcome());
    let mut text = match outcome {
        None => vec![
            "The run ended before anything could be compared. The measurements so far are below."
                .to_owned(),
        ],
        Some(outcome) if outcome.is_measured() => outcome.finding(run),
        Some(_) => vec!["No measurement was completed.".to_owned()],
    };
    let goals = verdicts::sentences(&evidence::of(run), &names(run));
    match outcome.map_or(Goals::Last, |outcome| outcome.place_of_goals()) {
        Goals::Counted => {}
        Goals::First => text = [goals, text].concat(),
        Goals::Last => text.extend(goals),
    }
    if run.manifest.is_busy && evidence::is_measured(result) {
        // The doubt comes before the sentences that it concerns.
        let busy = "Inconclusive: the host was busy before the run. Run it again on a calm host.";
        text.insert(0, busy.to_owned());
    }
    if run.manifest.interrupted {
        text.push("The run was interrupted: it is not complete.".to_owned());
    }
    text
}

/// Names of the goals' conditions, by their ids.
pub fn names(run: &RunData) -> impl Fn(&str) -> String {
    let outcome = run.result.as_ref().map(|result| result.outcome());
    move |case| {
        let name = outcome.as_ref().and_then(|outcome| outcome.case_name(case));
        name.unwrap_or_else(|| case.to_owned())
    }
}

/// Title of the page.
pub fn title(run: &RunData) -> String {
    let own = run.result.as_ref().and_then(|r| r.outcome().title());
    let what = own.unwrap_or_else(|| run.manifest.kind.title().to_owned());
    format!("Cofferdam · {what}")
}
