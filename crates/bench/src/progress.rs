//! What an experiment reports while it runs, and whether it shall go on.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Receives progress; the CLI draws it, tests ignore it.
pub trait Progress {
    /// `done` of `total` steps are finished; `what` begins now.
    fn step(&mut self, done: usize, total: usize, what: &str);
    /// Something the user should know: noise, a cell that could not be measured.
    fn warn(&mut self, text: &str);

    /// The flag of a caller that catches signals itself: set once one has come, also before the run
    /// began. `None`: the run catches them.
    fn interrupted(&self) -> Option<Arc<AtomicBool>> {
        None
    }
}

/// Reports to nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&mut self, _done: usize, _total: usize, _what: &str) {}
    fn warn(&mut self, _text: &str) {}
}
