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

    pub fn refused(&self) -> Option<&ChangeError> {
        self.refused.as_ref()
    }
}
