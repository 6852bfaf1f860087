//! Moves threads between cgroups without holding up the control loop: the kernel waits for a
//! grace period at each move, a tenth of a second in all.

use crate::journal::{ChangeError, Journal, Pending};
use std::io;
use std::thread::JoinHandle;

/// Moves that a thread of our own makes, one after the other. They are in the journal already.
#[derive(Debug)]
pub(super) struct Moving {
    moves: Vec<Pending>,
    mover: Option<JoinHandle<Vec<io::Result<()>>>>,
}

impl Moving {
    /// Begins.
    pub fn start(moves: Vec<Pending>) -> Moving {
        let theirs = moves.clone();
        let mover = std::thread::Builder::new()
            .name("cofferdam-move".to_owned())
            .spawn(move || all(&theirs));
        Moving {
            moves,
            mover: mover.ok(),
        }
    }

    /// Whether [`Moving::finish`] would not wait.
    pub fn is_done(&self) -> bool {
        self.mover.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the moves, and notes what became of them. Returns the first error.
    pub fn finish(self, journal: &mut Journal) -> Result<(), ChangeError> {
        let results = match self.mover {
            Some(mover) => mover.join().unwrap_or_default(),
            // No thread to be had: here, then.
            None => all(&self.moves),
        };
        let mut outcome = Ok(());
        let missing = || Err(io::Error::from(io::ErrorKind::Interrupted));
        let results = results.into_iter().chain(std::iter::repeat_with(missing));
        for (pending, result) in self.moves.iter().zip(results) {
            let finished = journal.finish(pending, result);
            outcome = outcome.and(finished);
        }
        outcome
    }
}

/// Makes the moves until one fails.
fn all(moves: &[Pending]) -> Vec<io::Result<()>> {
    let mut results = Vec::with_capacity(moves.len());
    for pending in moves {
        let result = pending.write();
        let failed = result.is_err();
        results.push(result);
        if failed {
            break;
        }
    }
    results
}
