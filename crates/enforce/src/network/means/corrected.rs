//! A file whose value follows what is owed, written through the journal.

use crate::journal::{ChangeError, Form, Journal, Target, Written as Outcome};
use crate::network::policy::{Standing, Written};
use std::path::Path;
use std::time::Duration;

/// What of it is ours.
#[derive(Debug, Default)]
pub(in crate::network) struct Corrected {
    pub standing: Standing,
    target: Option<Target>,
    /// The last refusal.
    refused: Option<ChangeError>,
}

impl Corrected {
    /// Writes `value`, as `text`, into `file`.
    pub fn set(
        &mut self,
        journal: &mut Journal,
        file: &Path,
        value: f64,
        text: &str,
        now: Duration,
    ) {
        let Ok(target) = Target::file(file) else {
            return;
        };
        match journal.set(&target, Form::Text, text) {
            Ok(Outcome::AfterRewrite(found)) => {
                let found = found.split_whitespace().next();
                self.standing.base = found.and_then(|v| v.parse().ok());
                self.refused = None;
            }
            Ok(_) => self.refused = None,
            Err(e) if e.vanished() => return,
            Err(e) => self.refused = Some(e),
        }
        self.standing.written = Some(Written { value, at: now });
        self.target = Some(target);
    }

    /// Puts the file back.
    pub fn restore(&mut self, journal: &mut Journal) {
        if let Some(target) = self.target.take() {
            journal.undo(&target);
        }
        self.standing = Standing::default();
    }

    pub fn is_corrected(&self) -> bool {
        self.standing.written.is_some()
    }

    /// Whether what stands in the file is another value than it would hold without us: a correction that is
    /// not needed at the moment is written back to that.
    pub fn has_effect(&self) -> bool {
        let both = self.standing.written.zip(self.standing.base);
        both.is_some_and(|(written, base)| written.value.round() != base.round())
    }

    pub fn refused(&self) -> Option<&ChangeError> {
        self.refused.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_was_written_back_has_no_effect() {
        let with = |value: f64| Corrected {
            standing: Standing {
                base: Some(1024.0),
                written: Some(Written {
                    value,
                    at: Duration::ZERO,
                }),
            },
            ..Corrected::default()
        };
        assert!(!Corrected::default().has_effect());
        assert!(with(900.0).has_effect() && with(900.0).is_corrected());
        assert!(!with(1024.0).has_effect() && with(1024.0).is_corrected());
    }
}
