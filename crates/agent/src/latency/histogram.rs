//! Histograms with the same few buckets for all containers, as Prometheus needs them.

/// Upper bounds of the buckets, nanoseconds, inclusive. One more bucket holds longer values.
pub(crate) const BOUNDS_NS: [u32; 12] = [
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    100_000_000,
];

/// One histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// Packets in each bucket; the last one has no upper bound.
    pub counts: [u64; BOUNDS_NS.len() + 1],
    /// Sum of all values, nanoseconds.
    pub sum_ns: u64,
}

impl Buckets {
    /// Adds `packets` that took `ns` each.
    pub fn add(&mut self, ns: u32, packets: u64) {
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < ns);
        self.counts[bucket] += packets;
        self.sum_ns = self.sum_ns.saturating_add(u64::from(ns) * packets);
    }

    /// Number of all packets.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_first_bucket_that_holds_it() {
        let mut buckets = Buckets::default();
        for ns in [0, 5_000, 5_001, 100_000_000, 100_000_001] {
            buckets.add(ns, 2);
        }
        let full: Vec<(usize, u64)> = buckets
            .counts
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, n)| *n > 0)
            .collect();
        assert_eq!(full, [(0, 4), (1, 2), (11, 2), (12, 2)]);
        assert_eq!(buckets.count(), 10);
        assert_eq!(buckets.sum_ns, 2 * 200_010_002);
    }
}
