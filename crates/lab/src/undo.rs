//! Stack of changes that are reverted in reverse order when it is dropped, also after an early
//! return or a panic.
//!
//! All stacks share one list of the process. So a test that exceeds its time limit can be cleaned
//! up from outside while its own thread is still stuck.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Action = Box<dyn FnOnce() -> Result<(), String> + Send>;

struct Change {
    stack: u64,
    what: String,
    revert: Action,
}

static STANDING: Mutex<Vec<Change>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Stack of actions that revert changes. Each action runs once: when the stack is dropped, or in
/// [`undo_all`] if that comes first.
#[derive(Debug)]
pub struct UndoStack(u64);

impl Default for UndoStack {
    fn default() -> UndoStack {
        UndoStack(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl UndoStack {
    /// Adds an action that reverts a change; `what` names it in case of failure. `action` must not
    /// panic and must own all that it needs.
    pub fn push<T, E: Display>(
        &mut self,
        what: impl Into<String>,
        action: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) {
        pending_changes().push(Change {
            stack: self.0,
            what: what.into(),
            revert: Box::new(|| action().map(drop).map_err(|e| e.to_string())),
        });
    }
}

impl Drop for UndoStack {
    fn drop(&mut self) {
        loop {
            let mut standing = pending_changes();
            let Some(last) = standing.iter().rposition(|change| change.stack == self.0) else {
                return;
            };
            let change = standing.remove(last);
            drop(standing);
            change.undo();
        }
    }
}

/// Reverts every remaining change of this process, newest first.
pub fn undo_all() {
    loop {
        let Some(change) = pending_changes().pop() else {
            return;
        };
        change.undo();
    }
}

impl Change {
    fn undo(self) {
        // One failure must not stop the other actions, and a destructor cannot return it.
        if let Err(reason) = (self.revert)() {
            eprintln!("cofferdam: could not revert {}: {reason}", self.what);
        }
    }
}

fn pending_changes() -> MutexGuard<'static, Vec<Change>> {
    STANDING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn undoes_in_reverse_also_on_panic_and_after_a_failure() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let inner = log.clone();
        let result = std::panic::catch_unwind(move || {
            let mut stack = UndoStack::default();
            let mut other = UndoStack::default();
            for i in 0..3 {
                let log = inner.clone();
                stack.push(format!("step {i}"), move || {
                    log.lock().unwrap().push(i);
                    if i == 1 { Err("refused") } else { Ok(()) }
                });
            }
            let log = inner.clone();
            other.push("another stack's", move || {
                log.lock().unwrap().push(9);
                Ok::<_, String>(())
            });
            panic!("midway");
        });
        assert!(result.is_err());
        assert_eq!(*log.lock().unwrap(), [9, 2, 1, 0]);
    }

    #[test]
    fn a_stack_leaves_what_another_stack_did() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let entry = |name: &'static str| {
            let log = log.clone();
            move || {
                log.lock().unwrap().push(name);
                Ok::<_, String>(())
            }
        };
        let (mut first, mut second) = (UndoStack::default(), UndoStack::default());
        first.push("a", entry("a"));
        second.push("b", entry("b"));
        first.push("c", entry("c"));
        drop(first);
        assert_eq!(*log.lock().unwrap(), ["c", "a"]);
        drop(second);
        assert_eq!(*log.lock().unwrap(), ["c", "a", "b"]);
    }
}
