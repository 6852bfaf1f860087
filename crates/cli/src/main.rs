//! The `cofferdam` binary: everything is in the library of this crate.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cofferdam::run(std::env::args_os())
}
