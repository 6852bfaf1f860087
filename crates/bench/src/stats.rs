//! Medians and bootstrap intervals.

use crate::data::{Estimate, FEWEST_BLOCKS, Interval};

/// Resamples for an interval. With this number its ends move by less than 1% of its width between
/// seeds.
const RESAMPLES: usize = 10_000;

/// The median; the mean of the middle two for an even count. `None` when empty.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The quantile `q` (0 to 1) of sorted values, nearest rank.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * (sorted.len() - 1) as f64).round() as usize;
    sorted[rank]
}

/// Positions of the values more than 1.5 interquartile ranges away from the quartiles (Tukey, 1977;
/// quartiles interpolated). Empty for fewer than five values: their quartiles mean nothing.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    if values.len() < 5 {
        return Vec::new();
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |q: f64| {
        let place = q * (sorted.len() - 1) as f64;
        let (low, high) = (
            sorted[place.floor() as usize],
            sorted[place.ceil() as usize],
        );
        low + (high - low) * place.fract()
    };
    let (low, high) = (at(0.25), at(0.75));
    let reach = 1.5 * (high - low);
    let apart = |v: f64| v < low - reach || v > high + reach;
    (0..values.len()).filter(|i| apart(values[*i])).collect()
}

/// Median with its 95% percentile-bootstrap interval. The same values and seed give the same
/// interval. With five values it is about their range; more values make it narrower. Fewer than
/// [`FEWEST_BLOCKS`] values, or equal values, have no interval. `None` when empty.
pub fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    let median_of_all = median(values)?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut resample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            resample.fill_with(|| values[random.usize(..values.len())]);
            median(&resample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let interval = Interval::new(quantile(&medians, 0.025), quantile(&medians, 0.975));
    Some(Estimate::new(median_of_all, interval, values.to_vec()))
}

/// Median and its 95% interval by order statistics (the ranks n/2 ± 0.98·√n, clamped), for hundreds
/// of values, where resampling costs seconds. Few values have no interval, as in [`estimate`].
/// `None` when empty.
pub fn median_interval(values: &[f64]) -> Option<(f64, Option<Interval>)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = median_of_sorted(&sorted)?;
    let (n, half) = (sorted.len() as f64, 0.98 * (sorted.len() as f64).sqrt());
    let low = (n / 2.0 - half).floor().max(0.0) as usize;
    let high = ((n / 2.0 + half).ceil() as usize).min(sorted.len() - 1);
    let interval = Interval::new(sorted[low], sorted[high]);
    Some((middle, interval.filter(|_| values.len() >= FEWEST_BLOCKS)))
}

/// P-value of the exact two-sided Mann-Whitney U test (Mann and Whitney, 1947): of all ways to
/// divide the pooled ranks, the share whose rank sum is at least as far from the mean. Ties get the
/// mean of their ranks. 1 if one side is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let mut pooled: Vec<f64> = a.iter().chain(b).copied().collect();
    pooled.sort_by(f64::total_cmp);
    // Twice the rank, so that ties stay whole numbers.
    let rank = |value: f64| {
        let below = pooled.partition_point(|p| p.total_cmp(&value).is_lt());
        let upto = pooled.partition_point(|p| p.total_cmp(&value).is_le());
        below + upto + 1
    };
    let ranks: Vec<usize> = pooled.iter().map(|v| rank(*v)).collect();
    let observed: usize = a.iter().map(|v| rank(*v)).sum();
    let most: usize = ranks.iter().sum();
    // `ways[k][s]`: number of subsets of k of the ranks so far whose sum is s. Floating point
    // cannot overflow here, and only ratios matter.
    let mut ways = vec![vec![0.0_f64; most + 1]; a.len() + 1];
    ways[0][0] = 1.0;
    for r in &ranks {
        for k in (1..=a.len()).rev() {
            for s in (*r..=most).rev() {
                ways[k][s] += ways[k - 1][s - r];
            }
        }
    }
    let mean = a.len() as f64 * most as f64 / pooled.len() as f64;
    let distance = |sum: usize| (sum as f64 - mean).abs();
    let all: f64 = ways[a.len()].iter().sum();
    let far = ways[a.len()].iter().enumerate();
    let far: f64 = far
        .filter(|(sum, _)| distance(*sum) >= distance(observed) - 1e-9)
        .map(|(_, ways)| ways)
        .sum();
    (far / all).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked against the published tables: n = m = 5, U = 0 → p = 2/252.
    /// Promise 45.
    #[test]
    fn the_test_is_exact() {
        let low = [1.0, 2.0, 3.0, 4.0, 5.0];
        let high = [6.0, 7.0, 8.0, 9.0, 10.0];
        let p = mann_whitney(&low, &high);
        assert!((p - 2.0 / 252.0).abs() < 1e-12, "{p}");
        assert!((mann_whitney(&high, &low) - p).abs() < 1e-12);
        assert_eq!(mann_whitney(&low, &low), 1.0);
        assert_eq!(mann_whitney(&[3.0; 4], &[3.0; 4]), 1.0);
        assert_eq!(mann_whitney(&[], &low), 1.0);
        // n = 3, m = 3, U = 0 → 2/20.
        let p = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert!((p - 0.1).abs() < 1e-12, "{p}");
    }

    /// Promise 45.
    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    /// Promise 45.
    #[test]
    fn outliers_stand_beyond_the_fences() {
        // Quartiles 2 and 4: the fences are at -1 and 7.
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 7.0]), [] as [usize; 0]);
        assert_eq!(outliers(&[4.0, 7.1, 3.0, 2.0, 1.0]), [1]);
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, -1.5]), [] as [usize; 0]);
        assert_eq!(outliers(&[5.0; 5]), [] as [usize; 0]);
        assert_eq!(outliers(&[5.0, 5.0, 5.0, 5.0, 5.0, 4.9]), [5]);
        assert_eq!(outliers(&[1.0, 1.0, 1.0, 9.0]), [] as [usize; 0]);
    }

    #[test]
    fn interval_by_rank_agrees_with_resampling() {
        assert_eq!(median_interval(&[]), None);
        assert_eq!(median_interval(&[2.0]), Some((2.0, None)));
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0]), Some((2.5, None)));
        let mut random = fastrand::Rng::with_seed(3);
        let values: Vec<f64> = (0..400).map(|_| random.f64()).collect();
        let (middle, interval) = median_interval(&values).unwrap();
        let (interval, e) = (interval.unwrap(), estimate(&values, 1).unwrap());
        assert_eq!(middle, e.median);
        assert!((interval.low() - e.low().unwrap()).abs() < 0.02);
        assert!((interval.high() - e.high().unwrap()).abs() < 0.02);
    }

    /// Promise 45.
    #[test]
    fn interval_holds_the_median_and_stays_within_the_values() {
        let values = [1.0, 1.2, 0.9, 1.1, 5.0];
        let e = estimate(&values, 7).unwrap();
        assert_eq!(e.median, 1.1);
        let (low, high) = (e.low().unwrap(), e.high().unwrap());
        assert!(low <= e.median && e.median <= high);
        assert!(low >= 0.9 && high <= 5.0);
        assert_eq!(estimate(&values, 7), Some(e));
    }

    /// Promise 41.
    #[test]
    fn equal_values_and_few_values_have_no_interval() {
        let e = estimate(&[2.0; 6], 1).unwrap();
        assert_eq!((e.interval(), e.median), (None, 2.0));
        assert_eq!(estimate(&[1.0, 2.0, 3.0, 4.0], 1).unwrap().interval(), None);
        assert!(
            estimate(&[1.0, 2.0, 3.0, 4.0, 5.0], 1)
                .unwrap()
                .interval()
                .is_some()
        );
    }

    #[test]
    fn more_values_make_it_narrower() {
        let mut random = fastrand::Rng::with_seed(3);
        let values: Vec<f64> = (0..200).map(|_| random.f64()).collect();
        let width = |n| {
            let e = estimate(&values[..n], 1).unwrap();
            e.high().unwrap() - e.low().unwrap()
        };
        assert!(width(200) < width(8));
    }
}
