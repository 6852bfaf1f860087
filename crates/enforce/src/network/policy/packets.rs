//! Costs of a container's received and sent packets, learned from each interval.

use super::facts::ContainerFacts;
use super::quota::Quota;
use super::rates::Rates;
use crate::tuning::network::{FEW_PACKETS, MOST_PER_ANSWER, RATE_MEMORY_S};
use cofferdam_types::ContainerLedger;
use std::time::Duration;

/// Costs of one container's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PacketCosts {
    pub rx: PacketCost,
    pub tx: PacketCost,
    dropping_cpus: f64,
}

impl PacketCosts {
    /// Learns from an interval. Under a quota, when most packets are dropped, the known costs stay:
    /// the remaining network CPU went into dropping, which a limit cannot lower.
    pub fn learn(
        &mut self,
        own: &ContainerFacts,
        row: Option<&ContainerLedger>,
        rates: &Rates,
        quota: &Quota,
        length: Duration,
    ) {
        let ledger = row.map(|row| row.ledger).unwrap_or_default();
        let (limiting, counts) = (own.limiting, own.limiting.counts);
        // A limit counts packets only while it has a budget. Without competitors all pass, and none
        // is counted.
        let passed = |limited: bool, passed: u64, dropped: u64, seen: u64| match limited {
            true if passed + dropped > 0 => passed as f64,
            _ => seen as f64,
        };
        let (seen_rx, seen_tx) = (ledger.rx_packets, ledger.tx_packets);
        let rx = passed(
            limiting.received,
            counts.rx_passed,
            counts.rx_dropped,
            seen_rx,
        );
        let tx = passed(limiting.sent, counts.tx_passed, counts.tx_dropped, seen_tx);
        let dropped = (counts.rx_dropped + counts.tx_dropped) as f64;
        let length_ns = length.as_nanos() as f64;
        let all_ns = quota.counted(rates) * length_ns;
        if quota.cpus().is_some() && dropped > rx + tx {
            let passed_ns = rx * self.rx.ns_per_packet() + tx * self.tx.ns_per_packet();
            self.dropping_cpus = (all_ns - passed_ns).max(0.0) / length_ns;
            return;
        }
        self.dropping_cpus = 0.0;
        if rx + tx + dropped < FEW_PACKETS {
            // With so few packets, the network CPU belongs to acknowledgements and timers, not to
            // them. The cost per packet would come out so high that a stream's first packets after
            // a pause would not pass.
            return;
        }
        let (caused_rx, caused_tx) = (ledger.caused_rx_ns as f64, ledger.caused_tx_ns as f64);
        let part = caused_tx / (caused_rx + caused_tx).max(1.0);
        self.rx.update(all_ns * (1.0 - part), rx, length);
        self.tx.update(all_ns * part, tx, length);
    }

    /// Network CPU spent on dropped packets, in CPUs; known only under a quota.
    pub fn dropping_cpus(&self) -> f64 {
        self.dropping_cpus
    }

    /// Whether traffic flows both ways, however unevenly.
    pub fn has_traffic_both_ways(&self) -> bool {
        let (rx, tx) = (self.rx.packets, self.tx.packets);
        rx.min(tx) * MOST_PER_ANSWER >= rx.max(tx)
    }

    /// Part (0..=1) of its network CPU that is for sent packets.
    pub fn sent_part(&self) -> f64 {
        self.tx.ns / (self.rx.ns + self.tx.ns).max(1.0)
    }
}

/// Smoothed cost of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PacketCost {
    ns: f64,
    packets: f64,
}

impl PacketCost {
    /// Adds an interval.
    pub fn update(&mut self, caused_ns: f64, packets: f64, length: Duration) {
        let keep = (-length.as_secs_f64() / RATE_MEMORY_S).exp();
        self.ns = self.ns * keep + caused_ns;
        self.packets = self.packets * keep + packets;
    }

    /// Cost per packet, nanoseconds, clamped to 100 ns..1 ms; 1 µs while less than one packet is
    /// remembered.
    pub fn ns_per_packet(&self) -> f64 {
        if self.packets < 1.0 {
            return 1_000.0;
        }
        (self.ns / self.packets).clamp(100.0, 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::Use;
    use super::super::simulation::{facts, interval};
    use super::*;

    const STEP: Duration = Duration::from_millis(20);

    /// Adds a step with this number of packets at a cost of `each_ns` each.
    fn learn(costs: &mut PacketCosts, packets: u64, each_ns: f64) {
        learn_of(costs, &facts(), packets, each_ns);
    }

    fn learn_of(costs: &mut PacketCosts, own: &ContainerFacts, packets: u64, each_ns: f64) {
        let all_ns = packets as f64 * each_ns;
        let mut row = interval(&[], &[(0, 0)]).containers.remove(0);
        row.ledger.rx_packets = packets;
        row.ledger.caused_rx_ns = all_ns as u64;
        let rates = Rates::of(
            &Use {
                softirq_ns: all_ns,
                ..Use::default()
            },
            STEP,
        );
        costs.learn(own, Some(&row), &rates, &Quota::default(), STEP);
    }

    /// The limit is attached and has no budget: packets that it does not count have passed.
    /// Promise 29.
    #[test]
    fn a_limit_without_budget_does_not_raise_costs() {
        let mut costs = PacketCosts::default();
        let mut own = facts();
        own.limiting.received = true;
        for _ in 0..50 {
            learn_of(&mut costs, &own, 2_000, 3_000.0);
        }
        assert!((costs.rx.ns_per_packet() - 3_000.0).abs() < 1.0);
        // While the limit counts, a dropped packet is not a passed one.
        (
            own.limiting.counts.rx_passed,
            own.limiting.counts.rx_dropped,
        ) = (1_000, 1_000);
        for _ in 0..50 {
            learn_of(&mut costs, &own, 2_000, 3_000.0);
        }
        assert!((costs.rx.ns_per_packet() - 6_000.0).abs() < 1.0);
    }

    /// A stream has few acknowledgements where its segments are merged on the way.
    /// Promise 34.
    #[test]
    fn a_flood_is_not_answered_and_a_stream_is() {
        let answered = |answers: u64| {
            let mut costs = PacketCosts::default();
            let mut row = interval(&[], &[(0, 0)]).containers.remove(0);
            row.ledger.rx_packets = 2_750;
            for tx_packets in [0; 10].into_iter().chain([answers]) {
                row.ledger.tx_packets = tx_packets;
                let (rates, quota) = (Rates::default(), Quota::default());
                costs.learn(&facts(), Some(&row), &rates, &quota, STEP);
            }
            costs.has_traffic_both_ways()
        };
        assert!(!answered(0) && !answered(1));
        assert!(answered(7));
        assert!(
            PacketCosts::default().has_traffic_both_ways(),
            "there is nothing to answer"
        );
    }

    /// Promise 34.
    #[test]
    fn few_packets_of_a_pause_do_not_raise_costs() {
        let mut costs = PacketCosts::default();
        for _ in 0..20 {
            learn(&mut costs, 2_000, 3_000.0);
        }
        assert!((costs.rx.ns_per_packet() - 3_000.0).abs() < 1.0);
        for _ in 0..50 {
            learn(&mut costs, 1, 500_000.0);
        }
        assert!((costs.rx.ns_per_packet() - 3_000.0).abs() < 1.0);
        // Enough packets: their cost is learned.
        for _ in 0..50 {
            learn(&mut costs, 20, 9_000.0);
        }
        assert!((costs.rx.ns_per_packet() - 9_000.0).abs() < 1.0);
    }
}
