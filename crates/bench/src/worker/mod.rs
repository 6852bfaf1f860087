//! Worker process: one load generator, sink or victim, in one namespace, in one container, on one
//! CPU.
//!
//! The driver starts `cofferdam bench-worker KIND --key value …` and exchanges lines with it. The
//! worker enters its place before it opens a socket, so that its sockets belong there. It prepares,
//! prints `ready`, waits for `go`, and works. On `read` it prints its counters so far as one JSON
//! object. On SIGTERM, on `end` or after its duration it prints the last object and exits. It dies
//! with its parent and has a time limit, so no failure of the driver leaves a flood running.

mod args;
mod compress;
mod control;
mod dataplane;
mod flood;
mod memcached;
mod mmsg;
mod neighbour;
mod periodic;
mod phases;
mod pingpong;
mod place;
mod rpc;
mod shuffle;
mod sink;
mod stream;
mod tcp;
pub mod trace;
pub(crate) mod victim;
mod waker;

pub use control::Reading;
pub(crate) use dataplane::{Idle, Work};
pub use dataplane::{LoadReport, ServerReport};
pub use rpc::RpcReport;
pub use victim::VictimReport;
pub use waker::WakerReport;

use args::Args;
use control::Control;
use std::time::{Duration, Instant};

/// Reason why a worker gave up: one line for the driver.
pub(crate) type Failure = String;

/// Entry point of `cofferdam bench-worker ARGS`; returns the exit code.
pub fn main(args: &[String]) -> i32 {
    match run(args) {
        Ok(()) => 0,
        Err(reason) => {
            eprintln!(
                "bench-worker {}: {reason}",
                args.first().map_or("", String::as_str)
            );
            1
        }
    }
}

fn run(args: &[String]) -> Result<(), Failure> {
    let mut args = Args::parse(args)?;
    let kind = args.kind.clone();
    let mut control = Control::new(&mut args)?;
    place::enter(&mut args)?;
    if kind.starts_with("dp-") {
        return dataplane::run(&kind, args, &mut control);
    }
    match kind.as_str() {
        "hold" => hold(args, &mut control),
        "burn" => burn(args, &mut control),
        "ping-pong" => pingpong::run(args, &mut control),
        "udp-flood" => flood::run(args, &mut control),
        "udp-sink" => sink::udp(args, &mut control),
        "tcp-stream" => stream::run(args, &mut control),
        "tcp-sink" => sink::tcp(args, &mut control),
        "shuffle" => shuffle::run(args, &mut control),
        "rpc-server" => rpc::serve(args, &mut control),
        "rpc-client" => rpc::ask(args, &mut control),
        "victim" => victim::run(args, &mut control),
        "compress" => compress::run(args, &mut control),
        "phases" => phases::run(args, &mut control),
        "waker" => waker::run(args, &mut control),
        "memcached" => memcached::serve(args, &mut control),
        "memcached-client" => memcached::ask(args, &mut control),
        "neighbour" => neighbour::run(args, &mut control),
        "periodic" => periodic::run(args, &mut control),
        other => Err(format!("unknown kind '{other}'")),
    }
}

/// Keeps a container alive between samples: a cgroup without a process is no container.
fn hold(args: Args, control: &mut Control) -> Result<(), Failure> {
    args.finish()?;
    control.start()?;
    while !control.done() {
        std::thread::sleep(Duration::from_millis(20));
    }
    control.report()
}

/// Runs as the compute competitor: burns CPU until it is stopped.
fn burn(args: Args, control: &mut Control) -> Result<(), Failure> {
    args.finish()?;
    control.start()?;
    let mut state = 1;
    while !control.done() {
        let slice = Instant::now();
        while slice.elapsed() < Duration::from_millis(1) {
            state = victim::cpu::mix(state, 1_000);
        }
        control.count(1, 0);
    }
    std::hint::black_box(state);
    control.report()
}
