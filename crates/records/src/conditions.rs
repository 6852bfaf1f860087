//! Conditions of the pods of one node that concern their owners: schema `cofferdam.conditions/1`.
//!
//! A gateway answers `cofferdam events` with them. They are a pure function of the ledger and of
//! the agent's status.

#[cfg(test)]
mod tests;

use crate::accounting::AccountingRecord;
use crate::flow::flows;
use crate::status::{LOSES, PAYS, StatusReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Schema of [`ConditionsReport`].
pub const CONDITIONS: &str = "cofferdam.conditions/1";
/// Most conditions in one document.
pub const MOST_CONDITIONS: usize = 200;
/// Name of the condition of a pod for whose packets others are charged.
pub const HARMS: &str = "harms_others";
/// Name of the condition of a pod that does not get CPUs reserved for it.
pub const NOT_KEPT: &str = "reservation_not_kept";
/// Most pods of the other side that one text names.
const MOST_NAMED: usize = 3;

/// Present conditions of a node's pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionsReport {
    /// Always `cofferdam.conditions/1`.
    pub schema: String,
    /// Time of the observation, RFC 3339 in UTC.
    pub time: String,
    /// Degradations first, then harm, the largest first.
    pub conditions: Vec<PodCondition>,
    /// Number of all conditions; `conditions` has at most 200.
    pub conditions_total: u64,
}

/// One condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodCondition {
    /// `pays_for_others`, `harms_others`, `cpu_taken_by_others`, `reservation_not_kept`, or the
    /// name of a degradation, such as `reservation_impossible`.
    pub name: String,
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// Container of a degradation; null where the condition is the pod's.
    pub container: Option<String>,
    /// One sentence, which names the other side.
    pub text: String,
    /// Size of the harm, CPUs; null for a degradation.
    pub cpus: Option<f64>,
}

/// Conditions of an interval of the ledger and of the status at its end.
pub fn report(ledger: &AccountingRecord, status: &StatusReport) -> ConditionsReport {
    let pods: HashMap<u64, &str> = (ledger.containers.iter())
        .filter_map(|c| Some((c.cgroup_id, c.pod.as_deref()?)))
        // The UID of a pod whose name is unknown is not a name.
        .filter(|(_, pod)| pod.contains('/'))
        .collect();
    let mut all = not_in_force(status, &pods);
    all.sort_by(|a, b| (&a.pod, &a.container, &a.name).cmp(&(&b.pod, &b.container, &b.name)));
    let mut harm = lost(status, &pods);
    harm.extend(paid(ledger, status, &pods));
    harm.sort_by(|a, b| b.cpus.unwrap_or(0.0).total_cmp(&a.cpus.unwrap_or(0.0)));
    all.extend(harm);
    let conditions_total = all.len() as u64;
    all.truncate(MOST_CONDITIONS);
    ConditionsReport {
        schema: CONDITIONS.to_owned(),
        time: ledger.time.clone(),
        conditions: all,
        conditions_total,
    }
}

fn not_in_force(status: &StatusReport, pods: &HashMap<u64, &str>) -> Vec<PodCondition> {
    let mut all = Vec::new();
    for container in &status.containers {
        let Some(pod) = pods.get(&container.cgroup_id) else {
            continue;
        };
        all.extend(container.degraded.iter().map(|d| PodCondition {
            name: d.name.clone(),
            pod: (*pod).to_owned(),
            container: Some(container.name.clone()),
            text: d.text.clone(),
            cpus: None,
        }));
    }
    all
}

/// Conditions of the pods from which others took CPU time.
fn lost(status: &StatusReport, pods: &HashMap<u64, &str>) -> Vec<PodCondition> {
    let reserved = |id: u64| {
        let mut all = status.containers.iter();
        all.any(|c| c.cgroup_id == id && c.reservation.is_some())
    };
    let mut sums: BTreeMap<(&str, bool), f64> = BTreeMap::new();
    for condition in status.conditions.iter().filter(|c| c.name == LOSES) {
        if let Some(pod) = pods.get(&condition.cgroup_id) {
            *sums
                .entry((pod, reserved(condition.cgroup_id)))
                .or_default() += condition.cpus;
        }
    }
    let of = |((pod, is_reserved), cpus): ((&str, bool), f64)| {
        let (name, to) = match is_reserved {
            true => (NOT_KEPT, "reserved for it"),
            false => (LOSES, "that it is entitled to"),
        };
        PodCondition {
            name: name.to_owned(),
            pod: pod.to_owned(),
            container: None,
            text: format!("others take {cpus:.2} of the CPUs {to}"),
            cpus: Some(cpus),
        }
    };
    sums.into_iter().map(of).collect()
}

/// Conditions of pods that pay for others, and of pods that others pay for.
fn paid(
    ledger: &AccountingRecord,
    status: &StatusReport,
    pods: &HashMap<u64, &str>,
) -> Vec<PodCondition> {
    let mut victims: BTreeMap<&str, f64> = BTreeMap::new();
    for condition in status.conditions.iter().filter(|c| c.name == PAYS) {
        if let Some(pod) = pods.get(&condition.cgroup_id) {
            *victims.entry(pod).or_default() += condition.cpus;
        }
    }
    let names: HashMap<u64, &str> = (ledger.containers.iter())
        .map(|c| {
            (
                c.cgroup_id,
                pods.get(&c.cgroup_id).copied().unwrap_or(&c.name),
            )
        })
        .collect();
    // Offenders come from this interval: the agent's condition is an average without offenders.
    let mut pairs: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for flow in flows(ledger) {
        let offender = flow.offender.and_then(|id| names.get(&id));
        let victim = pods.get(&flow.victim);
        if let (Some(offender), Some(victim)) = (offender, victim)
            && offender != victim
            && victims.contains_key(victim)
        {
            *pairs.entry((offender, victim)).or_default() += flow.ns;
        }
    }
    let seconds = ledger.interval_s.max(0.001);
    let mut all = Vec::new();
    for (victim, cpus) in &victims {
        let whom = (pairs.iter()).filter(|((_, v), _)| v == victim);
        let whom = largest(whom.map(|((offender, _), ns)| (*offender, *ns)).collect());
        let whom = match whom.is_empty() {
            true => "traffic of no container".to_owned(),
            false => whom,
        };
        all.push(PodCondition {
            name: PAYS.to_owned(),
            pod: (*victim).to_owned(),
            container: None,
            text: format!("pays {cpus:.2} CPUs for the packets of {whom}"),
            cpus: Some(*cpus),
        });
    }
    let mut offenders: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    for ((offender, victim), ns) in &pairs {
        offenders.entry(offender).or_default().push((victim, *ns));
    }
    let named_pods: std::collections::HashSet<&str> = pods.values().copied().collect();
    for (offender, whom) in offenders {
        let cpus = whom.iter().map(|(_, ns)| ns).sum::<f64>() / 1e9 / seconds;
        if named_pods.contains(offender) && cpus >= crate::status::SUFFERS_CPUS {
            all.push(PodCondition {
                name: HARMS.to_owned(),
                pod: offender.to_owned(),
                container: None,
                text: format!("its packets cost {} {cpus:.2} CPUs", largest(whom)),
                cpus: Some(cpus),
            });
        }
    }
    all
}

/// Names of the largest parts, at most `MOST_NAMED`; a part of less than a tenth gets no name.
fn largest(mut names: Vec<(&str, f64)>) -> String {
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    let tenth = names.iter().map(|(_, ns)| ns).sum::<f64>() / 10.0;
    let large = names.iter().take_while(|(_, ns)| *ns >= tenth).count();
    let (listed, rest) = names.split_at(large.clamp(1, MOST_NAMED).min(names.len()));
    let listed = listed.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let listed = listed.join(", ");
    match rest.iter().map(|(_, ns)| ns).sum::<f64>() >= tenth && !rest.is_empty() {
        true if rest.len() == 1 => format!("{listed} and 1 other"),
        true => format!("{listed} and {} others", rest.len()),
        false => listed,
    }
}
