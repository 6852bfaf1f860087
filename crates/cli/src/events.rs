//! `cofferdam events`: a daemon of the cluster that runs next to a kubectl proxy.

use crate::args::EventsArgs;
use crate::cluster::peer;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use cofferdam_cluster::agents::check_name;
use cofferdam_cluster::events::{Options, run as tell};

/// Writes events until a signal, which is its orderly end.
pub fn run(args: &EventsArgs) -> Outcome {
    cofferdam_agent::log::install();
    let interrupt = Interrupt::install()
        .map_err(|e| Failure::failed(format!("cannot watch for signals: {e}")))?;
    check_name(&args.agents).map_err(anyhow::Error::from)?;
    let options = Options {
        proxy: peer(&args.proxy),
        namespace: args.agents.clone(),
        token_file: args.token_file.clone(),
        every: args.every,
        parallel: args.parallel,
    };
    tell(&options, &interrupt.flag());
    Ok(())
}
