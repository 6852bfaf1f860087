//! Findings of containers that do not get the CPU time that they are entitled to.

use super::evidence::Evidence;
use super::packets::{besides, charge};
use super::transfer::{Offender, Transfer};
use super::{Finding, Party, rule};
use crate::accounting::ContainerRecord;
use crate::diagnosis::CpuLossRecord;
use crate::status::{LOSES, SUFFERS_CPUS};

/// Smallest loss to a container's own quota that is a finding, CPUs: a quota is set on purpose.
const THROTTLED_CPUS: f64 = 0.1;
/// Name of the finding of a container that its own quota throttles.
const THROTTLED: &str = "held_by_own_quota";
/// Most cgroups of the host that a reason names.
const MOST_NAMED: usize = 3;

/// Finding of `transfer`; `owed` returns the CPUs that others lose to the packets of a container.
pub(super) fn finding(
    evidence: &Evidence,
    transfer: &Transfer,
    others: &[&Transfer],
    owed: impl Fn(u64) -> f64,
) -> Finding {
    let (id, cpus) = (transfer.victim, transfer.cpus());
    let name = evidence.name(id);
    let offender = match transfer.offender {
        Offender::Container(id) => evidence.container(id),
        Offender::Host | Offender::NoContainer | Offender::Others => None,
    };
    let subject = match (offender, transfer.offender) {
        (Some(offender), _) => format!("{} keeps", evidence.name(offender.cgroup_id)),
        (None, Offender::Host) => "processes of the host keep".to_owned(),
        (None, _) => "others keep".to_owned(),
    };
    let loss = (evidence.losses.as_ref()).and_then(|l| l.containers.get(&id));
    let mut reasons = Vec::new();
    if let (Some(losses), Some(loss)) = (&evidence.losses, loss) {
        reasons.push(format!(
            "{name} got {:.2} of {:.2} CPUs that it is entitled to by its {}",
            losses.cpus(loss.got_ns),
            losses.cpus(loss.entitled_ns),
            match loss.entitled_by.to_string().as_str() {
                "reserved" => "reservation".to_owned(),
                other => other.to_owned(),
            }
        ));
        reasons.push(format!(
            "it waited {:.2} CPUs on CPUs where others ran, and {:.2} while a CPU was left idle",
            losses.cpus(loss.forced_sharing_ns),
            losses.cpus(loss.phantom_ns)
        ));
    }
    if transfer.offender == Offender::Host {
        reasons.extend(busy_cgroups(evidence));
    }
    reasons.extend(besides(evidence, others));
    let (certainty, text) = evidence.certainty_of_loss(id);
    // An offender by packets is bounded first. A reservation for an offender would give it more of
    // its victims' time; one for its victim would leave the packets to the next.
    let is_offender = |c: &&ContainerRecord| owed(c.cgroup_id) >= SUFFERS_CPUS;
    let victim = evidence.container(id);
    let bounded = offender.filter(is_offender).or(victim.filter(is_offender));
    let (command, effect) = match bounded {
        Some(offender) => charge(evidence, offender),
        None => reserve(evidence, id, loss),
    };
    let finding = Finding {
        name: LOSES.to_owned(),
        sentence: format!("{subject} {cpus:.2} CPUs from {name}, which waits for a CPU."),
        reasons,
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
    evidence.since(finding, LOSES, id)
}

/// Busiest cgroups of the host, with the CPU time of each; `None` without any.
fn busy_cgroups(evidence: &Evidence) -> Option<String> {
    let hosts = evidence.containers().iter().filter(|c| c.is_of_host());
    let mut sums: Vec<_> = hosts.map(|c| evidence.sum(c)).collect();
    sums.retain(|s| s.billed_cpus >= 0.01);
    sums.sort_by(|a, b| {
        let by_use = b.billed_cpus.total_cmp(&a.billed_cpus);
        by_use.then(a.container.cgroup_id.cmp(&b.container.cgroup_id))
    });
    let one = |s: &super::evidence::Sum| {
        format!(
            "{} {:.2}",
            evidence.name(s.container.cgroup_id),
            s.billed_cpus
        )
    };
    let named: Vec<String> = sums.iter().take(MOST_NAMED).map(one).collect();
    (!named.is_empty()).then(|| format!("the host's cgroups use: {} CPUs", named.join(", ")))
}

/// Command that reserves CPUs for the container `id`, and its effect.
fn reserve(evidence: &Evidence, id: u64, loss: Option<&CpuLossRecord>) -> (Option<String>, String) {
    let name = evidence.name(id);
    let container = evidence.container(id);
    let strict = evidence.agent.status().is_some_and(|s| {
        let mut all = s.containers.iter();
        all.any(|c| c.cgroup_id == id && c.policy.cpu == "strict")
    });
    if strict {
        return (
            Some("sudo cofferdam status".to_owned()),
            format!(
                "{name} has a reservation already: this says what of it is not in force, and why"
            ),
        );
    }
    let selector = container.and_then(|c| rule::selector(c, evidence.containers()));
    let (Some(selector), Some(losses), Some(loss)) = (selector, &evidence.losses, loss) else {
        let effect = "reserve CPUs for its cgroup in the agent's configuration: its name cannot be \
                      typed safely";
        return (None, effect.to_owned());
    };
    // A reservation has tenths of a CPU, and a smaller one than the entitlement would not help.
    let cpus = (losses.cpus(loss.entitled_ns) * 10.0 - 0.01)
        .ceil()
        .max(1.0)
        / 10.0;
    let effect = format!("reserves {cpus} CPUs for {name}");
    rule::for_agent(evidence.agent, rule::reserve(&selector, cpus), &effect)
}

/// Findings of containers that their own quota throttles; `owed` returns the CPUs that others lose
/// to the packets of a container.
pub(super) fn throttled(evidence: &Evidence, owed: impl Fn(u64) -> f64) -> Vec<Finding> {
    let Some(losses) = &evidence.losses else {
        return Vec::new();
    };
    let is_throttled = |loss: &&CpuLossRecord| losses.cpus(loss.throttled_ns) >= THROTTLED_CPUS;
    let mut all: Vec<&CpuLossRecord> = losses.containers.values().filter(is_throttled).collect();
    all.sort_by_key(|loss| (std::cmp::Reverse(loss.throttled_ns), loss.cgroup_id));
    let finding = |loss: &CpuLossRecord| {
        let is_offender = owed(loss.cgroup_id) >= SUFFERS_CPUS;
        throttled_finding(evidence, loss, &|ns| losses.cpus(ns), is_offender)
    };
    all.into_iter().map(finding).collect()
}

fn throttled_finding(
    evidence: &Evidence,
    loss: &CpuLossRecord,
    cpus: &dyn Fn(u64) -> f64,
    is_offender: bool,
) -> Finding {
    let name = &loss.name;
    let throttled = cpus(loss.throttled_ns);
    let wants = ((cpus(loss.got_ns) + throttled) * 10.0).ceil() / 10.0;
    let own = evidence.container(loss.cgroup_id).filter(|_| !is_offender);
    let updatable = own.filter(|c| ["podman", "docker"].contains(&c.runtime.as_str()));
    let command = updatable.and_then(|c| {
        // The runtime takes a name or an id, not a cgroup.
        let selector = rule::selector(c, evidence.containers())?;
        let target = selector.strip_prefix("id:").unwrap_or(&selector).to_owned();
        let plain = !selector.contains("cgroup:");
        plain.then(|| format!("sudo {} update --cpus {wants} {target}", c.runtime))
    });
    let (_, text) = evidence.certainty_of_loss(loss.cgroup_id);
    Finding {
        name: THROTTLED.to_owned(),
        sentence: format!("{name} is held back {throttled:.2} CPUs by its own quota."),
        reasons: vec![format!(
            "{name} got {:.2} CPUs and would use about {wants}; no other container takes them",
            cpus(loss.got_ns)
        )],
        offender: None,
        victim: Some(Party::of_loss(loss)),
        cpus: Some(throttled),
        since: None,
        for_s: None,
        certainty: "likely".to_owned(),
        evidence: text,
        effect: match &command {
            Some(_) => format!("raises its quota to {wants} CPUs"),
            None if is_offender => {
                "others lose CPU time to its packets: bound those first".to_owned()
            }
            None => "raise its quota where it is set, if that was not meant".to_owned(),
        },
        command,
    }
}
