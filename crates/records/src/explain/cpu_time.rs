//! Containers that do not get the CPU time that they were promised.

use super::evidence::Evidence;
use super::{Agent, Finding, Party, rule};
use crate::diagnosis::{CpuLossRecord, NeighbourRecord};
use crate::status::{LOSES, SUFFERS_CPUS};

/// Below this a container's own quota is no finding, CPUs: it is set on purpose.
const HELD_CPUS: f64 = 0.1;
/// Name of the finding of a container that its own quota holds back.
const HELD: &str = "held_by_own_quota";

/// One finding for each container that others keep from its CPU time, or that its quota does.
pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let Some(diagnosis) = evidence.diagnosis() else {
        return Vec::new();
    };
    let cpus = |ns: u64| ns as f64 / 1e9 / diagnosis.interval_s.max(0.001);
    let mut found = Vec::new();
    for loss in &diagnosis.containers {
        if cpus(loss.forced_sharing_ns + loss.phantom_ns) >= SUFFERS_CPUS {
            found.push(taken(evidence, loss, &cpus));
        }
        if cpus(loss.throttled_ns) >= HELD_CPUS {
            found.push(held(evidence, loss, &cpus));
        }
    }
    found
}

fn taken(evidence: &Evidence, loss: &CpuLossRecord, cpus: &dyn Fn(u64) -> f64) -> Finding {
    let lost = cpus(loss.forced_sharing_ns + loss.phantom_ns);
    let name = &loss.name;
    let (behind, offender) = match &loss.neighbour {
        Some(NeighbourRecord::Container { name }) => {
            let all = evidence.readings.last().map(|r| r.containers.as_slice());
            let mut same = all.unwrap_or_default().iter().filter(|c| c.name == *name);
            // Two containers of a name: the diagnosis does not say which.
            let only = same.next().filter(|_| same.next().is_none());
            (name.as_str(), only.map(Party::of))
        }
        Some(NeighbourRecord::Host) => ("processes of the host", None),
        None => ("others", None),
    };
    let verb = match loss.neighbour {
        Some(NeighbourRecord::Container { .. }) => "keeps",
        _ => "keep",
    };
    let mut reasons = vec![format!(
        "{name} got {:.2} of {:.2} CPUs that it is entitled to by its {}",
        cpus(loss.got_ns),
        cpus(loss.entitled_ns),
        match loss.entitled_by.to_string().as_str() {
            "reserved" => "reservation".to_owned(),
            other => other.to_owned(),
        }
    )];
    reasons.push(format!(
        "it waited {:.2} CPUs on CPUs where others ran, and {:.2} while a CPU was left idle",
        cpus(loss.forced_sharing_ns),
        cpus(loss.phantom_ns)
    ));
    let (certainty, text) = certainty(evidence, loss.cgroup_id);
    let (command, effect) = reserve(evidence, loss, cpus(loss.entitled_ns));
    let finding = Finding {
        name: LOSES.to_owned(),
        sentence: format!("{behind} {verb} {lost:.2} CPUs from {name}, which waits for a CPU."),
        reasons,
        offender,
        victim: Some(party(loss)),
        cpus: Some(lost),
        since: None,
        for_s: None,
        certainty,
        evidence: text,
        command,
        effect,
    };
    evidence.since(finding, LOSES, loss.cgroup_id)
}

/// A diagnosis is one interval: what the agent has watched for longer is surer.
fn certainty(evidence: &Evidence, cgroup_id: u64) -> (String, String) {
    let seconds = evidence.diagnosis().map_or(0.0, |d| d.interval_s);
    match evidence.condition(LOSES, cgroup_id) {
        Some(condition) => (
            "certain".to_owned(),
            format!(
                "the agent has seen {:.2} CPUs on average for {:.0} s",
                condition.cpus, condition.for_s
            ),
        ),
        None => (
            "likely".to_owned(),
            format!("it is the diagnosis of {seconds:.1} s"),
        ),
    }
}

fn reserve(evidence: &Evidence, loss: &CpuLossRecord, entitled: f64) -> (Option<String>, String) {
    let status = evidence.agent.status();
    let strict = status.is_some_and(|s| {
        let mut all = s.containers.iter();
        all.any(|c| c.cgroup_id == loss.cgroup_id && c.policy.cpu == "strict")
    });
    if strict {
        return (
            Some("sudo cofferdam status".to_owned()),
            format!(
                "{} has a reservation already: this says what of it is not in force, and why",
                loss.name
            ),
        );
    }
    let all = evidence.readings.last().map(|r| r.containers.as_slice());
    let all = all.unwrap_or_default();
    let own = evidence.container(loss.cgroup_id);
    let Some(selector) = own.and_then(|c| rule::selector(c, all)) else {
        return (
            None,
            "reserve CPUs for its cgroup in the agent's configuration: its name cannot be typed \
             safely"
                .to_owned(),
        );
    };
    // A reservation has tenths of a CPU, and one of less than it is entitled to would not help.
    let cpus = (entitled * 10.0 - 0.01).ceil().max(1.0) / 10.0;
    let command = rule::reserve(&selector, cpus);
    let effect = format!(
        "reserves {cpus} CPUs for {} until the agent ends or 'rule clear'",
        loss.name
    );
    match evidence.agent {
        Agent::NotRunning => (
            Some(format!("sudo systemctl start cofferdam && {command}")),
            format!("starts the agent and {effect}"),
        ),
        Agent::Running(_) | Agent::NotPermitted => (Some(command), effect),
    }
}

fn held(evidence: &Evidence, loss: &CpuLossRecord, cpus: &dyn Fn(u64) -> f64) -> Finding {
    let name = &loss.name;
    let throttled = cpus(loss.throttled_ns);
    let wants = ((cpus(loss.got_ns) + throttled) * 10.0).ceil() / 10.0;
    let own = evidence.container(loss.cgroup_id);
    let all = evidence.readings.last().map(|r| r.containers.as_slice());
    let known = own.filter(|c| ["podman", "docker"].contains(&c.runtime.as_str()));
    let command = known.and_then(|c| {
        // Its own runtime knows it by name or id, not by its cgroup.
        let selector = rule::selector(c, all.unwrap_or_default())?;
        let who = selector.strip_prefix("id:").unwrap_or(&selector).to_owned();
        let plain = !selector.starts_with("cgroup:");
        plain.then(|| format!("sudo {} update --cpus {wants} {who}", c.runtime))
    });
    let seconds = evidence.diagnosis().map_or(0.0, |d| d.interval_s);
    Finding {
        name: HELD.to_owned(),
        sentence: format!("{name} is held back {throttled:.2} CPUs by its own quota."),
        reasons: vec![format!(
            "{name} got {:.2} CPUs and would use about {wants}; no other container takes them",
            cpus(loss.got_ns)
        )],
        offender: None,
        victim: Some(party(loss)),
        cpus: Some(throttled),
        since: None,
        for_s: None,
        certainty: "likely".to_owned(),
        evidence: format!("it is the diagnosis of {seconds:.1} s"),
        effect: match &command {
            Some(_) => format!("raises its quota to {wants} CPUs"),
            None => "raise its quota where it is set, if that was not meant".to_owned(),
        },
        command,
    }
}

fn party(loss: &CpuLossRecord) -> Party {
    Party {
        name: loss.name.clone(),
        cgroup_id: loss.cgroup_id,
    }
}
