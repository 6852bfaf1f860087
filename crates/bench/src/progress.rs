//! Progress reports of an experiment, and the flag that interrupts it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Receiver of progress: the CLI draws it, tests ignore it.
pub trait Progress {
    /// Reports that `done` of `total` steps are finished and `what` begins.
    fn step(&mut self, done: usize, total: usize, what: &str);
    /// Warns the user: of noise, or of a cell that could not be measured.
    fn warn(&mut self, text: &str);

    /// Flag of a caller that catches signals itself: set after a signal, even one before the run.
    /// `None` if the run is to catch them.
    fn interrupted(&self) -> Option<Arc<AtomicBool>> {
        None
    }
}

/// Receiver that ignores all reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentProgress;

impl Progress for SilentProgress {
    fn step(&mut self, _done: usize, _total: usize, _what: &str) {}
    fn warn(&mut self, _text: &str) {}
}
