//! This host in the form that the simulator needs.

use crate::error::BenchError;
use cofferdam_host::{CgroupLayout, Controller, HostError, HostFs, topology};
use cofferdam_simulate::{CgroupVersion, Host, MOST_CPUS};
use nix::time::{ClockId, clock_getres};

/// Reads the CPUs, the tick and the version of the cpu controller.
pub fn this_host() -> Result<Host, BenchError> {
    let fs = HostFs::host();
    let failed = |e: HostError| BenchError::Unsupported(e.to_string());
    let topology = topology(&fs).map_err(failed)?;
    if topology.cpus.len() > MOST_CPUS {
        return Err(BenchError::Unsupported(format!(
            "this host has more than {MOST_CPUS} CPUs, the most that are simulated: use a smaller \
             one"
        )));
    }
    let layout = CgroupLayout::read(&fs).map_err(failed)?;
    let mut host = Host::new(topology);
    if let Some(Controller::V1(_)) = layout.controller("cpu") {
        host.cgroup = CgroupVersion::V1;
    }
    // The coarse clock advances with the tick.
    if let Ok(tick) = clock_getres(ClockId::CLOCK_REALTIME_COARSE) {
        let tick_ns = tick.tv_nsec();
        if (100_000..=40_000_000).contains(&tick_ns) {
            host.tick_hz = (1_000_000_000 / tick_ns) as u32;
        }
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_simulate::input;

    /// Promise 48.
    #[test]
    fn this_host_as_json_is_this_host() {
        let host = this_host().unwrap();
        assert!(!host.topology.cpus.is_empty());
        assert!(
            [100, 250, 300, 1000].contains(&host.tick_hz),
            "{}",
            host.tick_hz
        );
        assert_eq!(input::host(&input::host_json(&host)), Ok(host));
    }
}
