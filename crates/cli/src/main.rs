//! The `cofferdam` binary: everything is in the library of this crate.
#![forbid(unsafe_code)]

use cofferdam_dataplane::pkey::Allocator;
use std::process::ExitCode;

/// A dataplane that runs an application behind protection keys allocates there; all else is the
/// system's allocator.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    cofferdam::run(std::env::args_os())
}
