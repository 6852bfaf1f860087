//! File whose value follows a container's debt, written through the journal.

use crate::journal::{ChangeError, Form, Journal, Target, WriteOutcome};
use crate::network::policy::{Correction, CorrectionState};
use crate::tuning::network::REFUSED_AGAIN;
use std::path::Path;
use std::time::Duration;

/// Correction of one file.
#[derive(Debug, Default)]
pub(in crate::network) struct CorrectedFile {
    pub state: CorrectionState,
    target: Option<Target>,
    refused: Option<Refusal>,
}

/// Refusal of the last write.
#[derive(Debug)]
struct Refusal {
    why: ChangeError,
    at: Duration,
}

impl CorrectedFile {
    /// Writes `value`, as `text`, into `file`. Waits for a while after a refusal.
    pub fn set(
        &mut self,
        journal: &mut Journal,
        file: &Path,
        value: f64,
        text: &str,
        now: Duration,
    ) {
        let is_fresh = |refused: &Refusal| now.saturating_sub(refused.at) < REFUSED_AGAIN;
        if self.refused.as_ref().is_some_and(is_fresh) {
            return;
        }
        let Ok(target) = Target::file(file) else {
            return;
        };
        match journal.set(&target, Form::Text, text) {
            Ok(WriteOutcome::AfterRewrite(found)) => {
                let found = found.split_whitespace().next();
                self.state.base = found.and_then(|v| v.parse().ok());
                self.refused = None;
            }
            Ok(_) => self.refused = None,
            Err(e) if e.vanished() => return,
            // The state keeps the value that the file has.
            Err(why) => return self.note_refusal(why, now),
        }
        self.state.written = Some(Correction { value, at: now });
        self.target = Some(target);
    }

    /// Records that this file, or one that depends on it, could not be written.
    pub fn note_refusal(&mut self, why: ChangeError, at: Duration) {
        self.refused = Some(Refusal { why, at });
    }

    /// Records the value found in the file. A value of another program becomes the new base.
    pub fn note_found(&mut self, found: f64) {
        let written = self.state.written.map(|written| written.value.round());
        if written != Some(found) {
            self.state.base = Some(found);
            self.state.written = None;
        }
    }

    /// Reverts the file to its owner's value.
    pub fn revert(&mut self, journal: &mut Journal) {
        self.refused = None;
        if let Some(target) = self.target.take() {
            journal.revert(&target);
        }
        self.state = CorrectionState::default();
    }

    pub fn is_corrected(&self) -> bool {
        self.state.written.is_some()
    }

    /// Whether the file's value differs from its base. A correction that is not needed at the
    /// moment writes the base.
    pub fn has_effect(&self) -> bool {
        let both = self.state.written.zip(self.state.base);
        both.is_some_and(|(written, base)| written.value.round() != base.round())
    }

    pub fn refused(&self) -> Option<&ChangeError> {
        self.refused.as_ref().map(|refused| &refused.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_to_the_base_has_no_effect() {
        let with = |value: f64| CorrectedFile {
            state: CorrectionState {
                base: Some(1024.0),
                written: Some(Correction {
                    value,
                    at: Duration::ZERO,
                }),
            },
            ..CorrectedFile::default()
        };
        assert!(!CorrectedFile::default().has_effect());
        assert!(with(900.0).has_effect() && with(900.0).is_corrected());
        assert!(!with(1024.0).has_effect() && with(1024.0).is_corrected());
    }
}
