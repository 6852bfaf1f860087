//! Whether this thread runs code of the library: its own calls go to the kernel.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Until it is dropped, calls of this thread are the library's own.
pub struct Inside(());

impl Inside {
    /// None when this thread is inside already.
    pub fn enter() -> Option<Inside> {
        if IS_OFF.load(Ordering::Relaxed) {
            return None;
        }
        let was = INSIDE.try_with(|inside| inside.replace(true));
        // A thread that ends has no such value any more: its calls are the kernel's.
        (was == Ok(false)).then(|| Inside(()))
    }
}

/// Whether this thread is inside: when it forks, a handler of a signal does, which has interrupted the
/// library.
pub fn is_inside() -> bool {
    INSIDE.try_with(Cell::get) == Ok(true)
}

/// All calls of this process are the kernel's from now on.
pub fn switch_off() {
    IS_OFF.store(true, Ordering::Relaxed);
}

/// Runs `body`, which only waits, as the program's own: the handler of a signal that comes meanwhile
/// may exit, close and accept.
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
