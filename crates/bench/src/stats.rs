//! Medians and bootstrap intervals.

use crate::data::Estimate;

/// Resamples for an interval: its ends move by less than a percent of its width from one seed
/// to the next.
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

/// Positions of the values beyond one and a half interquartile ranges from the quartiles
/// (Tukey, 1977; quartiles interpolated). None of fewer than five values: their quartiles say
/// nothing.
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
/// interval. With five values it is about their range: more pairs make it narrower. `None`
/// when empty.
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
    Some(Estimate {
        median: median_of_all,
        low: quantile(&medians, 0.025),
        high: quantile(&medians, 0.975),
        values: values.to_vec(),
    })
}

/// Low end, median and high end of the median's 95% interval by order statistics (the ranks
/// n/2 ± 0.98·√n, clamped): for hundreds of values, where resampling costs seconds. `None` when
/// empty.
pub fn median_interval(values: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = median_of_sorted(&sorted)?;
    let (n, half) = (sorted.len() as f64, 0.98 * (sorted.len() as f64).sqrt());
    let low = (n / 2.0 - half).floor().max(0.0) as usize;
    let high = ((n / 2.0 + half).ceil() as usize).min(sorted.len() - 1);
    Some([sorted[low], middle, sorted[high]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

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
        assert_eq!(median_interval(&[2.0]), Some([2.0; 3]));
        let mut random = fastrand::Rng::with_seed(3);
        let values: Vec<f64> = (0..400).map(|_| random.f64()).collect();
        let [low, middle, high] = median_interval(&values).unwrap();
        let e = estimate(&values, 1).unwrap();
        assert_eq!(middle, e.median);
        assert!((low - e.low).abs() < 0.02 && (high - e.high).abs() < 0.02);
    }

    #[test]
    fn interval_holds_the_median_and_stays_within_the_values() {
        let values = [1.0, 1.2, 0.9, 1.1, 5.0];
        let e = estimate(&values, 7).unwrap();
        assert_eq!(e.median, 1.1);
        assert!(e.low <= e.median && e.median <= e.high);
        assert!(e.low >= 0.9 && e.high <= 5.0);
        assert_eq!(estimate(&values, 7), Some(e));
    }

    #[test]
    fn equal_values_have_no_width() {
        let e = estimate(&[2.0; 6], 1).unwrap();
        assert_eq!((e.low, e.median, e.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn more_values_make_it_narrower() {
        let mut random = fastrand::Rng::with_seed(3);
        let values: Vec<f64> = (0..200).map(|_| random.f64()).collect();
        let width = |n| {
            let e = estimate(&values[..n], 1).unwrap();
            e.high - e.low
        };
        assert!(width(200) < width(8));
    }
}
