//! Progress on standard error: only when it is a terminal.

use std::io::{IsTerminal, Write, stderr};

/// One line that is written over itself, and taken away at the end.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    active: bool,
}

impl Progress {
    /// Shows progress when standard error is a terminal and `wanted`.
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

    /// Writes a line that stays, whether or not progress is shown.
    pub fn note(&mut self, text: &str) {
        self.clear();
        let _ = writeln!(stderr(), "{text}");
    }

    /// Takes the line away.
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
