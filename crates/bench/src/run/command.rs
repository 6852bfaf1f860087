//! Benchmark as the command line calls it.

use crate::error::BenchError;
use crate::progress::Progress;
use crate::rundir::RunDir;

/// Answer of a benchmark.
#[derive(Debug)]
pub enum Answer {
    /// Finished run, in its directory.
    Run(Box<RunDir>),
    /// Text for standard output; nothing was measured.
    Text(String),
}

impl Answer {
    pub(crate) fn run(dir: RunDir) -> Answer {
        Answer::Run(Box::new(dir))
    }
}

/// Options of a benchmark on the command line.
pub(crate) trait Bench {
    /// Runs the benchmark with these options.
    fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError>;
}
