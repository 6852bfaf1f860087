//! Sequence numbers (RFC 9293, 3.4): arithmetic modulo 2^32.

/// Whether `a` is before `b`.
pub const fn lt(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Whether `a` is before `b` or equal to it.
pub const fn le(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) <= 0
}

/// Later of two numbers.
pub const fn max(a: u32, b: u32) -> u32 {
    if lt(a, b) { b } else { a }
}

/// Earlier of two numbers.
pub const fn min(a: u32, b: u32) -> u32 {
    if lt(a, b) { a } else { b }
}

/// Distance from `from` to `to`; zero if `to` is before `from`.
pub const fn distance(from: u32, to: u32) -> u32 {
    if lt(from, to) {
        to.wrapping_sub(from)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_compare_across_the_wrap() {
        let (a, b) = (u32::MAX - 5, 10);
        assert!(lt(a, b) && le(a, b) && !lt(b, a) && le(a, a) && !lt(a, a));
        assert_eq!(
            (max(a, b), min(a, b), distance(a, b), distance(b, a)),
            (b, a, 16, 0)
        );
    }
}
