//! `cofferdam gateway`: a daemon without rights that runs next to the agent of a node.

use crate::args::GatewayArgs;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use cofferdam_cluster::gateway::{Gateway, Options};

/// Serves until a signal, which is its orderly end.
pub fn run(args: &GatewayArgs) -> Outcome {
    cofferdam_agent::log::install();
    let interrupt = Interrupt::install()
        .map_err(|e| Failure::failed(format!("cannot watch for signals: {e}")))?;
    let options = Options {
        listen: args.listen,
        socket: args.agent.path(),
        token_file: args.token_file.clone(),
        doctor_file: args.doctor_file.clone(),
    };
    let mut gateway = Gateway::start(&options).map_err(anyhow::Error::from)?;
    gateway
        .run(interrupt.fd())
        .map_err(|e| Failure::Failed(e.into()))
}
