//! Limit on a container's packets: the budget that its share and its quota leave, and the overdraft
//! beyond it.

use super::Account;
use crate::network::policy::Rules;
use crate::network::policy::debt::Debt;
use crate::network::policy::decision::{PacketLimit, Packets, Spending};
use crate::network::policy::facts::ContainerFacts;
use crate::tuning::network as tuning;
use cofferdam_types::{ContainerLedger, Means};
use std::time::Duration;

impl Account {
    /// Decides about the packet limit. An applied limit stays until it has dropped nothing for a
    /// while: no competitor waits, or the container's NAPI thread does all of its network work in
    /// its own time.
    pub(super) fn packets(
        &mut self,
        rules: &Rules,
        now: Duration,
        own: &ContainerFacts,
        row: Option<&ContainerLedger>,
        share: Option<f64>,
    ) -> Packets {
        let may_rx = rules.may(Means::IngressDrop);
        let may_tx = rules.may(Means::EgressDrop);
        if !may_rx && !may_tx {
            return Packets::Unchanged;
        }
        let budget = self.budget(rules, own, share);
        let over = budget.is_some_and(|cpus| self.quota.counted(&self.rates) > cpus);
        let is_limited = own.limiting.received || own.limiting.sent;
        let counts = own.limiting.counts;
        let binds = over || counts.rx_dropped + counts.tx_dropped > 0;
        if binds || self.bound_at.is_none() {
            self.bound_at = Some(now);
        }
        let is_idle = |at| now.saturating_sub(at) >= tuning::LIMIT_IDLE;
        match is_limited {
            false if !over => return Packets::Unchanged,
            true if self.bound_at.is_some_and(is_idle) => return Packets::Unlimited,
            _ => {}
        }
        let burst = match self.streams {
            true => tuning::STREAM_BURST,
            false => tuning::BURST,
        };
        Packets::Limited(PacketLimit {
            spending: Spending {
                cpus: budget,
                ns_per_rx_packet: self.packets.rx.ns_per_packet(),
                ns_per_tx_packet: self.packets.tx.ns_per_packet(),
                saves_up: self.quota.saves_up().unwrap_or_default().max(burst),
            },
            received: may_rx,
            sent: may_tx && (self.packets.sent_part() > tuning::SENDS_PART || own.limiting.sent),
            large: are_large(row),
            // Without a NAPI thread the last place to drop is the container's own interface, unless
            // its other end is on a host that forwards.
            at_own_interface: (!rules.may(Means::NapiThread) || self.unstoppable)
                && self.container.interfaces.len() == 1,
        })
    }

    /// Network CPU, in CPUs, that the container may cause within its quota and its share of the
    /// contended CPUs, as [`counted`] counts it.
    ///
    /// [`counted`]: crate::network::policy::quota::Quota::counted
    fn budget(&self, rules: &Rules, own: &ContainerFacts, share: Option<f64>) -> Option<f64> {
        let of_quota = self.quota.budget(&self.rates, self.packets.dropping_cpus());
        let of_share = share.map(|share| {
            let counted = self.quota.counted(&self.rates);
            let scale = counted / self.rates.at_others_cost().max(1e-6);
            let budget =
                self.rates.budget(share, &self.debts.here()) + self.overdraft(rules, own, share);
            budget * scale.max(1.0)
        });
        match (of_share, of_quota) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
    }

    /// Whether it moves mostly full segments, and the other side answers as far as that is visible.
    /// Of a device on top of a host device (macvlan), sent packets are not visible.
    pub(super) fn are_streams(&self, row: Option<&ContainerLedger>) -> bool {
        let devices = &self.container.interfaces;
        let sees_both = devices.iter().all(|device| device.host_ifindex.is_some());
        let tells = sees_both && !devices.is_empty();
        are_full(row) && (!tells || self.packets.has_traffic_both_ways())
    }

    /// CPUs by which its packets may exceed their budget because its weight alone compensates that:
    /// a task that reads later closes a stream's window, and the stream loses nothing. A debt
    /// reduces the overdraft. A stream that loses a window is silent for 200 ms and more, and BBR
    /// sends into a limit again and again. A stream may therefore exceed its budget freely until
    /// its debt is more than its weight can soon repay.
    pub(super) fn overdraft(&self, rules: &Rules, own: &ContainerFacts, share: f64) -> f64 {
        let may_wait = self.streams || !self.exceeded_weight;
        if !self.is_by_weight(rules, own) || !may_wait || self.rates.runs_elsewhere() {
            return 0.0;
        }
        let is_modest = self.rates.at_others_cost() < tuning::MODEST_PART * share;
        match self.streams || is_modest {
            true => stream_overdraft(share, &self.debts.here()),
            false => {
                (tuning::OVERDRAFT_PART * share - self.debts.here().repayment().max(0.0)).max(0.0)
            }
        }
    }
}

/// Whether received packets are full segments, as those of a stream.
fn are_large(row: Option<&ContainerLedger>) -> bool {
    let ledger = row.map(|row| row.ledger).unwrap_or_default();
    ledger.rx_bytes >= tuning::LARGE_BYTES * ledger.rx_packets
}

/// Whether the larger direction carries full segments. The other direction of a stream carries
/// acknowledgements.
pub(super) fn are_full(row: Option<&ContainerLedger>) -> bool {
    let ledger = row.map(|row| row.ledger).unwrap_or_default();
    match ledger.tx_bytes > ledger.rx_bytes {
        true => ledger.tx_bytes >= tuning::LARGE_BYTES * ledger.tx_packets,
        false => are_large(row),
    }
}

/// CPUs by which streams may exceed the rest of `cpus`: all of `cpus` while repaying `debt` takes
/// half of [`tuning::STREAM_OVERDRAFT_PART`], none from the whole of it on.
fn stream_overdraft(cpus: f64, debt: &Debt) -> f64 {
    let most = tuning::STREAM_OVERDRAFT_PART * cpus;
    (most / debt.repayment().max(1e-6) - 1.0).clamp(0.0, 1.0) * cpus
}
