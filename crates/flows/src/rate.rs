//! Chooses the sampling rate: how many packets one sample represents.

use std::time::Duration;

/// Target number of samples per second. One costs about 1 µs in total: its copy in the softirq, the
/// system call, the table.
pub const MOST_SAMPLES_PER_S: u32 = 4_000;
/// Upper limit for the CPU time of the reading thread, as a share of one CPU.
const MOST_CPU: f64 = 0.008;
/// Upper limit for the cost of one sample. The thread's CPU time includes more than the samples:
/// its own looks, and any softirq or hypervisor that interrupted it. No larger N makes these
/// cheaper.
const MOST_CPU_PER_SAMPLE: Duration = Duration::from_micros(20);
/// First N, while the load is unknown.
pub const FIRST: u32 = 256;
/// Largest N.
const LAST: u32 = 1 << 16;

/// Returns the next N, after `sampled` packets were kept with one in `n` over `length`, which cost
/// `cpu` and lost `lost` because the buffer was full. A power of two. It falls slowly, so that it
/// does not swing.
pub fn next(n: u32, sampled: u64, lost: u64, cpu: Duration, length: Duration) -> u32 {
    let seconds = length.as_secs_f64();
    if seconds <= 0.0 {
        return n;
    }
    let samples_per_s = (sampled + lost) as f64 / seconds;
    let most_cpu_s = MOST_CPU_PER_SAMPLE.as_secs_f64() * sampled as f64;
    let cpu_share = cpu.as_secs_f64().min(most_cpu_s) / seconds;
    let load = (samples_per_s / f64::from(MOST_SAMPLES_PER_S)).max(cpu_share / MOST_CPU);
    let load = if lost > 0 { load.max(2.0) } else { load };
    // Half of the target keeps N, a quarter lowers it: between them N is stable.
    let factor = if load > 1.0 {
        load.log2().ceil()
    } else if load < 0.25 {
        (load * 2.0).max(1.0 / f64::from(LAST)).log2().ceil()
    } else {
        return n;
    };
    let exponent = f64::from(n.max(1)).log2().round() + factor;
    2_u32.pow(exponent.clamp(0.0, f64::from(LAST.ilog2())) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Promise 15.
    #[test]
    fn samples_stay_at_the_aim_at_any_load() {
        for packets_per_s in [0_u64, 10, 3_000, 9_000, 50_000, 700_000, 20_000_000] {
            let mut n = FIRST;
            for _ in 0..4 {
                n = next(n, packets_per_s / u64::from(n), 0, Duration::ZERO, SECOND);
            }
            let sampled = packets_per_s / u64::from(n);
            assert!(
                sampled <= u64::from(MOST_SAMPLES_PER_S),
                "{packets_per_s}: 1 in {n}"
            );
            let enough = sampled >= u64::from(MOST_SAMPLES_PER_S) / 5 || n == 1;
            assert!(enough, "{packets_per_s}: 1 in {n}");
            assert_eq!(
                next(n, sampled, 0, Duration::ZERO, SECOND),
                n,
                "{packets_per_s} swings"
            );
        }
    }

    /// Promise 15.
    #[test]
    fn cost_and_loss_make_it_rarer() {
        assert_eq!(next(8, 1000, 0, Duration::from_millis(20), SECOND), 32);
        assert_eq!(next(8, 2000, 1, Duration::ZERO, SECOND), 16);
        assert_eq!(next(LAST, u64::MAX / 2, 1, SECOND, SECOND), LAST);
        assert_eq!(next(8, 5, 5, SECOND, Duration::ZERO), 8);
    }

    #[test]
    fn what_the_samples_cannot_have_cost_makes_none_rarer() {
        assert_eq!(next(1, 0, 0, SECOND, SECOND), 1);
        assert_eq!(next(1, 390, 0, SECOND, SECOND), 1);
        assert_eq!(next(1, 1000, 0, SECOND, SECOND), 4);
        // Such a cost does not keep N from falling either.
        assert_eq!(next(FIRST, 3, 0, Duration::from_millis(2), SECOND), 4);
    }
}
