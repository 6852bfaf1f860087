//! The static load generator: one tenant's load with exact set-points, open loop.
//!
//! It is built once more by `build.rs`, statically and without any crate, and carried inside
//! `cofferdam`: so it runs in a container without an image, in a sandbox and as the only program
//! of a virtual machine. That is why it uses the standard library alone.
//!
//! A driver talks to it in lines. Answers begin with `@`, so that a console's own messages are
//! told apart:
//!
//! ```text
//! cofferdam-load serve             → @ready
//! prepare KIND key=value …         → @prepared, or @error REASON
//! go warmup_ms=N measure_ms=N      → @tick OPS BYTES each 100 ms, then @done key=value …
//! stop                             → ends a load early: @done
//! quit, or end of input            → the process ends, its load as well
//! ```
//!
//! Open loop: what is due is set by a schedule fixed at the start. A tenant that is held up falls
//! behind and its latency says so; what is later than a limit is given up and counted as lost, so
//! that a backlog of one moment does not become the load of the next.
#![deny(unsafe_op_in_unsafe_fn)]

mod cache;
mod clock;
mod cpu;
mod disk;
mod memory;
mod meter;
mod network;
mod pace;
mod params;
mod serve;

/// Why a load could not be prepared: one line for the driver.
type Failure = String;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve"] => serve::serve(),
        ["memory-child", rest @ ..] => memory::child(rest),
        _ => {
            eprintln!("usage: cofferdam-load serve");
            std::process::exit(2);
        }
    }
}
