//! State of a thread that runs code of the library ("inside"): its own calls go to the kernel.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Guard during which the calls of this thread are the library's own.
pub struct Inside(());

impl Inside {
    /// Enters the library. Returns `None` if the thread is already inside.
    pub fn enter() -> Option<Inside> {
        if IS_OFF.load(Ordering::Relaxed) {
            return None;
        }
        let was = INSIDE.try_with(|inside| inside.replace(true));
        // The value is gone when a thread ends: its calls go to the kernel.
        (was == Ok(false)).then(|| Inside(()))
    }
}

/// Whether this thread is inside. At a fork this means that a signal handler has interrupted the
/// library.
pub fn is_inside() -> bool {
    INSIDE.try_with(Cell::get) == Ok(true)
}

/// Sends all calls of this process to the kernel from now on.
pub fn switch_off() {
    IS_OFF.store(true, Ordering::Relaxed);
}

/// Runs `body`, which only waits, outside of the library: a signal handler that runs meanwhile may
/// exit, close and accept.
pub fn outside<T>(body: impl FnOnce() -> T) -> T {
    let _ = INSIDE.try_with(|inside| inside.set(false));
    let result = body();
    let _ = INSIDE.try_with(|inside| inside.set(true));
    result
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}
