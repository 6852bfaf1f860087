//! `cofferdam device-plugin`: a daemon that runs next to the agent of a node.

use crate::args::DevicePluginArgs;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use cofferdam_cluster::device_plugin::{Options, run as promise};
use nix::unistd::{SysconfVar, sysconf};

/// Offers CPUs to the kubelet until a signal, which is its orderly end.
pub fn run(args: &DevicePluginArgs) -> Outcome {
    cofferdam_agent::log::install();
    let interrupt = Interrupt::install()
        .map_err(|e| Failure::failed(format!("cannot watch for signals: {e}")))?;
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    let online = online.and_then(|n| u32::try_from(n).ok());
    let online =
        online.ok_or_else(|| Failure::failed("cannot read the number of this node's CPUs"))?;
    let options = Options {
        folder: args.folder.clone(),
        cpus: online.saturating_sub(args.keep),
    };
    promise(&options, &interrupt.flag()).map_err(|e| Failure::Failed(e.into()))
}
