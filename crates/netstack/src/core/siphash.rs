//! SipHash-1-3 (Aumasson and Bernstein, 2012): a keyed hash that a peer who chooses addresses and
//! ports cannot aim at one bucket.

/// A key; one for each use, from one secret.
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

    /// Hash of words; their number is part of it.
    #[inline]
    pub fn hash(&self, words: &[u64]) -> u64 {
        let mut v = [
            self.0 ^ 0x736f_6d65_7073_6575,
            self.1 ^ 0x646f_7261_6e64_6f6d,
            self.0 ^ 0x6c79_6765_6e65_7261,
            self.1 ^ 0x7465_6462_7974_6573,
        ];
        for &word in words {
            v[3] ^= word;
            round(&mut v);
            v[0] ^= word;
        }
        let last = (words.len() as u64 * 8) << 56;
        v[3] ^= last;
        round(&mut v);
        v[0] ^= last;
        v[2] ^= 0xff;
        round(&mut v);
        round(&mut v);
        round(&mut v);
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    /// The published algorithm with other round numbers (the standard library has 2-4) cannot be
    /// compared bit by bit; what the table needs can: no collision among neighbours, and no
    /// dependence of one key's order on another's.
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

    /// With two and four rounds the same code is the standard library's SipHash-2-4.
    #[test]
    fn agrees_with_the_standard_library_but_for_the_rounds() {
        #[allow(deprecated)]
        let mut theirs = std::hash::SipHasher::new_with_keys(7, 9);
        theirs.write_u64(1234);
        let mut v = [
            7 ^ 0x736f_6d65_7073_6575,
            9 ^ 0x646f_7261_6e64_6f6d,
            7 ^ 0x6c79_6765_6e65_7261,
            9 ^ 0x7465_6462_7974_6573,
        ];
        for word in [1234, 8 << 56] {
            v[3] ^= word;
            round(&mut v);
            round(&mut v);
            v[0] ^= word;
        }
        v[2] ^= 0xff;
        (0..4).for_each(|_| round(&mut v));
        assert_eq!(v[0] ^ v[1] ^ v[2] ^ v[3], theirs.finish());
    }
}
