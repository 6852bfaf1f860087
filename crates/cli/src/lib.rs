//! The `cofferdam` command: reads the command line, calls the crates that do the work, and prints
//! their results.
#![forbid(unsafe_code)]

mod agent;
mod args;
mod bench;
mod busiest;
mod cluster;
mod dataplane;
mod device_plugin;
mod diagnosis;
mod doctor;
mod events;
mod exit;
mod explain;
mod export;
#[cfg(test)]
mod fixture;
mod fleet;
mod flows;
mod gateway;
mod generate;
mod headline;
mod here;
mod history_file;
mod interrupt;
mod latency;
mod output;
mod progress;
mod record;
mod rule;
pub mod schema;
mod selection;
mod simulate;
mod source;
mod state;
mod status;
mod table;
mod text;
mod top;
mod units;
mod view;
mod web;
mod when;

use args::{AccountingCommand, Cli, Command};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use exit::{Failure, Outcome, one_line};
use interrupt::Interrupt;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Definition of the command line, for manual pages, completions and checks of the documentation.
pub fn command() -> clap::Command {
    Cli::definition(HELP_COLUMNS)
}

/// Width of help where the terminal's is unknown, columns.
const HELP_COLUMNS: u16 = 80;
/// Widest help, columns: longer lines are hard to read.
const MOST_HELP_COLUMNS: u16 = 100;

/// Commit that this program was built from, where the build knew it.
const BUILT_FROM: Option<&str> = option_env!("COFFERDAM_BUILT_FROM");

/// Runs the command line `words` (program name first) to its end.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    cofferdam_bench::build_commit::announce(BUILT_FROM);
    let words = cluster::as_plugin(words.collect());
    let width = table::terminal_width().unwrap_or(HELP_COLUMNS);
    let mut definition = Cli::definition(width.min(MOST_HELP_COLUMNS));
    let parsed = definition.try_get_matches_from_mut(&words);
    let cli = match parsed.and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &words),
    };
    if !cli.command.as_ref().is_some_and(starts_others) {
        cofferdam_host::raise_open_files();
    }
    let done = match cli.command {
        Some(command) => dispatch(command),
        None => interruptible(|interrupt| state::run(&cli.agent, interrupt)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Whether `command` starts other programs, which inherit its limits.
fn starts_others(command: &Command) -> bool {
    matches!(
        command,
        Command::Dataplane(_)
            | Command::Bench(_)
            | Command::BenchWorker(_)
            | Command::Demo(_)
            | Command::Kubectl(_)
    )
}

fn dispatch(command: Command) -> Outcome {
    // A worker handles signals itself, and its parent stops it.
    let command = match command {
        Command::BenchWorker(args) => return bench::worker(args),
        Command::Generate(args) => return generate::run(&args),
        // For a daemon SIGHUP means something else, and SIGTERM is its orderly end.
        Command::Agent(args) => return agent::run(&args),
        Command::Gateway(args) => return gateway::run(&args),
        Command::DevicePlugin(args) => return device_plugin::run(&args),
        Command::Events(args) => return events::run(&args),
        other => other,
    };
    interruptible(|interrupt| match command {
        Command::Doctor(args) => doctor::run(&args),
        Command::Flows(args) => flows::run(&args, interrupt),
        Command::Top(args) => top::run(&args, interrupt),
        Command::Accounting(AccountingCommand::Record(args)) => record::run(&args, interrupt),
        Command::Status(args) => status::run(&args),
        Command::Export(args) => export::run(&args, interrupt),
        Command::Explain(args) => explain::run(&args, interrupt),
        Command::Web(args) => web::run(&args, interrupt),
        Command::Rule(command) => rule::run(&command),
        Command::Kubectl(command) => cluster::run(&command, interrupt),
        Command::Latency(command) => latency::run(command, interrupt),
        Command::Dataplane(command) => dataplane::run(command, interrupt),
        Command::Bench(command) => bench::run(command, interrupt),
        Command::Simulate(args) => simulate::run(&args, interrupt),
        Command::Report(args) => bench::report(&args),
        Command::Demo(args) => bench::demo(args, interrupt),
        Command::Agent(_)
        | Command::Gateway(_)
        | Command::DevicePlugin(_)
        | Command::Events(_)
        | Command::BenchWorker(_)
        | Command::Generate(_) => Ok(()),
    })
}

/// Runs `body` with a flag that SIGINT, SIGTERM and SIGHUP raise, so that it can end in order.
fn interruptible(body: impl FnOnce(&Interrupt) -> Outcome) -> Outcome {
    let interrupt = Interrupt::install()
        .map_err(|e| Failure::failed(format!("cannot watch for signals: {e}")))?;
    body(&interrupt)
}

/// Prints help and version to standard output, and an error of the command line as one line.
fn usage(error: &clap::Error, words: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        // Flushed here, because an error would be lost at the process's end.
        let printed = error.print().and_then(|()| io::stdout().flush());
        return match printed {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => output::failed(e, "standard output").report(),
        };
    }
    let help = format!("{} --help", command_of(words));
    let missing = [
        ErrorKind::MissingSubcommand,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ];
    if missing.contains(&error.kind()) {
        // clap would list hidden commands too.
        let text = format!("no command was given: '{help}' lists all");
        return Failure::Usage(text).report();
    }
    let text = error.render().to_string();
    let message = text.split("\nUsage:").next().unwrap_or(&text);
    let message = message
        .split("\nFor more information")
        .next()
        .unwrap_or(message);
    let message = message
        .trim()
        .trim_start_matches("error:")
        .replace("\n\n  tip:", "; tip:");
    Failure::Usage(format!("{} (see '{help}')", one_line(&message))).report()
}

/// Name of the command that `words` give, as far as they name one: `cofferdam bench penalty`.
fn command_of(words: &[OsString]) -> String {
    let root = Cli::command();
    let (mut command, mut name) = (&root, root.get_name().to_owned());
    for word in words.iter().skip(1) {
        let Some(next) = word.to_str().and_then(|w| command.find_subcommand(w)) else {
            break;
        };
        name = format!("{name} {}", next.get_name());
        command = next;
    }
    name
}
