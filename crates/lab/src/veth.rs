//! Pairs of connected Ethernet devices.

use crate::netns::Netns;
use crate::{LabError, run};

/// Connects `a` and `b`, both down, with this number of receive and transmit queues at both ends.
/// The namespaces' ends remove them. With one queue, rx-0 is the only one with `rps_cpus`.
pub fn pair(a: (&Netns, &str), b: (&Netns, &str), queues: u32) -> Result<(), LabError> {
    let end = |(netns, device): (&Netns, &str)| {
        let netns = netns.name().map(|name| format!("netns {name} "));
        let netns = netns.unwrap_or_default();
        format!("{device} {netns}numrxqueues {queues} numtxqueues {queues}")
    };
    run(&format!(
        "ip link add {} type veth peer name {}",
        end(a),
        end(b)
    ))
    .map(drop)
}
