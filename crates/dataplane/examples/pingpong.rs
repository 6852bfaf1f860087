//! NetPIPE's ping-pong against an echo server: `pingpong SOCKET NAME ADDRESS:PORT`. Prints, for
//! each size, the time for one way and the goodput.

use cofferdam_dataplane::applications::PingPong;
use cofferdam_dataplane::{EventLoop, Session};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let [_, socket, name, address] = words.as_slice() else {
        eprintln!("usage: pingpong SOCKET NAME ADDRESS:PORT");
        return ExitCode::from(2);
    };
    let Ok(address) = address.parse() else {
        eprintln!("`{address}` is not an address and port, such as 10.0.0.9:7");
        return ExitCode::from(2);
    };
    let sizes = (6..=18).map(|bits| 1 << bits).collect();
    let session = match Session::attach(&PathBuf::from(socket), name) {
        Ok(session) => session,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    let mut event_loop = EventLoop::new(session, PingPong::new(address, sizes, 100));
    if let Err(e) = event_loop.run(Duration::from_millis(100), |a| a.is_done()) {
        eprintln!("{e}");
        return ExitCode::FAILURE;
    }
    for (bytes, one_way) in &event_loop.application.results {
        let us = one_way.as_secs_f64() * 1e6;
        println!(
            "{bytes} bytes: {us:.1} us one way, {:.1} Mbit/s",
            *bytes as f64 * 8.0 / us
        );
    }
    match &event_loop.application.failed {
        None => ExitCode::SUCCESS,
        Some(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
