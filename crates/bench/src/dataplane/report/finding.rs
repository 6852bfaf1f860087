//! Findings of a dataplane run besides its goals.

use crate::data::Estimate;
use crate::dataplane::data::{
    DataplaneExperiment, DataplaneResult, DataplaneRow, DataplaneService, EchoServer,
    SERVICE_P99_US,
};
use crate::report::format::{estimate, number, scaled, times};

/// Sentences about the experiments without a goal.
pub fn finding(result: &DataplaneResult) -> Vec<String> {
    let mut text = Vec::from_iter(cores(result));
    for mix in DataplaneExperiment::ALL.iter().filter(|e| e.is_mix()) {
        text.extend(service_line(*mix, &result.service));
    }
    text
}

/// Sentences about gain and cost of several cores.
fn cores(result: &DataplaneResult) -> Option<String> {
    let of = |experiment, shared: bool| -> Option<(u32, &Estimate)> {
        let rows = result.rows.iter().filter(move |r: &&DataplaneRow| {
            r.cell.experiment == experiment
                && r.cell.server == EchoServer::Process
                && r.shares_cpu == shared
                && r.rate_to_one_core.is_some()
        });
        let most = rows.max_by_key(|r| r.cell.at)?;
        Some((most.cell.at, most.rate_to_one_core.as_ref()?))
    };
    let mut text = Vec::new();
    match (
        of(DataplaneExperiment::Cores, false),
        of(DataplaneExperiment::Cores, true),
    ) {
        (Some((count, ratio)), _) => text.push(format!(
            "With {count} cores the dataplane answers {} what it does with one.",
            times(ratio)
        )),
        (None, Some(_)) => text.push(
            "This host has no CPU for a second core of the server in addition to the load \
             generator's."
                .to_owned(),
        ),
        (None, None) => {}
    }
    if let Some((count, ratio)) = of(DataplaneExperiment::OneCpu, false) {
        text.push(format!(
            "The code for {count} cores, on one CPU, keeps {} of one core's requests a second.",
            estimate(ratio)
        ));
    }
    (!text.is_empty()).then(|| text.join(" "))
}

/// Sentence about the servers' rates within the latency limit.
fn service_line(mix: DataplaneExperiment, service: &[DataplaneService]) -> Option<String> {
    let own = || service.iter().filter(|s| s.experiment == mix);
    own().next()?;
    let name = mix.to_string().to_uppercase();
    let limit = number(SERVICE_P99_US);
    let best = own().filter(|s| !s.server.is_linux() && s.requests_per_s.median > 0.0);
    let best = best.max_by(|a, b| a.requests_per_s.median.total_cmp(&b.requests_per_s.median));
    Some(match best {
        None => format!(
            "memcached, {name}: at none of the offered rates did the dataplane answer with a p99 \
             of at most {limit} µs."
        ),
        Some(best) => {
            let compared = best.to_blocking.as_ref().map_or(String::new(), |ratio| {
                format!(", {} what blocking sockets do", times(ratio))
            });
            format!(
                "memcached, {name}: {} answers {} requests a second with a p99 of at most {limit} \
                 µs{compared}.",
                best.server.words(),
                scaled(best.requests_per_s.median),
            )
        }
    })
}
