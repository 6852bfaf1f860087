//! The headline: one sentence that names the largest harm, the same one as `explain`.

use crate::exit::one_line;
use crate::units::{percent_of, spoken_pct};
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord, reason};
use cofferdam_records::explain::{Agent, Explanation, explain};
use cofferdam_records::status::SUFFERS_CPUS;
use cofferdam_types::Reason;

/// Smallest share of one CPU that the headline mentions, percent.
const WORTH_SAYING_PCT: f64 = 0.5;

/// Headline of `readings`, consecutive intervals of one accounting. It considers all containers,
/// also those hidden by a filter.
pub fn of(readings: &[AccountingRecord], agent: &Agent) -> String {
    match readings.last() {
        Some(record) => sentence(&explain(readings, agent, String::new()), record),
        None => "Nothing was measured.".to_owned(),
    }
}

/// Headline of `explanation`; without harm in it, one about the network work in `record`.
pub fn sentence(explanation: &Explanation, record: &AccountingRecord) -> String {
    match explanation.findings.first() {
        Some(worst) if worst.cpus.is_some() => one_line(&worst.sentence),
        _ => calm(record),
    }
}

/// Sentence for a host without harm: the host's own packets take a little, or nothing is wrong.
fn calm(record: &AccountingRecord) -> String {
    if record.containers.iter().all(ContainerRecord::is_of_host) {
        return "No container on this host yet.".to_owned();
    }
    let share = |ns: i64| percent_of(ns as f64, record.length());
    let victim = extreme(record, |c| -c.owed_ns);
    let reason = record
        .unattributed_ns
        .iter()
        .filter_map(|(key, ns)| Some((reason(key)?, *ns)))
        .filter(|(reason, _)| reason.is_network())
        .max_by_key(|(_, ns)| *ns);
    if let (Some(victim), Some((reason, ns))) = (victim, reason)
        && share(-victim.owed_ns) >= WORTH_SAYING_PCT
        && percent_of(ns as f64, record.length()) >= WORTH_SAYING_PCT
    {
        return format!(
            "`{}` paid {} of a CPU for packets that belong to no container ({})",
            name(victim),
            spoken_pct(share(-victim.owed_ns)),
            cause(reason),
        );
    }
    let busiest = extreme(record, |c| c.caused_ns as i64);
    match busiest.map(|c| (c, share(c.caused_ns as i64))) {
        Some((c, caused)) if caused >= WORTH_SAYING_PCT => format!(
            "No container takes {SUFFERS_CPUS} CPUs from another: `{}` caused the most network \
             work, {} of a CPU",
            name(c),
            spoken_pct(caused)
        ),
        _ => {
            "No container takes CPU time from another: there is hardly any network work".to_owned()
        }
    }
}

fn cause(reason: Reason) -> &'static str {
    match reason {
        Reason::HostTraffic => "the host's own traffic",
        Reason::Forwarding => "forwarded by the host",
        Reason::UnknownNamespace => "of a network namespace without a tracked container",
        Reason::NoSlot => "of containers beyond the table's size",
        _ => reason.label(),
    }
}

/// Container with the largest `key`; of equal ones the one with the smallest cgroup id, so that the
/// sentence is stable.
fn extreme(
    record: &AccountingRecord,
    key: impl Fn(&ContainerRecord) -> i64,
) -> Option<&ContainerRecord> {
    record
        .containers
        .iter()
        .max_by_key(|c| (key(c), std::cmp::Reverse(c.cgroup_id)))
}

fn name(entry: &ContainerRecord) -> String {
    one_line(&entry.name)
}

#[cfg(test)]
mod tests;
