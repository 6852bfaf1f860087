//! fork: the child has the program's ends of its parent's sockets, and the parent's pump serves
//! them. The child attaches its own session with its first listener or connection.
//!
//! A signal handler may fork too. While the thread waits, this is an ordinary fork. If the handler
//! has interrupted other work of the library, the child's calls go to the kernel.

use crate::inside::{self, Inside};
use crate::{internal, process, table};
use std::cell::UnsafeCell;

type ForkLocks = (
    process::PumpLock,
    table::TableLock,
    internal::DescriptorLock,
);

struct Slot(UnsafeCell<Option<ForkLocks>>);

// SAFETY: only the fork handlers use it, and the C library runs them for one fork at a time.
unsafe impl Sync for Slot {}

static LOCKS: Slot = Slot(UnsafeCell::new(None));

extern "C" fn prepare() {
    if inside::is_inside() {
        // This thread may already have these locks.
        return;
    }
    let locks = (process::hold(), table::hold(), internal::hold());
    // SAFETY: see `Slot`.
    unsafe { *LOCKS.0.get() = Some(locks) };
}

extern "C" fn parent() {
    // SAFETY: see `Slot`.
    drop(unsafe { (*LOCKS.0.get()).take() });
}

extern "C" fn child() {
    // SAFETY: see `Slot`; the child has one thread.
    let locks = unsafe { (*LOCKS.0.get()).take() };
    process::claim_memory();
    // The program must not close the library's descriptors, so the child is inside here.
    let _inside = Inside::enter();
    if let Some((pump, table, internal)) = locks {
        drop((table, internal));
        pump.drop_in_child();
        internal::forget_all();
        table::mark_inherited();
    } else {
        // The parent's operation is incomplete in the child, which cannot continue it.
        inside::switch_off();
        process::forget();
    }
}

/// Installs the handlers when the library is loaded.
pub fn install() {
    // SAFETY: the handlers live as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
