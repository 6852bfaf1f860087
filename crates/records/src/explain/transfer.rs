//! Transfers: CPU time that one victim loses to one offender, and by which means.
//!
//! A victim loses CPU time in two ways. Softirqs that run in its time slices for the packets of
//! others are *charged* to it. Or it waits while others run. A wait for host tasks is divided
//! further, because `ksoftirqd` handles packets of containers there: that part is the harm of those
//! packets. A container that waits for its own packets is not a victim.

use super::evidence::Evidence;
use crate::status::SUFFERS_CPUS;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Source of harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Offender {
    /// The container of this cgroup, or the cgroup of the host that has a row of its own.
    Container(u64),
    /// Host tasks without a row.
    Host,
    /// Packets of no container.
    NoContainer,
    /// Tasks that the diagnosis does not distinguish.
    Others,
}

/// Means by which harm is done; each has a remedy of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Means {
    /// The offender's packets.
    Packets,
    /// The offender's tasks.
    Tasks,
}

/// CPU time that one victim loses to one offender by one means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Transfer {
    pub offender: Offender,
    pub victim: u64,
    pub means: Means,
    /// Charged to the victim in its own time slices, CPUs.
    pub charged_cpus: f64,
    /// Lost by the victim while it waited, CPUs.
    pub waited_cpus: f64,
    /// Whether the victim sends most of these packets itself.
    pub is_own: bool,
}

impl Transfer {
    /// All CPU time that the victim loses, CPUs.
    pub fn cpus(&self) -> f64 {
        self.charged_cpus + self.waited_cpus
    }
}

/// Every transfer, in the order of [`rank`].
pub(super) fn transfers(evidence: &Evidence) -> Vec<Transfer> {
    let mut by: BTreeMap<(Offender, u64, Means), (f64, f64)> = BTreeMap::new();
    let mut balanced: BTreeMap<u64, f64> = BTreeMap::new();
    for (victim, offenders) in evidence.charged_cpus() {
        let Some(container) = evidence.container(victim) else {
            continue;
        };
        let sum = evidence.sum(container);
        let gross: f64 = offenders.iter().map(|(_, cpus)| cpus).sum();
        balanced.insert(victim, (gross - sum.paid_cpus).max(0.0));
        for (offender, cpus) in offenders {
            let offender = offender.map_or(Offender::NoContainer, Offender::Container);
            let (charged, _) = by.entry((offender, victim, Means::Packets)).or_default();
            *charged += sum.paid_cpus * cpus / gross;
        }
    }
    if let Some(losses) = &evidence.losses {
        for part in losses.parts(evidence) {
            let key = (part.offender, part.victim, part.means);
            by.entry(key).or_default().1 += part.cpus;
        }
    }
    let transfer = |((offender, victim, means), (charged_cpus, waited_cpus))| Transfer {
        offender,
        victim,
        means,
        charged_cpus,
        waited_cpus,
        is_own: false,
    };
    let mut all: Vec<Transfer> = by.into_iter().map(transfer).collect();
    deduct_debts(&mut all, &balanced);
    all.retain(|t| t.cpus() > 0.0);
    for transfer in &mut all {
        transfer.is_own = is_own(evidence, transfer);
    }
    rank(&mut all);
    all
}

/// Subtracts from each container's lost time what others lose to its packets: up to that amount a
/// debtor is no victim. `balanced` is the part of a debt that its own charges have paid, CPUs.
fn deduct_debts(all: &mut [Transfer], balanced: &BTreeMap<u64, f64>) {
    let mut debts: BTreeMap<u64, f64> = BTreeMap::new();
    let mut lost: BTreeMap<u64, f64> = BTreeMap::new();
    for transfer in all.iter() {
        *lost.entry(transfer.victim).or_default() += transfer.waited_cpus;
        if let (Offender::Container(id), Means::Packets) = (transfer.offender, transfer.means) {
            *debts.entry(id).or_default() += transfer.cpus();
        }
    }
    let of = |sums: &BTreeMap<u64, f64>, id| sums.get(&id).copied().unwrap_or(0.0);
    for transfer in all.iter_mut() {
        let victim = transfer.victim;
        let lost = of(&lost, victim);
        let debt = (of(&debts, victim) - of(balanced, victim)).max(0.0);
        if lost > 0.0 {
            transfer.waited_cpus *= ((lost - debt) / lost).max(0.0);
        }
    }
}

/// Whether the victim sends most of the packets that it pays for.
fn is_own(evidence: &Evidence, transfer: &Transfer) -> bool {
    let (Offender::Container(id), Means::Packets) = (transfer.offender, transfer.means) else {
        return false;
    };
    let sender = evidence.container(id).and_then(|c| evidence.sender(c));
    sender.is_some_and(|(sender, _)| sender == transfer.victim)
}

/// Sorts by harm done to others, the offender with most of it first. Of its transfers large ones by
/// packets come first, because packets can be bounded; then the order is by size. Packets that the
/// victim sends itself come last. Equal harm is ordered by ids.
pub(super) fn rank(all: &mut [Transfer]) {
    let key = |t: &Transfer| (t.is_own, t.offender, t.victim, t.means);
    // Sums of floating-point numbers depend on their order.
    all.sort_by_key(key);
    let mut harm: BTreeMap<(bool, Offender), f64> = BTreeMap::new();
    for transfer in all.iter() {
        *harm
            .entry((transfer.is_own, transfer.offender))
            .or_default() += transfer.cpus();
    }
    // Smaller differences are rounding.
    let millionths = |cpus: f64| (cpus * 1e6).round() as i64;
    all.sort_by_key(|t| {
        let total = harm.get(&(t.is_own, t.offender)).copied().unwrap_or(0.0);
        let offender = (Reverse(millionths(total)), t.offender);
        let is_bounded = t.means == Means::Packets && t.cpus() >= SUFFERS_CPUS;
        let size = Reverse(millionths(t.cpus()));
        (t.is_own, offender, !is_bounded, size, key(t))
    });
}

/// CPU time that others lose to the packets of the container `id`, CPUs.
pub(super) fn harm_by_packets(all: &[Transfer], id: u64) -> f64 {
    let of = |t: &&Transfer| {
        t.offender == Offender::Container(id) && t.means == Means::Packets && !t.is_own
    };
    // The sum of nothing is -0.0.
    all.iter().filter(of).map(Transfer::cpus).sum::<f64>() + 0.0
}
