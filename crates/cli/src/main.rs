//! The `cofferdam` binary: all code is in the library of this crate.
#![forbid(unsafe_code)]

use cofferdam_dataplane::pkey::Allocator;
use std::process::ExitCode;

/// Allocator of a dataplane that runs an application behind protection keys; the system's allocator
/// otherwise.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    cofferdam::run(std::env::args_os())
}
