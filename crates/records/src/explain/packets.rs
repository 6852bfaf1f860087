//! Findings of containers that lose CPU time to the packets of others.

use super::evidence::Evidence;
use super::transfer::{Offender, Transfer};
use super::{Agent, Finding, Party, rule};
use crate::accounting::ContainerRecord;
use crate::status::{LOSES, PAYS, SUFFERS_CPUS, StatusReport};
use std::collections::BTreeMap;

/// Shortest wait that is worth a reason, CPUs.
const WORTH_A_REASON_CPUS: f64 = 0.005;

/// Finding of `transfer`; `others` are the smaller transfers of its victim.
pub(super) fn finding(evidence: &Evidence, transfer: &Transfer, others: &[&Transfer]) -> Finding {
    let id = transfer.victim;
    let name = evidence.name(id);
    let offender = match transfer.offender {
        Offender::Container(id) => evidence.container(id),
        Offender::Host | Offender::NoContainer | Offender::Others => None,
    };
    let cpus = transfer.cpus();
    let sentence = match offender {
        Some(offender) if transfer.is_own => format!(
            "{name} pays {cpus:.2} CPUs for packets that it sends to {} itself.",
            evidence.name(offender.cgroup_id)
        ),
        Some(offender) => format!(
            "{} takes {cpus:.2} CPUs from {name} for its packets.",
            evidence.name(offender.cgroup_id)
        ),
        None => format!("{name} pays {cpus:.2} CPUs for packets that belong to no container."),
    };
    let waits = transfer.waited_cpus > transfer.charged_cpus;
    let (certainty, text) = match waits {
        true => evidence.certainty_of_loss(id),
        false => evidence.certainty_of_charge(id),
    };
    let (command, effect) = remedy(evidence, offender);
    let finding = Finding {
        name: PAYS.to_owned(),
        sentence,
        reasons: reasons(evidence, transfer, offender, others),
        offender: offender.map(Party::of),
        victim: evidence.party(id),
        cpus: Some(cpus),
        since: None,
        for_s: None,
        certainty,
        evidence: text,
        command,
        effect,
    };
    evidence.since(finding, if waits { LOSES } else { PAYS }, id)
}

fn reasons(
    evidence: &Evidence,
    transfer: &Transfer,
    offender: Option<&ContainerRecord>,
    others: &[&Transfer],
) -> Vec<String> {
    let id = transfer.victim;
    let name = evidence.name(id);
    let mut reasons = Vec::new();
    if let Some(victim) = evidence.container(id)
        && transfer.charged_cpus > 0.0
    {
        let sum = evidence.sum(victim);
        // The scheduler's count may lag behind by a reading.
        let pct = sum.paid_cpus / sum.billed_cpus.max(sum.paid_cpus) * 100.0;
        let billed = sum.billed_cpus;
        reasons.push(format!(
            "{name} is billed {billed:.2} CPUs; {pct:.0}% of that are packets of others"
        ));
    }
    if transfer.waited_cpus >= WORTH_A_REASON_CPUS {
        reasons.push(format!(
            "{name} waits {:.2} CPUs while threads of the kernel handle them",
            transfer.waited_cpus
        ));
    }
    if let Some(offender) = offender {
        reasons.push(cause(evidence, offender, id));
    }
    reasons.extend(besides(evidence, others));
    reasons
}

/// Smaller harm to the same victim, in one line; `None` without any.
pub(super) fn besides(evidence: &Evidence, others: &[&Transfer]) -> Option<String> {
    let mut sums: BTreeMap<Offender, f64> = BTreeMap::new();
    for transfer in others {
        *sums.entry(transfer.offender).or_default() += transfer.cpus();
    }
    let name = |offender| match offender {
        Offender::Container(id) => evidence.name(id),
        Offender::Host => "processes of the host".to_owned(),
        Offender::NoContainer => "packets of no container".to_owned(),
        Offender::Others => "others".to_owned(),
    };
    let mut worth: Vec<(Offender, f64)> = sums.into_iter().collect();
    worth.retain(|(_, cpus)| *cpus >= SUFFERS_CPUS / 2.0);
    worth.sort_by(|a, b| b.1.total_cmp(&a.1));
    let rest: Vec<String> = worth
        .into_iter()
        .map(|(offender, cpus)| format!("{} {cpus:.2}", name(offender)))
        .collect();
    (!rest.is_empty()).then(|| format!("besides: {} CPUs", rest.join(", ")))
}

/// Network work of the offender, and the sender that causes it.
fn cause(evidence: &Evidence, offender: &ContainerRecord, victim: u64) -> String {
    let id = offender.cgroup_id;
    let sum = evidence.sum(offender);
    let place = match evidence.worst_cpu(Some(id), victim) {
        Some(cpu) => format!(", mostly on CPU {cpu}"),
        None => String::new(),
    };
    let mut text = format!(
        "{} causes {:.2} CPUs of network work by {} packets/s{place}",
        evidence.name(id),
        sum.caused_cpus,
        thousands(sum.packets_per_s)
    );
    if let Some((sender, packets_per_s)) = evidence.sender(offender)
        && evidence.container(sender).is_some()
    {
        let (name, rate) = (evidence.name(sender), thousands(packets_per_s));
        text += &format!("; {name} sends them, {rate} packets/s");
    }
    text
}

/// Command that bounds the offender, and its effect.
fn remedy(evidence: &Evidence, offender: Option<&ContainerRecord>) -> (Option<String>, String) {
    let Some(offender) = offender else {
        return (
            Some("sudo cofferdam top".to_owned()),
            "shows under 'no container's' whose packets they are; no rule can charge the host"
                .to_owned(),
        );
    };
    charge(evidence, offender)
}

/// Command that has the agent charge `offender` for its packets, and its effect.
pub(super) fn charge(evidence: &Evidence, offender: &ContainerRecord) -> (Option<String>, String) {
    let name = evidence.name(offender.cgroup_id);
    if let Agent::Running(both) = evidence.agent
        && is_enforced(&both.1, offender.cgroup_id)
    {
        let effect = format!(
            "{name} is enforced already: this says which mechanism is not in force, and why"
        );
        return (Some("sudo cofferdam status".to_owned()), effect);
    }
    let Some(selector) = rule::selector(offender, evidence.containers()) else {
        let effect = "write a rule for its cgroup into the agent's configuration: its name cannot \
                      be typed safely";
        return (None, effect.to_owned());
    };
    let effect = format!("charges {name} for its own packets");
    rule::for_agent(evidence.agent, rule::enforce(&selector), &effect)
}

fn is_enforced(status: &StatusReport, cgroup_id: u64) -> bool {
    let mut all = status.containers.iter();
    all.any(|c| c.cgroup_id == cgroup_id && c.policy.network_cpu == "enforce")
}

/// Number in groups of three digits, such as `712,000`.
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
