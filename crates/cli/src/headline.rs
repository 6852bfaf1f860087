//! The headline: one sentence that names the container that causes the most harm and the
//! container that pays for it.

use crate::exit::one_line;
use crate::units::{percent_of, spoken_pct};
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord, reason};
use cofferdam_types::Reason;

/// Below this share of one CPU no container is named as harmful, percent.
const WORTH_SAYING_PCT: f64 = 0.5;

/// One sentence about the CPU on which the most network work was paid for by others. It
/// weighs all containers, also those that a filter hides.
pub fn of(record: &AccountingRecord) -> String {
    if record.containers.iter().all(ContainerRecord::is_of_host) {
        return "No container on this host yet.".to_owned();
    }
    let share = |ns: i64| percent_of(ns as f64, record.length());
    let Some((cpu, harm)) = (0..record.cpus.len())
        .map(|cpu| {
            (
                cpu,
                record
                    .containers
                    .iter()
                    .map(|c| owed(c, cpu).max(0))
                    .sum::<i64>(),
            )
        })
        .max_by_key(|(cpu, harm)| (*harm, std::cmp::Reverse(*cpu)))
    else {
        return "No CPU was measured.".to_owned();
    };
    if share(harm) < WORTH_SAYING_PCT {
        return host_or_peace(record);
    }
    let cpu_name = record.cpus[cpu].cpu;
    let offender = extreme(record, |c| owed(c, cpu));
    let payer = extreme(record, |c| -owed(c, cpu));
    let (Some(offender), Some(payer)) = (offender, payer) else {
        return host_or_peace(record);
    };
    // What a payer is charged for its own packets is not paid for others, and no container pays
    // more for others than they owe.
    let paid = (-owed(payer, cpu)).min(harm);
    let sender = sender_to(record, offender);
    let mut text = match sender {
        Some(sender) => format!(
            "`{}` sends to `{}`: {} of CPU {cpu_name} in network work; ",
            name(sender),
            name(offender),
            spoken_pct(share(owed(offender, cpu)))
        ),
        None => format!(
            "`{}` caused {} of CPU {cpu_name} in network work; ",
            name(offender),
            spoken_pct(share(at(&offender.caused_by_cpu_ns, cpu)))
        ),
    };
    if share(paid) < WORTH_SAYING_PCT {
        text += "no other container paid: the CPU was idle or ran host processes";
    } else if sender.is_some_and(|s| s.cgroup_id == payer.cgroup_id) {
        text += &format!("the sender itself paid {}", spoken_pct(share(paid)));
    } else {
        text += &format!("`{}` paid {}", name(payer), spoken_pct(share(paid)));
    }
    text
}

/// The container that sent most of what `receiver` received, where the receiver's debt is for what
/// it received.
fn sender_to<'a>(
    record: &'a AccountingRecord,
    receiver: &ContainerRecord,
) -> Option<&'a ContainerRecord> {
    if receiver.caused_rx_ns < receiver.caused_tx_ns {
        return None;
    }
    let (sender, sent) = (receiver.received_from.iter()).max_by_key(|(_, packets)| **packets)?;
    // Queues behind the interface may have dropped some of what was sent, so that the two counts
    // differ: most of the packets that arrived are the sender's when half of them must be.
    let is_most = sent.saturating_mul(2) > receiver.rx_packets;
    let by_id = |entry: &&ContainerRecord| entry.cgroup_id == *sender;
    record
        .containers
        .iter()
        .find(by_id)
        .filter(|_| is_most && receiver.rx_packets > 0)
}

/// Nobody owes: either the host's own packets take from containers, or all is well.
fn host_or_peace(record: &AccountingRecord) -> String {
    let share = |ns: i64| percent_of(ns as f64, record.length());
    let payer = extreme(record, |c| -c.owed_ns);
    let reason = record
        .unattributed_ns
        .iter()
        .filter_map(|(key, ns)| Some((reason(key)?, *ns)))
        .filter(|(reason, _)| reason.is_network())
        .max_by_key(|(_, ns)| *ns);
    if let (Some(payer), Some((reason, ns))) = (payer, reason)
        && share(-payer.owed_ns) >= WORTH_SAYING_PCT
        && percent_of(ns as f64, record.length()) >= WORTH_SAYING_PCT
    {
        return format!(
            "`{}` paid {} of a CPU for packets that belong to no container ({})",
            name(payer),
            spoken_pct(share(-payer.owed_ns)),
            cause(reason),
        );
    }
    let busiest = extreme(record, |c| c.caused_ns as i64);
    match busiest.map(|c| (c, share(c.caused_ns as i64))) {
        Some((c, caused)) if caused >= WORTH_SAYING_PCT => format!(
            "No container pays for another: `{}` caused the most network work, {} of a CPU",
            name(c),
            spoken_pct(caused)
        ),
        _ => "No container pays for another: there is hardly any network work".to_owned(),
    }
}

fn cause(reason: Reason) -> &'static str {
    match reason {
        Reason::HostTraffic => "the host's own traffic",
        Reason::Forwarding => "forwarded by the host",
        Reason::UnknownNamespace => "of a network namespace without a known container",
        Reason::NoSlot => "of containers beyond the table's size",
        _ => reason.label(),
    }
}

fn owed(entry: &ContainerRecord, cpu: usize) -> i64 {
    at(&entry.caused_by_cpu_ns, cpu) - at(&entry.charged_by_cpu_ns, cpu)
}

fn at(by_cpu: &[u64], cpu: usize) -> i64 {
    by_cpu
        .get(cpu)
        .map_or(0, |ns| i64::try_from(*ns).unwrap_or(i64::MAX))
}

/// The container with the largest `key`; of equals the one with the smallest cgroup id, so
/// that the sentence does not flicker.
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
mod tests {
    use super::*;
    use crate::fixture::{entry, interval};
    use cofferdam_types::{CgroupId, Interval};

    fn of(interval: &Interval) -> String {
        super::of(&AccountingRecord::new(interval))
    }

    #[test]
    fn names_the_offender_and_the_payer() {
        assert_eq!(
            of(&interval()),
            "`web-3` caused 43% of CPU 0 in network work; `db-1` paid 31%"
        );
    }

    /// `flooder` is charged for all of it: its own sending and what its packets cost at the
    /// receiver's end.
    fn flood() -> Interval {
        let mut flood = interval();
        let mut flooder = entry(1, "flooder", 0, 0, 520, 900);
        flooder.ledger.tx_packets = 500_000;
        flooder.ledger.caused_tx_ns = 300_000_000;
        flooder.caused_by_cpu_ns = vec![300_000_000, 0];
        let mut receiver = entry(2, "receiver", 490_000, 220, 0, 10);
        receiver.received_from = [(CgroupId(1), 500_000)].into();
        flood.containers = vec![flooder, receiver];
        flood
    }

    #[test]
    fn of_two_containers_the_sender_is_the_origin_and_none_pays_more_than_was_caused() {
        assert_eq!(
            of(&flood()),
            "`flooder` sends to `receiver`: 22% of CPU 0 in network \
             work; the sender itself paid 22%"
        );
        let mut beside = flood();
        beside.containers[0].charged_by_cpu_ns = vec![300_000_000, 0];
        beside.containers.push(entry(3, "db", 0, 0, 400, 900));
        assert_eq!(
            of(&beside),
            "`flooder` sends to `receiver`: 22% of CPU 0 in network \
             work; `db` paid 22%",
            "not 40%: the rest was nobody's debt"
        );
    }

    #[test]
    fn a_sender_of_the_smaller_part_is_not_the_origin() {
        let mut two = flood();
        // Most of what it receives comes from outside, although the counts look alike.
        two.containers[1].received_from = [(CgroupId(1), 200_000)].into();
        let text = of(&two);
        assert!(text.starts_with("`receiver` caused 22% of CPU 0"), "{text}");
        assert!(text.ends_with("`flooder` paid 22%"), "{text}");
        let mut gone = flood();
        gone.containers[1].received_from = [(CgroupId(9), 490_000)].into();
        assert!(of(&gone).starts_with("`receiver` caused"));
        // Two senders: the larger one, where it alone sends most.
        let mut shared = flood();
        shared.containers[1].received_from =
            [(CgroupId(1), 300_000), (CgroupId(3), 190_000)].into();
        assert!(of(&shared).starts_with("`flooder` sends to `receiver`"));
    }

    #[test]
    fn an_offender_on_an_idle_cpu_harms_no_other() {
        let mut quiet = interval();
        quiet.containers = vec![entry(1, "web", 1000, 200, 0, 5), entry(2, "db", 0, 0, 0, 0)];
        assert_eq!(
            of(&quiet),
            "`web` caused 20% of CPU 0 in network work; no other container paid: the CPU was \
             idle or ran host processes"
        );
    }

    #[test]
    fn a_container_that_pays_for_itself_harms_none() {
        let mut fair = interval();
        fair.containers = vec![entry(1, "web", 1000, 200, 200, 300)];
        assert_eq!(
            of(&fair),
            "No container pays for another: `web` caused the most network work, 20% of a CPU"
        );
    }

    #[test]
    fn the_host_can_be_the_offender() {
        let mut host = interval();
        host.containers = vec![entry(1, "db", 0, 0, 180, 900)];
        host.unattributed_ns
            .insert(Reason::HostTraffic, 180_000_000);
        assert_eq!(
            of(&host),
            "`db` paid 18% of a CPU for packets that belong to no container (the host's own \
             traffic)"
        );
    }

    #[test]
    fn an_empty_host_and_an_empty_interval_have_a_headline() {
        let mut empty = interval();
        empty.containers.clear();
        assert_eq!(of(&empty), "No container on this host yet.");
        let mut zero = interval();
        zero.length = std::time::Duration::ZERO;
        assert!(of(&zero).starts_with("No container pays for another"));
        zero.containers = vec![entry(1, "x", 0, 0, 0, 0)];
        assert!(of(&zero).contains("hardly any network work"));
        zero.cpus.clear();
        assert_eq!(of(&zero), "No CPU was measured.");
    }

    #[test]
    fn names_cannot_control_the_terminal() {
        let mut evil = interval();
        evil.containers = vec![entry(1, "a\u{1b}[2J\nb", 1, 300, 0, 0)];
        let text = of(&evil);
        assert!(!text.contains('\u{1b}') && !text.contains('\n'), "{text}");
    }
}
