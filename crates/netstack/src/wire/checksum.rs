//! Internet checksum (RFC 1071).

/// Ones' complement sum of `bytes`, folded to 16 bits and not inverted. An odd last byte is padded
/// with a zero.
pub fn sum(bytes: &[u8]) -> u16 {
    let mut chunks = bytes.chunks_exact(8);
    // The loop adds 64-bit words in native byte order, which matters only in the last step (RFC
    // 1071, 2 B). Carries go into the upper half.
    let mut total: u128 = 0;
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        total += u128::from(u64::from_ne_bytes(word));
    }
    let mut last = [0; 8];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    total += u128::from(u64::from_ne_bytes(last));
    let mut folded = (total >> 64) as u64 as u128 + u128::from(total as u64);
    folded = (folded >> 64) + u128::from(folded as u64);
    let mut small = folded as u64;
    small = (small >> 32) + (small & 0xffff_ffff);
    small = (small >> 32) + (small & 0xffff_ffff);
    small = (small >> 16) + (small & 0xffff);
    small = (small >> 16) + (small & 0xffff);
    u16::from_be((small & 0xffff) as u16)
}

/// Adds two folded sums.
pub const fn add(a: u16, b: u16) -> u16 {
    let total = a as u32 + b as u32;
    (total & 0xffff) as u16 + (total >> 16) as u16
}
