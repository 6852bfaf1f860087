//! What has to be undone, newest last.
//!
//! The list is global so that a test which runs into its time limit can be cleaned up from
//! outside while its own thread is still stuck.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

type Action = Box<dyn FnOnce() + Send>;

static STACK: Mutex<Vec<(u64, Action)>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Runs its action once: when dropped, or when [`run_all`] comes first.
#[derive(Debug)]
pub(crate) struct Undo(u64);

impl Undo {
    /// `action` must not panic and must own all that it needs.
    pub(crate) fn new(action: impl FnOnce() + Send + 'static) -> Undo {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        lock().push((id, Box::new(action)));
        Undo(id)
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let action = {
            let mut stack = lock();
            let at = stack.iter().position(|(id, _)| *id == self.0);
            at.map(|i| stack.remove(i).1)
        };
        if let Some(action) = action {
            action();
        }
    }
}

/// Undoes everything that still stands, newest first.
pub(crate) fn run_all() {
    loop {
        let Some((_, action)) = lock().pop() else {
            return;
        };
        action();
    }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<(u64, Action)>> {
    STACK
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
