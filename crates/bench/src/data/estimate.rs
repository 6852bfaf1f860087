//! Median with its confidence interval.

use serde::{Deserialize, Serialize};

/// Fewest blocks (pairs, rounds, repetitions) that give an interval. With five, the range holds the
/// median with a probability near 95%: 1 − 2 · (1/2)⁵ = 94%.
pub const FEWEST_BLOCKS: usize = 5;

/// 95% interval of a median. Both ends are finite, and `low` is less than `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    low: f64,
    high: f64,
}

impl Interval {
    /// Interval from `low` to `high`; `None` if it has no width. Blocks with equal values show the
    /// resolution of the measurement, not its certainty.
    pub fn new(low: f64, high: f64) -> Option<Interval> {
        (low.is_finite() && high.is_finite() && low < high).then_some(Interval { low, high })
    }

    /// Lower end.
    pub fn low(self) -> f64 {
        self.low
    }

    /// Upper end.
    pub fn high(self) -> f64 {
        self.high
    }

    /// Whether `value` lies within the interval, ends included.
    pub fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Whether it shares a value with `other`.
    pub fn overlaps(self, other: Interval) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Applies `change` to each end; `change` must be monotonic.
    pub fn map(self, change: impl Fn(f64) -> f64) -> Option<Interval> {
        let (one, other) = (change(self.low), change(self.high));
        Interval::new(one.min(other), one.max(other))
    }
}

/// Median with its bootstrap interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredEstimate", into = "StoredEstimate")]
pub struct Estimate {
    /// Median of `values`.
    pub median: f64,
    /// Values in the order of measurement.
    pub values: Vec<f64>,
    interval: Option<Interval>,
}

impl Estimate {
    /// Estimate of `values`, one a block. Drops an interval of fewer than [`FEWEST_BLOCKS`] values.
    pub fn new(median: f64, interval: Option<Interval>, values: Vec<f64>) -> Estimate {
        Estimate {
            median,
            interval: interval.filter(|_| values.len() >= FEWEST_BLOCKS),
            values,
        }
    }

    /// 95% percentile-bootstrap interval of the median; `None` if the values do not give one.
    pub fn interval(&self) -> Option<Interval> {
        self.interval
    }

    /// Lower end of the interval.
    pub fn low(&self) -> Option<f64> {
        self.interval.map(Interval::low)
    }

    /// Upper end of the interval.
    pub fn high(&self) -> Option<f64> {
        self.interval.map(Interval::high)
    }

    /// Number of measured blocks.
    pub fn blocks(&self) -> usize {
        self.values.len()
    }

    /// Applies `change` to median, interval and values; `change` must be monotonic.
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Estimate {
        Estimate {
            median: change(self.median),
            interval: self.interval.and_then(|i| i.map(&change)),
            values: self.values.iter().map(|v| change(*v)).collect(),
        }
    }
}

/// Form of an estimate in `result.json`. Schema 1 stored an interval for any number of blocks; the
/// reader drops those of too few blocks.
#[derive(Serialize, Deserialize)]
struct StoredEstimate {
    median: f64,
    low: Option<f64>,
    high: Option<f64>,
    values: Vec<f64>,
}

impl From<StoredEstimate> for Estimate {
    fn from(stored: StoredEstimate) -> Estimate {
        let ends = stored.low.zip(stored.high);
        let interval = ends.and_then(|(low, high)| Interval::new(low, high));
        Estimate::new(stored.median, interval, stored.values)
    }
}

impl From<Estimate> for StoredEstimate {
    fn from(e: Estimate) -> StoredEstimate {
        StoredEstimate {
            median: e.median,
            low: e.low(),
            high: e.high(),
            values: e.values,
        }
    }
}

impl cofferdam_page::chart::Spread for Estimate {
    fn values(&self) -> &[f64] {
        &self.values
    }

    fn median(&self) -> f64 {
        self.median
    }

    fn interval(&self) -> Option<(f64, f64)> {
        self.interval().map(|i| (i.low(), i.high()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 41.
    #[test]
    fn an_interval_needs_five_blocks_and_a_width() {
        let of = |n: usize, low, high| Estimate::new(2.0, Interval::new(low, high), vec![2.0; n]);
        assert_eq!(of(4, 1.0, 3.0).interval(), None);
        assert_eq!(of(5, 1.0, 3.0).low(), Some(1.0));
        assert_eq!(of(9, 32.8, 32.8).interval(), None);
        assert_eq!(of(9, 1.0, f64::NAN).interval(), None);
        assert_eq!(of(9, f64::NEG_INFINITY, 1.0).interval(), None);
    }

    /// Promise 41.
    #[test]
    fn schema_1_intervals_with_too_few_blocks_are_dropped() {
        let read = |text: &str| serde_json::from_str::<Estimate>(text).unwrap();
        let one = read(r#"{"median":32.8,"low":32.8,"high":32.8,"values":[32.8]}"#);
        assert_eq!((one.median, one.interval(), one.blocks()), (32.8, None, 1));
        let five = read(r#"{"median":3,"low":1,"high":5,"values":[1,2,3,4,5]}"#);
        assert_eq!(five.interval(), Interval::new(1.0, 5.0));
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(
            text,
            r#"{"median":32.8,"low":null,"high":null,"values":[32.8]}"#
        );
        assert_eq!(read(&serde_json::to_string(&five).unwrap()), five);
    }

    #[test]
    fn a_falling_change_keeps_the_ends_in_order() {
        let five = Estimate::new(3.0, Interval::new(1.0, 5.0), vec![1.0, 2.0, 3.0, 4.0, 5.0]);
        let remaining = five.map(|loss| 100.0 - loss);
        assert_eq!(
            (remaining.low(), remaining.median, remaining.high()),
            (Some(95.0), 97.0, Some(99.0))
        );
        assert!(
            five.interval()
                .is_some_and(|i| i.holds(1.0) && !i.holds(5.1))
        );
    }
}
