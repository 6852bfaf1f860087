//! Running programs, and ending the ones we started.

use cofferdam_lab::command::run_argv;
use cofferdam_lab::{LabError, Process};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Runs a program to its end and returns its standard output.
pub fn try_run(argv: &[&str]) -> Result<String, LabError> {
    run_argv(argv)
}

/// As [`try_run`]; panics when it fails.
#[track_caller]
pub fn run(argv: &[&str]) -> String {
    must(try_run(argv))
}

/// What was made; panics with the error's one line when the host refused.
#[track_caller]
pub(crate) fn must<T>(made: Result<T, LabError>) -> T {
    match made {
        Ok(made) => made,
        Err(e) => panic!("{e}"),
    }
}

/// Starts a program that runs during the test.
#[track_caller]
pub(crate) fn spawn(mut command: Command, line: &str) -> Process {
    // SAFETY: prctl is one system call; a killed test takes its children along.
    unsafe {
        command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?));
    }
    match Process::start(command.stdin(Stdio::null())) {
        Ok(process) => process,
        Err(e) => panic!("cannot start `{line}`: {e}"),
    }
}
