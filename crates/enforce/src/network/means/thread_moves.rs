//! Moves of threads between cgroups without stalling the control loop: the kernel waits for a grace
//! period at each move, 0.1 s in all.

use crate::journal::{ChangeError, Journal, Pending};
use std::io;
use std::thread::JoinHandle;

/// Moves that a thread of ours makes one after the other. The journal already has them.
#[derive(Debug)]
pub(super) struct ThreadMoves {
    moves: Vec<Pending>,
    mover: Option<JoinHandle<Vec<io::Result<()>>>>,
}

impl ThreadMoves {
    /// Starts the moves.
    pub fn start(moves: Vec<Pending>) -> ThreadMoves {
        let copies = moves.clone();
        let mover = std::thread::Builder::new()
            .name("cofferdam-move".to_owned())
            .spawn(move || move_all(&copies));
        ThreadMoves {
            moves,
            mover: mover.ok(),
        }
    }

    /// Whether [`ThreadMoves::finish`] would return at once.
    pub fn is_done(&self) -> bool {
        self.mover.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the moves and records their results. Returns the first error.
    pub fn finish(self, journal: &mut Journal) -> Result<(), ChangeError> {
        let results = match self.mover {
            Some(mover) => mover.join().unwrap_or_default(),
            // No thread could be started: the moves happen here.
            None => move_all(&self.moves),
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
fn move_all(moves: &[Pending]) -> Vec<io::Result<()>> {
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
