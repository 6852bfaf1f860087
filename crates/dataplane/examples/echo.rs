//! An echo server over TCP and UDP: `echo SOCKET NAME ADDRESS:PORT`.

use cofferdam_dataplane::applications::{Echo, example};

fn main() -> std::process::ExitCode {
    example(Echo::new)
}
