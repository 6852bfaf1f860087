//! fork: the child has the program's ends of its parent's sockets, and the parent's pump serves
//! them. A session of its own comes with the child's first own listener or connection.
//!
//! A handler of a signal may fork as well. While the thread waits, that is a fork as any other; where the
//! handler has interrupted other work of the library, the child's calls are the kernel's.

use crate::inside::{self, Inside};
use crate::{internal, process, table};
use std::cell::UnsafeCell;

struct Slot(UnsafeCell<Option<(process::Held, table::Held, internal::Held)>>);

// SAFETY: only used by the handlers of a fork, which the C library runs one fork at a time.
unsafe impl Sync for Slot {}

static HELD: Slot = Slot(UnsafeCell::new(None));

extern "C" fn prepare() {
    if inside::is_inside() {
        // The thread may hold these locks itself.
        return;
    }
    let held = (process::hold(), table::hold(), internal::hold());
    // SAFETY: see `Slot`.
    unsafe { *HELD.0.get() = Some(held) };
}

extern "C" fn parent() {
    // SAFETY: see `Slot`.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn child() {
    // SAFETY: see `Slot`; the child has one thread.
    let held = unsafe { (*HELD.0.get()).take() };
    process::owns();
    // What is closed here is the library's, whose descriptors are not the program's to close.
    let _inside = Inside::enter();
    if let Some((pump, table, internal)) = held {
        drop((table, internal));
        pump.drop_in_child();
        internal::forget_all();
        table::is_elsewhere();
    } else {
        // What its parent was doing is half done here, and is nobody's to continue.
        inside::switch_off();
        process::forget();
    }
}

/// Called once when the library is loaded.
pub fn install() {
    // SAFETY: the handlers live as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
