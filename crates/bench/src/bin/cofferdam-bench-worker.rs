//! The bench worker as a program: see `cofferdam_bench::spawn`. The `cofferdam` binary has the same
//! worker as a hidden subcommand.
#![forbid(unsafe_code)]

use cofferdam_dataplane::pkey::Allocator;

/// Allocator of a dataplane with protection keys.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(cofferdam_bench::worker::main(&args));
}
