//! Containers that pay for the packets of others.

use super::evidence::{Evidence, Sum};
use super::{Agent, Finding, Party, rule};
use crate::accounting::ContainerRecord;
use crate::status::{PAYS, SUFFERS_CPUS, StatusReport};

/// One finding for each container that pays.
pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let sums = evidence.sums();
    let paying = sums.iter().filter(|s| s.paid_cpus >= SUFFERS_CPUS);
    paying.map(|sum| finding(evidence, sum)).collect()
}

fn finding(evidence: &Evidence, victim: &Sum) -> Finding {
    let id = victim.container.cgroup_id;
    let name = &victim.container.name;
    let offenders = evidence.offenders(id);
    let (worst, share) = offenders.first().copied().unwrap_or((None, 1.0));
    let offender = worst.and_then(|id| evidence.container(id));
    let cpus = victim.paid_cpus;
    let sentence = match offender {
        Some(offender) => format!(
            "{} takes {:.2} CPUs from {name} for its packets.",
            offender.name,
            cpus * share
        ),
        None => format!(
            "{name} pays {:.2} CPUs for packets that belong to no container.",
            cpus * share
        ),
    };
    let mut reasons = vec![format!(
        "{name} is billed {:.2} CPUs; {:.0}% of that are packets of others",
        victim.billed_cpus,
        // What was billed may lag behind by a reading.
        (cpus / victim.billed_cpus.max(cpus) * 100.0).round()
    )];
    if let Some(offender) = offender {
        reasons.push(cause(evidence, offender, id));
    }
    let rest: Vec<String> = offenders
        .iter()
        .skip(1)
        .filter(|(_, share)| cpus * share >= SUFFERS_CPUS / 2.0)
        .map(|(one, share)| {
            let name = match one.and_then(|id| evidence.container(id)) {
                Some(container) => container.name.as_str(),
                None => "packets of no container",
            };
            format!("{name} {:.2}", cpus * share)
        })
        .collect();
    if !rest.is_empty() {
        reasons.push(format!("besides: {} CPUs", rest.join(", ")));
    }
    let held = victim.each_cpus.iter().filter(|c| **c >= SUFFERS_CPUS);
    let (certainty, text) = evidence.certainty(held.count());
    let (command, effect) = remedy(evidence, offender);
    let finding = Finding {
        name: PAYS.to_owned(),
        sentence,
        reasons,
        offender: offender.map(Party::of),
        victim: Some(Party::of(victim.container)),
        cpus: Some(cpus),
        since: None,
        for_s: None,
        certainty: certainty.to_owned(),
        evidence: text,
        command,
        effect,
    };
    evidence.since(finding, PAYS, id)
}

/// What the offender does, and who makes it do that.
fn cause(evidence: &Evidence, offender: &ContainerRecord, victim: u64) -> String {
    let id = offender.cgroup_id;
    let sum = evidence
        .sums()
        .into_iter()
        .find(|s| s.container.cgroup_id == id);
    let (caused, packets) = sum.map_or((0.0, 0.0), |s| (s.caused_cpus, s.packets_per_s));
    let place = match evidence.worst_cpu(Some(id), victim) {
        Some(cpu) => format!(", mostly on CPU {cpu}"),
        None => String::new(),
    };
    let mut text = format!(
        "{} causes {caused:.2} CPUs of network work by {} packets/s{place}",
        offender.name,
        thousands(packets)
    );
    let sent = offender.received_from.iter().max_by_key(|(_, n)| **n);
    // Queues may have dropped some of them: it is most of what arrived when half must be.
    if let Some((sender, packets)) = sent.filter(|(_, n)| **n * 2 > offender.rx_packets)
        && let Some(sender) = evidence.container(*sender)
    {
        let seconds = evidence.readings.last().map_or(1.0, |r| r.interval_s);
        text += &format!(
            "; {} sends them, {} packets/s",
            sender.name,
            thousands(*packets as f64 / seconds.max(0.001))
        );
    }
    text
}

/// The command that helps, and what it does.
fn remedy(evidence: &Evidence, offender: Option<&ContainerRecord>) -> (Option<String>, String) {
    let Some(offender) = offender else {
        return (
            Some("sudo cofferdam top".to_owned()),
            "shows under 'no container's' whose packets they are; no rule can charge the host"
                .to_owned(),
        );
    };
    let all = evidence.readings.last().map(|r| r.containers.as_slice());
    let Some(selector) = rule::selector(offender, all.unwrap_or_default()) else {
        return (
            None,
            "write a rule for its cgroup into the agent's configuration: its name cannot be typed \
             safely"
                .to_owned(),
        );
    };
    let command = rule::enforce(&selector);
    let effect = format!(
        "charges {} for its own packets until the agent ends or 'rule clear'",
        offender.name
    );
    match evidence.agent {
        Agent::Running(both) if is_enforced(&both.1, offender.cgroup_id) => (
            Some("sudo cofferdam status".to_owned()),
            format!(
                "{} is enforced already: this says which mechanism is not in force, and why",
                offender.name
            ),
        ),
        Agent::Running(_) | Agent::NotPermitted => (Some(command), effect),
        Agent::NotRunning => (
            Some(format!("sudo systemctl start cofferdam && {command}")),
            format!("starts the agent and {effect}"),
        ),
    }
}

fn is_enforced(status: &StatusReport, cgroup_id: u64) -> bool {
    let mut all = status.containers.iter();
    all.any(|c| c.cgroup_id == cgroup_id && c.policy.network_cpu == "enforce")
}

/// `712,000`: packet rates in three digits that say something.
fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
