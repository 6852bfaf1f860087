//! SipHash-1-3 (Aumasson and Bernstein, 2012): a keyed hash. A peer that chooses addresses and
//! ports cannot force collisions.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Key of one purpose, derived from the stack's secret.
#[derive(Debug, Clone, Copy)]
pub struct Key(u64, u64);

impl Key {
    /// The key for `purpose`.
    pub fn new(secret: &[u8; 16], purpose: u64) -> Self {
        let (mut low, mut high) = ([0; 8], [0; 8]);
        low.copy_from_slice(&secret[..8]);
        high.copy_from_slice(&secret[8..]);
        let root = Self(u64::from_le_bytes(low), u64::from_le_bytes(high));
        Self(root.hash(&[purpose, 0]), root.hash(&[purpose, 1]))
    }

    /// Hash of `words`, which also depends on their number.
    #[inline]
    pub fn hash(&self, words: &[u64]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        for &word in words {
            hasher.write_u64(word);
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirements of the tables: neighbouring inputs do not collide, and the order under one key
    /// does not depend on that under another.
    #[test]
    fn neighbouring_inputs_and_keys_give_unrelated_hashes() {
        let keys = [
            Key::new(&[0; 16], 1),
            Key::new(&[0; 16], 2),
            Key::new(&[1; 16], 1),
        ];
        let mut seen = std::collections::HashSet::new();
        for key in keys {
            for n in 0..10_000 {
                assert!(seen.insert(key.hash(&[n, 0])));
                assert!(seen.insert(key.hash(&[n])));
            }
        }
        let ones: u32 = (0..1000)
            .map(|n| (keys[0].hash(&[n]) ^ keys[0].hash(&[n ^ 1])).count_ones())
            .sum();
        assert!(
            (31_000..33_000).contains(&ones),
            "half of all bits change: {ones}"
        );
    }

    /// Stacks that share a secret must agree on flow groups and cookies, also across versions.
    #[test]
    fn hashes_stay_those_of_the_published_algorithm() {
        let key = Key::new(&[7; 16], 1);
        let vectors: [(&[u64], u64); 5] = [
            (&[], 0xf475_7c47_9c63_5227),
            (&[0], 0x7ecd_f702_1b99_20d3),
            (&[1, 2], 0xe325_bf66_8f6f_f7ee),
            (&[u64::MAX, 0x0123_4567_89ab_cdef], 0xf5a3_8f38_e856_e235),
            (&[1, 2, 3, 4, 5], 0xe427_f33e_6b23_047c),
        ];
        for (words, hash) in vectors {
            assert_eq!(key.hash(words), hash, "{words:?}");
        }
    }
}
