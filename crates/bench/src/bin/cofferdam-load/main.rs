//! Static load generator: the load of one tenant with exact set-points, open loop.
//!
//! `build.rs` builds it a second time, statically and without any crate, and `cofferdam` carries
//! that binary. So it runs in a container without an image, in a sandbox, and as the only program
//! of a virtual machine. For this reason it uses the standard library alone.
//!
//! A driver exchanges lines with it. Answers begin with `@`, which distinguishes them from a
//! console's own messages:
//!
//! ```text
//! cofferdam-load serve             → @ready
//! prepare KIND key=value …         → @prepared, or @error REASON
//! go warmup_ms=N measure_ms=N      → @tick OPS BYTES each 100 ms, then @done key=value …
//! stop                             → ends a load early: @done
//! quit, or end of input            → the process ends, its load as well
//! ```
//!
//! Open loop: a schedule fixed at the start says when each operation is due. A tenant that is
//! delayed falls behind, which its latency shows. Operations later than a limit are given up and
//! counted as lost, so that the backlog of one moment does not become the load of the next.
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

/// Reason why a load could not be prepared: one line for the driver.
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
