//! Weights and quotas: what stands in a file, and when it is worth writing again.

use crate::tuning::network::WEIGHT_STEP;
use std::time::Duration;

/// A file whose value follows what is owed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::network) struct Standing {
    /// What it would hold without corrections.
    pub base: Option<f64>,
    /// The correction in it.
    pub written: Option<Written>,
}

/// A correction that was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::network) struct Written {
    pub value: f64,
    pub at: Duration,
}

impl Standing {
    /// Whether the correction takes more than a step away.
    pub fn is_lowered(&self) -> bool {
        let both = self.written.zip(self.base);
        both.is_some_and(|(written, base)| written.value < (1.0 - WEIGHT_STEP) * base)
    }

    /// `value` when it differs by more than `step` (relative) from what the file holds, not more
    /// often than every `interval`.
    pub fn rewrite(&self, value: f64, step: f64, interval: Duration, now: Duration) -> Option<f64> {
        let holds = self.written.map(|w| w.value).or(self.base);
        let holds = holds.unwrap_or(value);
        let small = (value - holds).abs() <= step * holds.abs().max(1.0);
        let fresh = self
            .written
            .is_some_and(|w| now.saturating_sub(w.at) < interval);
        (!small && !fresh).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_that_matter_are_written_and_not_too_often() {
        let ms = Duration::from_millis;
        let mut standing = Standing {
            base: Some(100.0),
            written: None,
        };
        let rewrite = |s: &Standing, value, at| s.rewrite(value, 0.03, ms(15), ms(at));
        assert_eq!(rewrite(&standing, 98.0, 0), None);
        assert_eq!(rewrite(&standing, 90.0, 0), Some(90.0));
        standing.written = Some(Written {
            value: 90.0,
            at: ms(0),
        });
        assert_eq!(rewrite(&standing, 80.0, 10), None);
        assert_eq!(rewrite(&standing, 80.0, 15), Some(80.0));
        assert_eq!(rewrite(&standing, 88.0, 15), None);
    }
}
