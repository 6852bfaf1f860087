//! Kernel work for a tenant: the peer sends it small datagrams. The kernel handles each in the time
//! of the container that it interrupts.

use super::guest::{Guest, LoadFigures};
use super::levels::Demand;
use super::runtime::Tenant;
use super::testbed::IsolationTestbed;
use crate::error::BenchError;
use crate::host_facts;
use cofferdam_lab::run;
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Time limit for the start of the source.
const START: Duration = Duration::from_secs(20);

/// Source at the peer, on the last CPU. Its packets are received on the first CPU, like those of a
/// network card.
pub(super) struct Flood {
    source: Guest,
}

impl Flood {
    /// Starts the source at the peer.
    pub fn new(testbed: &IsolationTestbed) -> Result<Flood, BenchError> {
        let [first, last] = host_facts::outer_cpus();
        testbed.receive_on(first)?;
        let mut command = testbed.in_peer_on(last, &testbed.load);
        command.arg("serve");
        let source = Guest::start("the peer's source", command, START)?;
        Ok(Flood { source })
    }

    /// Prepares the source before each cell.
    pub fn prepare(&mut self, demand: &Demand) -> Result<(), BenchError> {
        self.source.prepare(&demand.load.line())
    }

    /// Starts the flood.
    pub fn go(&mut self, warmup: Duration, measure: Duration) -> Result<(), BenchError> {
        self.source.go(warmup, measure)
    }

    /// Stops the flood and returns its figures.
    pub fn end(&mut self, patience: Duration) -> Result<LoadFigures, BenchError> {
        self.source.stop()?;
        self.source.await_end(patience)
    }
}

/// IPv4 address of `tenant`.
pub(super) fn address(tenant: &Tenant) -> Result<Ipv4Addr, BenchError> {
    if let Some(address) = tenant.address {
        return Ok(address);
    }
    let text = run(&format!(
        "nsenter --target {} --net ip -json -4 address show dev eth0",
        tenant.pid
    ))?;
    first_address(&text).ok_or_else(|| BenchError::Worker {
        worker: tenant.guest.name().to_owned(),
        reason: "its eth0 has no IPv4 address: nothing can be sent to it".to_owned(),
    })
}

/// First address in the output of `ip -json address`.
fn first_address(text: &str) -> Option<Ipv4Addr> {
    #[derive(Deserialize)]
    struct Device {
        #[serde(default)]
        addr_info: Vec<Address>,
    }
    #[derive(Deserialize)]
    struct Address {
        local: Ipv4Addr,
    }
    let devices: Vec<Device> = serde_json::from_str(text).ok()?;
    let mut addresses = devices.into_iter().flat_map(|d| d.addr_info);
    addresses.next().map(|a| a.local)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 46.
    #[test]
    fn an_address_is_found_or_there_is_none() {
        let text = r#"[{"ifname":"eth0","addr_info":[
            {"family":"inet","local":"10.88.0.5","prefixlen":16}]}]"#;
        assert_eq!(first_address(text), Some(Ipv4Addr::new(10, 88, 0, 5)));
        for text in [
            "",
            "[]",
            "[{}]",
            r#"[{"addr_info":[]}]"#,
            r#"[{"addr_info":[{"local":"x"}]}]"#,
        ] {
            assert_eq!(first_address(text), None, "{text}");
        }
    }
}
