//! The bench worker on its own, for this crate's tests and for the [`COFFERDAM_WORKER`]
//! variable. The `cofferdam` binary carries the same worker as a hidden subcommand.
//!
//! [`COFFERDAM_WORKER`]: cofferdam_bench::spawn
#![forbid(unsafe_code)]

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(cofferdam_bench::worker::main(&args));
}
