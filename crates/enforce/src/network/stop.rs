//! Stop: what a container may still cause, and the limit on its packets that follows.

use super::Network;
use super::container::Enforced;
use super::control::Spending;
use super::ingress::{self, Limited, Limits};
use cofferdam_types::{ContainerLedger, Interval, Means};
use std::collections::BTreeSet;
use std::time::Duration;

/// What a container may save up. Longer lets bursts through; shorter drops TCP's normal bursts.
const BURST: Duration = Duration::from_millis(10);
/// What a container sends is limited as well where it makes up this part of its network CPU.
const SENDS: f64 = 0.1;
/// Received packets from this mean size on, in bytes, are a stream's: full segments.
const LARGE: u64 = 1_000;

impl Network {
    /// Drops what it may not cause any more. Once in place, the limit stays as long as the other
    /// means: it only ever binds while others wait.
    pub(super) fn stop(
        &mut self,
        enforced: &mut Enforced,
        row: Option<&ContainerLedger>,
        interval: &Interval,
    ) {
        let (may_rx, may_tx) = (self.may(Means::IngressDrop), self.may(Means::EgressDrop));
        if !may_rx && !may_tx {
            return;
        }
        let container = enforced.container.clone();
        let limited = self.ingress.limits(container.cgroup);
        let limited_tx = self.ingress.limits_sent(container.cgroup);
        let over = enforced
            .budget
            .is_some_and(|budget| enforced.network_cpus() > budget);
        let ledger = row.map(|row| row.ledger).unwrap_or_default();
        if !limited && !limited_tx {
            let packets = (ledger.rx_packets, ledger.tx_packets);
            enforced.packets(packets, 0, &ledger, interval);
            if !over {
                return;
            }
        }
        let sends = enforced.sends() > SENDS;
        // Without a NAPI thread of its own the last place to drop is its own interface, when
        // the other end of it is no host that forwards.
        let own = (!self.may(Means::NapiThread) || enforced.unstoppable)
            && container.interfaces.len() == 1;
        let gates = [false, own];
        for own in gates.iter().take(if own { 2 } else { 1 }) {
            let Some(netns) = ingress::gate_of(&container, *own) else {
                continue;
            };
            let limits = Limits {
                spending: Spending {
                    cpus: enforced.budget.unwrap_or(0.0),
                    ns_per_rx_packet: enforced.rx_cost.ns_per_packet(),
                    ns_per_tx_packet: enforced.tx_cost.ns_per_packet(),
                    saves_up: enforced.limit.saves_up().unwrap_or(BURST).max(BURST),
                },
                received: may_rx,
                sent: may_tx && (sends || limited_tx) && !own,
                large: ledger.rx_bytes >= LARGE * ledger.rx_packets,
            };
            let skip = if *own {
                &BTreeSet::new()
            } else {
                &self.host_ends
            };
            match self.ingress.limit(&container, netns, limits, skip) {
                Ok(Limited {
                    counts,
                    sent_refused,
                }) => {
                    enforced.drop_refused = None;
                    enforced.sent_refused = sent_refused;
                    enforced.dropped_rx_packets += counts.rx_dropped;
                    enforced.dropped_tx_packets += counts.tx_dropped;
                    let rx = if limited {
                        counts.rx_passed
                    } else {
                        ledger.rx_packets
                    };
                    let tx = if limited_tx {
                        counts.tx_passed
                    } else {
                        ledger.tx_packets
                    };
                    if limited || limited_tx {
                        let dropped = counts.rx_dropped + counts.tx_dropped;
                        enforced.packets((rx, tx), dropped, &ledger, interval);
                    }
                    return;
                }
                Err(why) => enforced.drop_refused = Some(why),
            }
        }
    }
}
