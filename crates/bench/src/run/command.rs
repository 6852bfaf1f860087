//! A benchmark as the command line calls it.

use crate::error::BenchError;
use crate::progress::Progress;
use crate::rundir::RunDir;

/// What a benchmark gives.
#[derive(Debug)]
pub enum Answer {
    /// A run, in its directory.
    Run(Box<RunDir>),
    /// A text for standard output; nothing was measured.
    Text(String),
}

impl Answer {
    pub(crate) fn run(dir: RunDir) -> Answer {
        Answer::Run(Box::new(dir))
    }
}

/// The options of a benchmark on the command line.
pub(crate) trait Bench {
    /// Does what they say.
    fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError>;
}
