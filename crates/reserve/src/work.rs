//! Step counter of inner loops, so that tests can bound the planner's cost without a clock.

use std::cell::Cell;
use std::rc::Rc;

/// Counter that all copies of a state share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work(Rc<Cell<u64>>);

impl Work {
    pub fn add(&self, steps: usize) {
        self.0.set(self.0.get().saturating_add(steps as u64));
    }

    #[cfg(test)]
    pub fn steps(&self) -> u64 {
        self.0.get()
    }
}
