//! The flows with the most packets, in bounded memory. Uses the space-saving algorithm (Metwally,
//! Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data streams", ICDT
//! 2005) over a random sample.

use crate::parse::{Flow, Packet};
use std::collections::HashMap;

/// Number of flows that are counted at once. A flow with more than 1/512 of all packets is never
/// missed.
pub const MOST_FLOWS: usize = 512;

/// Estimate for one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    /// Estimated packets.
    pub packets: u64,
    /// Estimated bytes from the link header on.
    pub bytes: u64,
    /// Part of `packets` that may belong to flows whose place this one took.
    pub most_too_many: u64,
    /// Variance of `packets` by sampling.
    pub variance: f64,
}

impl Count {
    /// Returns half of the 95% confidence interval of `packets` by sampling, packets.
    pub fn error_packets(&self) -> f64 {
        1.96 * self.variance.sqrt()
    }

    /// Adds a packet that represents `one_in` packets. Each was kept with the probability
    /// 1/`one_in`, so by Horvitz and Thompson its weight is `one_in`, and it adds
    /// `one_in`·(`one_in` − 1) to the variance. A merged packet is one draw of several segments.
    fn add(&mut self, segments: u32, length_bytes: usize, one_in: u32) {
        let (n, segments) = (u64::from(one_in), u64::from(segments));
        self.packets += n * segments;
        self.bytes += n * length_bytes as u64;
        self.variance += (segments * segments) as f64 * (n * (n - 1)) as f64;
    }

    fn merge(&mut self, other: &Count) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.most_too_many += other.most_too_many;
        self.variance += other.variance;
    }
}

/// Flows with their counts.
#[derive(Clone, Debug, Default)]
pub struct Table {
    places: HashMap<Flow, usize>,
    flows: Vec<Flow>,
    counts: Vec<Count>,
    /// All packets, with or without a flow.
    pub total: Count,
    /// Packets that are not IP.
    pub other: Count,
    /// Packets in the sample.
    pub sampled: u64,
}

impl Table {
    /// Counts a packet of `length_bytes` that was kept with the probability 1/`one_in` (at least
    /// 1).
    pub fn count(&mut self, packet: &Packet, length_bytes: usize, one_in: u32) {
        let one_in = one_in.max(1);
        self.sampled += 1;
        self.total.add(packet.segments, length_bytes, one_in);
        let count = match packet.flow {
            Some(flow) => self.place(flow),
            None => &mut self.other,
        };
        count.add(packet.segments, length_bytes, one_in);
    }

    /// Adds the counts of `later`.
    pub fn merge(&mut self, later: &Table) {
        for (flow, count) in later.flows.iter().zip(&later.counts) {
            self.place(*flow).merge(count);
        }
        self.total.merge(&later.total);
        self.other.merge(&later.other);
        self.sampled += later.sampled;
    }

    /// Returns the flows, most packets first.
    pub fn sorted(&self) -> Vec<(Flow, Count)> {
        let mut all: Vec<_> = self
            .flows
            .iter()
            .copied()
            .zip(self.counts.iter().copied())
            .collect();
        all.sort_by(|a, b| b.1.packets.cmp(&a.1.packets).then(a.0.cmp(&b.0)));
        all
    }

    /// Returns the place of `flow`. If all are taken, it replaces the smallest flow and inherits
    /// its count.
    fn place(&mut self, flow: Flow) -> &mut Count {
        let place = match self.places.get(&flow) {
            Some(place) => *place,
            None if self.flows.len() < MOST_FLOWS => {
                self.flows.push(flow);
                self.counts.push(Count::default());
                self.places.insert(flow, self.flows.len() - 1);
                self.flows.len() - 1
            }
            None => {
                let smallest = self
                    .counts
                    .iter()
                    .enumerate()
                    .min_by_key(|(_, c)| c.packets);
                let place = smallest.map_or(0, |(place, _)| place);
                self.places.remove(&self.flows[place]);
                self.places.insert(flow, place);
                self.flows[place] = flow;
                let inherited = &mut self.counts[place];
                inherited.most_too_many = inherited.packets;
                place
            }
        };
        &mut self.counts[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn packet(port: u16) -> Packet {
        let flow = Flow {
            protocol: 17,
            source: IpAddr::from(Ipv4Addr::new(10, 0, 0, 1)),
            destination: IpAddr::from(Ipv4Addr::new(10, 0, 0, 2)),
            ports: Some((port, 53)),
            fragment: false,
        };
        Packet {
            flow: Some(flow),
            segments: 1,
        }
    }

    /// Promise 15.
    #[test]
    fn a_large_flow_is_found_among_more_than_fit() {
        let mut table = Table::default();
        for port in 0..20_000_u16 {
            table.count(&packet(port), 100, 1);
            if port % 4 == 0 {
                table.count(&packet(60_000), 100, 1);
            }
        }
        let flows = table.sorted();
        assert_eq!(flows.len(), MOST_FLOWS);
        assert_eq!(flows[0].0.ports, Some((60_000, 53)));
        // Never less than the true count, and at most `most_too_many` more.
        let count = flows[0].1;
        assert!(
            count.packets >= 5000 && count.packets - count.most_too_many <= 5000,
            "{count:?}"
        );
        assert_eq!(table.total.packets, 25_000);
    }

    /// Promise 15.
    #[test]
    fn a_sample_is_within_its_error() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut outside = 0;
        for _ in 0..200 {
            let mut table = Table::default();
            for _ in 0..20_000 {
                if random.u32(..) < u32::MAX / 64 {
                    table.count(&packet(1), 100, 64);
                }
            }
            let count = table.sorted()[0].1;
            outside += u32::from((count.packets as f64 - 20_000.0).abs() > count.error_packets());
        }
        // 95% of 200: 10 expected; 30 would be seven standard deviations off.
        assert!(outside < 30, "{outside} of 200");
        let mut whole = Table::default();
        whole.count(&packet(1), 100, 1);
        assert_eq!(whole.sorted()[0].1.error_packets(), 0.0);
    }

    #[test]
    fn what_is_no_flow_is_counted_and_merging_adds() {
        let mut table = Table::default();
        let arp = Packet {
            flow: None,
            segments: 1,
        };
        table.count(&arp, 60, 8);
        table.count(&packet(1), 100, 8);
        let mut all = table.clone();
        all.merge(&table);
        assert_eq!(all.other.packets, 16);
        assert_eq!((all.total.packets, all.sampled), (32, 4));
        assert_eq!(
            all.sorted(),
            [(
                packet(1).flow.unwrap(),
                Count {
                    packets: 16,
                    bytes: 1600,
                    most_too_many: 0,
                    variance: 112.0
                }
            )]
        );
    }
}
