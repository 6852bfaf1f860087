//! What concerns the pods of one node and should be told on them: schema `cofferdam.conditions/1`, what a
//! gateway answers to `cofferdam events`. A pure function of the ledger and of the agent's status.

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
/// Conditions in a document, at most.
pub const MOST_CONDITIONS: usize = 200;
/// Name of the condition of a pod whose packets others pay for.
pub const HARMS: &str = "harms_others";
/// Name of the condition of a pod that others keep from CPUs that are reserved for it.
pub const NOT_KEPT: &str = "reservation_not_kept";
/// Pods of the other side that a text names, at most.
const MOST_NAMED: usize = 3;

/// The conditions of a node's pods now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionsReport {
    /// Always `cofferdam.conditions/1`.
    pub schema: String,
    /// When it was so, RFC 3339 in UTC.
    pub time: String,
    /// What a pod asked for and does not have comes first, then the largest harm.
    pub conditions: Vec<PodCondition>,
    /// How many there are; `conditions` has at most 200.
    pub conditions_total: u64,
}

/// Something that concerns a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodCondition {
    /// What: `pays_for_others`, `harms_others`, `cpu_taken_by_others`, `reservation_not_kept`, or the name of
    /// what is not in force, such as `reservation_impossible`.
    pub name: String,
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// Its container, for what is not in force; null where the pod is meant.
    pub container: Option<String>,
    /// One sentence, which names the other side.
    pub text: String,
    /// How much is paid, or lost, CPUs; null for what is not in force.
    pub cpus: Option<f64>,
}

/// The conditions of an interval of the ledger and of the status at its end.
pub fn report(ledger: &AccountingRecord, status: &StatusReport) -> ConditionsReport {
    let pods: HashMap<u64, &str> = (ledger.containers.iter())
        .filter_map(|c| Some((c.cgroup_id, c.pod.as_deref()?)))
        // The UID of a pod whose name is not known is no name.
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

/// CPU time that others took, by pod.
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

/// Who pays, and for whom.
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
    // Of this interval: the condition is an average of the agent's, which does not know for whom.
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
    let known: std::collections::HashSet<&str> = pods.values().copied().collect();
    for (offender, whom) in offenders {
        let cpus = whom.iter().map(|(_, ns)| ns).sum::<f64>() / 1e9 / seconds;
        if known.contains(offender) && cpus >= crate::status::SUFFERS_CPUS {
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

/// The largest first, so many of them; what is less than a tenth of all is not worth a name.
fn largest(mut names: Vec<(&str, f64)>) -> String {
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    let tenth = names.iter().map(|(_, ns)| ns).sum::<f64>() / 10.0;
    let large = names.iter().take_while(|(_, ns)| *ns >= tenth).count();
    let (named, rest) = names.split_at(large.clamp(1, MOST_NAMED).min(names.len()));
    let named = named.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let named = named.join(", ");
    match rest.iter().map(|(_, ns)| ns).sum::<f64>() >= tenth && !rest.is_empty() {
        true if rest.len() == 1 => format!("{named} and 1 other"),
        true => format!("{named} and {} others", rest.len()),
        false => named,
    }
}
