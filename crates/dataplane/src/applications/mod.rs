//! Small servers on the dataplane, for the examples and the benchmarks.

mod backlog;
mod echo;
mod faulty;
mod http;
mod load;
mod memcached;
mod pingpong;
mod store;

pub use echo::Echo;
pub use faulty::Faulty;
pub use http::Http;
pub use load::{Load, Request};
pub use memcached::Memcached;
pub use pingpong::PingPong;
pub use store::Store;

use crate::session::{Application, EventLoop, Session};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Pending connections of each listener.
const BACKLOG: u32 = 1024;

/// Runs an example: `EXAMPLE SOCKET NAME ADDRESS:PORT`. Prints `ready` when it serves.
pub fn example<A: Application>(make: impl FnOnce(SocketAddr) -> A) -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let [_, socket, name, address] = words.as_slice() else {
        eprintln!("usage: EXAMPLE SOCKET NAME ADDRESS:PORT");
        return ExitCode::from(2);
    };
    let Ok(address) = address.parse() else {
        eprintln!("`{address}` is not an address and port, such as 10.0.0.9:80");
        return ExitCode::from(2);
    };
    let session = match Session::attach(&PathBuf::from(socket), name) {
        Ok(session) => session,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    let mut event_loop = EventLoop::new(session, make(address));
    println!("ready");
    match event_loop.run(Duration::from_secs(1), |_| false) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Message of a server whose address was refused.
pub(crate) fn refused(address: SocketAddr, why: crate::Refusal) -> String {
    format!("cannot serve {address}: {why}")
}
