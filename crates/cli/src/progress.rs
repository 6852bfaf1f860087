//! Progress on standard error, only when that is a terminal.

use std::io::{IsTerminal, Write, stderr};

/// Line of progress that is overwritten in place, and removed at the end.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    active: bool,
}

impl Progress {
    /// Creates the line. It is visible only if `wanted` and standard error is a terminal.
    pub fn new(wanted: bool) -> Progress {
        Progress {
            shown: false,
            active: wanted && stderr().is_terminal(),
        }
    }

    /// Replaces the line.
    pub fn show(&mut self, text: &str) {
        if self.active {
            // Errors are ignored: progress is not the result.
            let _ = write!(stderr(), "\r\x1b[K{}", crate::exit::one_line(text));
            let _ = stderr().flush();
            self.shown = true;
        }
    }

    /// Writes a line that stays, whether or not progress is visible.
    pub fn note(&mut self, text: &str) {
        self.clear();
        let _ = writeln!(stderr(), "{text}");
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[K");
            let _ = stderr().flush();
            self.shown = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
