//! `cofferdam latency …`

pub mod args;
mod client;
mod ping;
mod record;
pub mod schema;
mod serve;
mod session;
mod text;
mod watch;

use crate::exit::Outcome;
use crate::interrupt::Interrupt;
use args::LatencyCommand;

/// Runs one of the commands.
pub fn run(command: LatencyCommand, interrupt: &Interrupt) -> Outcome {
    match command {
        LatencyCommand::Record(args) => record::run(&args, interrupt),
        LatencyCommand::Watch(args) => watch::run(&args, interrupt),
        LatencyCommand::Ping(args) => ping::run(&args, interrupt),
        LatencyCommand::Serve(args) => serve::run(&args, interrupt),
        LatencyCommand::On(args) => client::on(&args),
        LatencyCommand::Off(args) => client::off(&args),
        LatencyCommand::Read(args) => client::read(&args, interrupt),
    }
}
