//! What the report says first: how many goals are reached, and which are not.

use super::super::format::{factor, number, scaled};
use super::goals;
use crate::data::{
    DataplaneExperiment, DataplaneResult, DataplaneRow, DataplaneService, EchoServer,
    SERVICE_P99_US,
};

/// A headline, each goal that is missed, and what the experiments without a goal say.
pub fn finding(result: &DataplaneResult) -> Vec<String> {
    let goals = goals::all(result);
    let judged: Vec<bool> = goals.iter().filter_map(goals::Goal::is_reached).collect();
    let mut text = Vec::new();
    if !judged.is_empty() {
        let reached = judged.iter().filter(|reached| **reached).count();
        let unknown = match goals.len() - judged.len() {
            0 => String::new(),
            1 => "; one was not measured".to_owned(),
            n => format!("; {n} were not measured"),
        };
        text.push(format!(
            "{reached} of {} goals are reached{unknown}.",
            judged.len()
        ));
    }
    for goal in &goals {
        if let (Some(figure), Some(false)) = (&goal.figure, goal.is_reached()) {
            text.push(format!(
                "Missed: {} is {}; the goal is {}.",
                lower(goal.what),
                number(figure.median),
                goal.bound()
            ));
        }
    }
    text.extend(cores(result));
    for mix in DataplaneExperiment::ALL.iter().filter(|e| e.is_mix()) {
        text.extend(served(*mix, &result.service));
    }
    if text.is_empty() {
        text.push(match result.rows.is_empty() {
            true => "Nothing was measured to its end.".to_owned(),
            false => "No goal is judged by what was measured.".to_owned(),
        });
    }
    text
}

/// A sentence's beginning within another.
fn lower(what: &str) -> String {
    let mut letters = what.chars();
    let first = letters.next().map(|c| c.to_lowercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// What several cores bring and cost.
fn cores(result: &DataplaneResult) -> Option<String> {
    let of = |experiment, shared: bool| {
        let rows = result.rows.iter().filter(move |r: &&DataplaneRow| {
            r.cell.experiment == experiment
                && r.cell.server == EchoServer::Process
                && r.shares_cpu == shared
                && r.rate_to_one_core.is_some()
        });
        let most = rows.max_by_key(|r| r.cell.at)?;
        Some((most.cell.at, most.rate_to_one_core.as_ref()?.median))
    };
    let mut text = Vec::new();
    match (
        of(DataplaneExperiment::Cores, false),
        of(DataplaneExperiment::Cores, true),
    ) {
        (Some((count, ratio)), _) => text.push(format!(
            "With {count} cores the dataplane answers {} what it does with one.",
            factor(ratio)
        )),
        (None, Some(_)) => text.push(
            "This host has no CPU for a second core of the server beside the load generator's."
                .to_owned(),
        ),
        (None, None) => {}
    }
    if let Some((count, ratio)) = of(DataplaneExperiment::OneCpu, false) {
        text.push(format!(
            "The code for {count} cores, on one CPU, keeps {} of one core's requests a second.",
            number(ratio)
        ));
    }
    (!text.is_empty()).then(|| text.join(" "))
}

/// What the servers did within the limit of latency.
fn served(mix: DataplaneExperiment, service: &[DataplaneService]) -> Option<String> {
    let own = || service.iter().filter(|s| s.experiment == mix);
    own().next()?;
    let name = mix.to_string().to_uppercase();
    let limit = number(SERVICE_P99_US);
    let best = own().filter(|s| !s.server.is_linux() && s.requests_per_s.median > 0.0);
    let best = best.max_by(|a, b| a.requests_per_s.median.total_cmp(&b.requests_per_s.median));
    Some(match best {
        None => format!(
            "memcached, {name}: at none of the offered rates did the dataplane answer with a p99 of at \
             most {limit} µs."
        ),
        Some(best) => {
            let compared = best.to_blocking.as_ref().map_or(String::new(), |ratio| {
                format!(", {} what blocking sockets do", factor(ratio.median))
            });
            format!(
                "memcached, {name}: {} answers {} requests a second with a p99 of at most {limit} µs\
                 {compared}.",
                best.server.words(),
                scaled(best.requests_per_s.median),
            )
        }
    })
}
