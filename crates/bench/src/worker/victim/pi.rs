//! Pi by Monte Carlo points in the unit square. Each map task draws a batch of points, and the
//! reduce adds the hits. Integer arithmetic gives the same answer on every machine.

use super::mapreduce;

const POINTS_PER_TASK: u32 = 10_000;

/// Hits inside the quarter circle out of `units` × 10,000 points.
pub(crate) fn estimate(seed: u64, units: u64, threads: usize) -> u64 {
    mapreduce::run(units, threads, |task| hits(seed, task), |a, b| a + b)
}

fn hits(seed: u64, task: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed.rotate_left(32) ^ task);
    let mut inside = 0;
    for _ in 0..POINTS_PER_TASK {
        let (x, y) = (u64::from(random.u32(..)), u64::from(random.u32(..)));
        // Squares of 31-bit numbers, whose sum fits 64 bits.
        let (x, y) = (x >> 1, y >> 1);
        inside += u64::from(x * x + y * y < 1 << 62);
    }
    inside
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_pi() {
        let units = 100;
        let points = units * u64::from(super::POINTS_PER_TASK);
        let pi = super::estimate(7, units, 1) as f64 * 4.0 / points as f64;
        assert!((pi - std::f64::consts::PI).abs() < 0.01, "{pi}");
    }
}
