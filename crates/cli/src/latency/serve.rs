//! `cofferdam latency serve`.

use super::args::ServeArgs;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use anyhow::Context;
use cofferdam_host::{HostFs, host_netns};
use cofferdam_latency::serve::{Limits, Live, Server, bind, peer_of};
use cofferdam_latency::{LatencySizes, Meter};

/// Serves until a signal comes.
pub fn run(args: &ServeArgs, interrupt: &Interrupt) -> Outcome {
    let host = host_netns(&HostFs::host()).map_err(|e| Failure::failed(e.to_string()))?;
    let meter = Meter::load(LatencySizes::default(), args.start.into())?;
    let source = Live::new(meter, host)?;
    let limits = Limits {
        clients_per_netns: args.clients as usize,
        samples_per_netns: args.keep as usize,
        ..Limits::default()
    };
    let (listener, _socket) = bind(&args.socket).map_err(|e| Failure::failed(e.to_string()))?;
    let mut server = Server::new(listener, source, limits, Box::new(peer_of))
        .context("cannot listen")
        .map_err(Failure::from)?;
    server
        .run(interrupt.fd())
        .context("cannot wait for clients")?;
    Err(Failure::Interrupted(None))
}
