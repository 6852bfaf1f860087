//! What was changed, undone in reverse order when dropped: also on an early return and on a
//! panic.

type Action = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// A stack of actions that undo what was done.
#[derive(Default)]
pub(crate) struct UndoStack {
    actions: Vec<(String, Action)>,
}

impl UndoStack {
    /// Adds the undoing of something just done; `what` names it should it fail.
    pub fn push(
        &mut self,
        what: impl Into<String>,
        action: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) {
        self.actions.push((what.into(), Box::new(action)));
    }
}

impl Drop for UndoStack {
    fn drop(&mut self) {
        while let Some((what, action)) = self.actions.pop() {
            // One failure must not keep the rest from being undone, and a destructor cannot
            // return it.
            if let Err(reason) = action() {
                eprintln!("cofferdam: could not revert {what}: {reason}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn undoes_in_reverse_also_on_panic_and_after_a_failure() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let inner = log.clone();
        let result = std::panic::catch_unwind(move || {
            let mut stack = UndoStack::default();
            for i in 0..3 {
                let log = inner.clone();
                stack.push(format!("step {i}"), move || {
                    log.lock().unwrap().push(i);
                    if i == 1 {
                        Err("refused".to_owned())
                    } else {
                        Ok(())
                    }
                });
            }
            panic!("midway");
        });
        assert!(result.is_err());
        assert_eq!(*log.lock().unwrap(), [2, 1, 0]);
    }
}
