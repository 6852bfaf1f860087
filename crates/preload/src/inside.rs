//! Whether this thread runs code of the library: its own calls go to the kernel.

use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Until it is dropped, calls of this thread are the library's own.
pub struct Inside(());

impl Inside {
    /// None when this thread is inside already.
    pub fn enter() -> Option<Inside> {
        let was = INSIDE.try_with(|inside| inside.replace(true));
        // A thread that ends has no such value any more: its calls are the kernel's.
        (was == Ok(false)).then(|| Inside(()))
    }
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
