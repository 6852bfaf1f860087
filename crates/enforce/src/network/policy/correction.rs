//! Corrections of weights and quotas: the value in the file, and when a new one is worth a write.

use crate::tuning::network::WEIGHT_STEP;
use std::time::Duration;

/// Weight or quota file whose value follows the container's debt.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::network) struct CorrectionState {
    /// Value without corrections.
    pub base: Option<f64>,
    /// Correction in the file, if any.
    pub written: Option<Correction>,
}

/// Value that was written, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::network) struct Correction {
    pub value: f64,
    pub at: Duration,
}

impl CorrectionState {
    /// Whether the correction lowers the value by more than a step.
    pub fn is_lowered(&self) -> bool {
        let both = self.written.zip(self.base);
        both.is_some_and(|(written, base)| written.value < (1.0 - WEIGHT_STEP) * base)
    }

    /// Returns `value` if it differs from the file's by more than `step` (relative). At most one
    /// write per `interval`.
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
        let mut state = CorrectionState {
            base: Some(100.0),
            written: None,
        };
        let rewrite = |s: &CorrectionState, value, at| s.rewrite(value, 0.03, ms(15), ms(at));
        assert_eq!(rewrite(&state, 98.0, 0), None);
        assert_eq!(rewrite(&state, 90.0, 0), Some(90.0));
        state.written = Some(Correction {
            value: 90.0,
            at: ms(0),
        });
        assert_eq!(rewrite(&state, 80.0, 10), None);
        assert_eq!(rewrite(&state, 80.0, 15), Some(80.0));
        assert_eq!(rewrite(&state, 88.0, 15), None);
    }
}
