//! Estimates from windows, and their precision, for a ledger that measures only in windows.
//!
//! Window k stands for the time p_k. In it a quantity grew at the rate r_k; the estimate for that
//! time is x_k = r_k·p_k. An interval between any two readings needs only sums over its windows,
//! and these subtract like the counts themselves.

use crate::CgroupId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Sub;

/// Way in which the accounting measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountingMode {
    /// Everything is measured.
    #[default]
    Exact,
    /// Measured in windows; the time between them is estimated.
    Sampled,
}

impl AccountingMode {
    /// Spelling in records and in configurations.
    pub fn label(self) -> &'static str {
        match self {
            AccountingMode::Exact => "exact",
            AccountingMode::Sampled => "sampled",
        }
    }
}

/// Sums over windows of one quantity of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// Time measured in the windows, nanoseconds.
    pub seen: f64,
    /// Σ x_k, nanoseconds.
    pub sum: f64,
    /// Σ x_k², ns².
    pub squares: f64,
    /// Σ p_k·x_k, ns².
    pub products: f64,
}

impl Moments {
    /// Moments of one window, in which `seen` ns were counted. It stands for `period` ns, which is
    /// `scale` times its own length.
    pub fn of_window(seen: f64, period: f64, scale: f64) -> Moments {
        let sum = seen * scale;
        Moments {
            seen,
            sum,
            squares: sum * sum,
            products: period * sum,
        }
    }

    /// Adds the moments of other windows.
    pub fn add(&mut self, other: Moments) {
        self.seen += other.seen;
        self.sum += other.sum;
        self.squares += other.squares;
        self.products += other.products;
    }
}

impl Sub for Moments {
    type Output = Moments;
    fn sub(self, earlier: Moments) -> Moments {
        Moments {
            seen: self.seen - earlier.seen,
            sum: self.sum - earlier.sum,
            squares: self.squares - earlier.squares,
            products: self.products - earlier.products,
        }
    }
}

/// The uncertain quantities of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Network CPU caused.
    pub caused: Moments,
    /// Network CPU charged.
    pub charged: Moments,
    /// Network CPU owed: caused − charged.
    pub owed: Moments,
}

impl Sub for Spread {
    type Output = Spread;
    fn sub(self, earlier: Spread) -> Spread {
        Spread {
            caused: self.caused - earlier.caused,
            charged: self.charged - earlier.charged,
            owed: self.owed - earlier.owed,
        }
    }
}

/// Precision of the estimates of an accounting that may measure in windows.
///
/// Cumulative in a snapshot; the difference in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Mode of the accounting at the (later) reading.
    pub mode: AccountingMode,
    /// Number of windows.
    pub windows: u64,
    /// Total length of the windows, nanoseconds.
    pub observed_ns: u64,
    /// Time that the windows stand for, their own length included, nanoseconds: Σ p_k.
    pub estimated_ns: u64,
    /// Σ p_k², ns².
    pub period_squares: f64,
    /// Spread of each container. A container that appeared in no window may be absent.
    pub spreads: BTreeMap<CgroupId, Spread>,
}

impl Sampling {
    /// Difference between this reading and `earlier`.
    pub fn since(&self, earlier: Option<&Sampling>) -> Sampling {
        let none = Sampling::default();
        let earlier = earlier.unwrap_or(&none);
        let spreads = self.spreads.iter().map(|(id, spread)| {
            let before = earlier.spreads.get(id).copied().unwrap_or_default();
            (*id, *spread - before)
        });
        Sampling {
            mode: self.mode,
            windows: self.windows.saturating_sub(earlier.windows),
            observed_ns: self.observed_ns.saturating_sub(earlier.observed_ns),
            estimated_ns: self.estimated_ns.saturating_sub(earlier.estimated_ns),
            period_squares: (self.period_squares - earlier.period_squares).max(0.0),
            spreads: spreads.collect(),
        }
    }

    /// Whether a part of the interval is estimated.
    pub fn is_estimated(&self) -> bool {
        self.estimated_ns > 0
    }

    /// The 95% interval of a quantity on a host of `cpus` CPUs. `total` is its estimate, ns, and
    /// `moments` are the sums over the windows that it was estimated from.
    ///
    /// The windows are assumed to be a random sample of the time. The half width is Student's t of
    /// their rates, each weighted by the time that it stands for, without the time that was
    /// measured and is certain (finite population). The interval is cut to what is possible: the
    /// measured part did happen, and outside the windows at most all CPUs did nothing else. With
    /// fewer than two windows the result is this possible range.
    ///
    /// The interval is too narrow if windows resemble each other more than the time between them,
    /// as with traffic in step with the period; therefore windows have a random phase. It does not
    /// cover bursts that no window met.
    ///
    /// A `signed` quantity may have decreased in the time that was not measured.
    pub fn interval_95(
        &self,
        total: f64,
        moments: &Moments,
        cpus: usize,
        signed: bool,
    ) -> [f64; 2] {
        let (estimated, observed) = (self.estimated_ns as f64, self.observed_ns as f64);
        let unseen = (estimated - observed).max(0.0);
        // Counted in windows, and while everything was counted.
        let certain = total - moments.sum + moments.seen;
        let most = unseen * cpus as f64;
        let low = if signed { certain - most } else { certain };
        let possible = [low, certain + most];
        if estimated <= 0.0 {
            return [total, total];
        }
        if self.windows < 2 {
            return possible;
        }
        let windows = self.windows as f64;
        let rate = moments.sum / estimated;
        // Σ (x_k − rate·p_k)²
        let errors =
            moments.squares - 2.0 * rate * moments.products + rate * rate * self.period_squares;
        let variance = windows / (windows - 1.0) * errors.max(0.0) * unseen / estimated;
        let half = student_975(self.windows - 1) * variance.sqrt();
        [total - half, total + half].map(|end| end.clamp(possible[0], possible[1]))
    }
}

/// Quantile 0.975 of Student's t with `freedom` degrees of freedom, at least 1. To four digits.
fn student_975(freedom: u64) -> f64 {
    /// Quantiles for 1 to 30 degrees (Fisher and Yates, Statistical Tables, table III).
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    /// Quantile of the normal distribution.
    const NORMAL: f64 = 1.959_964;
    let at = usize::try_from(freedom.saturating_sub(1)).unwrap_or(usize::MAX);
    TABLE.get(at).copied().unwrap_or_else(|| {
        // Two terms of Cornish and Fisher's expansion.
        let (z, n) = (NORMAL, freedom as f64);
        let second = 5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z;
        z + (z.powi(3) + z) / (4.0 * n) + second / (96.0 * n * n)
    })
}

#[cfg(test)]
mod tests;
