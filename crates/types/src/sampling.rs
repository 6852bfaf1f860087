//! Estimates from windows: what a ledger that looks only now and then knows, and how well.
//!
//! In window k, which stands for the time p_k, a quantity was seen to grow at the rate r_k; its estimate for
//! that time is x_k = r_k·p_k. All that an interval between any two readings needs are sums over its
//! windows, which subtract like the counts themselves.

use crate::CgroupId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Sub;

/// How a ledger is kept.
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
    /// As written in records and in configurations.
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
    /// Seen in the windows, nanoseconds.
    pub seen: f64,
    /// Σ x_k, nanoseconds.
    pub sum: f64,
    /// Σ x_k², ns².
    pub squares: f64,
    /// Σ p_k·x_k, ns².
    pub products: f64,
}

impl Moments {
    /// One window, in which `seen` ns were counted and which stands for `period` ns, `scale` times its
    /// own length.
    pub fn of_window(seen: f64, period: f64, scale: f64) -> Moments {
        let sum = seen * scale;
        Moments {
            seen,
            sum,
            squares: sum * sum,
            products: period * sum,
        }
    }

    /// Adds those of other windows.
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
    /// The difference of the two.
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

/// What an accounting that may look in windows knows of its own estimates: cumulative in a snapshot, the
/// difference in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// How the ledger is kept at the (later) reading.
    pub mode: AccountingMode,
    /// Windows.
    pub windows: u64,
    /// Their length, nanoseconds.
    pub observed_ns: u64,
    /// The time that they stand for, their own included, nanoseconds: Σ p_k.
    pub estimated_ns: u64,
    /// Σ p_k², ns².
    pub period_squares: f64,
    /// By container; one that no window saw anything of may be absent.
    pub spreads: BTreeMap<CgroupId, Spread>,
}

impl Sampling {
    /// What came after `earlier`.
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

    /// Whether some of it is estimated.
    pub fn is_estimated(&self) -> bool {
        self.estimated_ns > 0
    }

    /// The 95% interval of a quantity of which `total` ns are the estimate and `moments` say how it came
    /// about, on a host of `cpus` CPUs.
    ///
    /// Windows are taken for a random sample of the time: Student's t of the rates that they saw, each
    /// weighted by the time that it stands for, less what was seen and so is certain (finite population).
    /// Never beyond what is possible: what was seen did happen, and outside the windows no more can have
    /// happened than all CPUs doing nothing else. Of a single window only that is known.
    ///
    /// Windows that resemble each other more than the time between them (traffic in step with the period)
    /// would make it too narrow; the random phase of the windows is there to prevent that. Of bursts that
    /// no window met it knows nothing.
    ///
    /// A `signed` quantity may have gone down in the time that was not seen.
    pub fn interval_95(
        &self,
        total: f64,
        moments: &Moments,
        cpus: usize,
        signed: bool,
    ) -> [f64; 2] {
        let (estimated, observed) = (self.estimated_ns as f64, self.observed_ns as f64);
        let unseen = (estimated - observed).max(0.0);
        // What was counted, in windows and while all was.
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

/// The quantile 0.975 of Student's t with `freedom` degrees of freedom, at least 1. To four digits.
fn student_975(freedom: u64) -> f64 {
    /// Of 1 to 30 degrees (Fisher and Yates, Statistical Tables, table III).
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    /// Of the normal distribution.
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
