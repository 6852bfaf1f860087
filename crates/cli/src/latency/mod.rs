//! `cofferdam latency …`

pub mod args;
mod record;
pub mod schema;
mod session;
mod text;

use crate::exit::Outcome;
use crate::interrupt::Interrupt;
use args::LatencyCommand;

/// Runs one of the commands.
pub fn run(command: LatencyCommand, interrupt: &Interrupt) -> Outcome {
    match command {
        LatencyCommand::Record(args) => record::run(&args, interrupt),
    }
}
