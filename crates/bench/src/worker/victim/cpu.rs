//! Integer work that stays in registers: no memory and no system calls, so that its time is only
//! CPU time.

/// Rounds in one unit of the `cpu` victim: some tens of microseconds.
pub(crate) const ROUNDS_PER_UNIT: u64 = 10_000;

/// Does `rounds` dependent steps of a 64-bit mixer (xorshift-multiply); the result depends on all.
pub(crate) fn mix(seed: u64, rounds: u64) -> u64 {
    let mut x = seed ^ 0x9e37_79b9_7f4a_7c15;
    for i in 0..rounds {
        x = (x ^ (x >> 29))
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .wrapping_add(i);
    }
    x
}
