//! Port forwarding and masquerade with connection tracking, as container runtimes set it up.

use super::netns::Netns;
use crate::error::BenchError;
use cofferdam_lab::command::run_with_input;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Ports forwarded to each container.
pub(super) const PORTS: u16 = 1_000;

/// Forwards PORTS ports from each `(first port, container)` on, and masquerades what leaves
/// through `uplink`. By nftables, or by iptables where nft is missing.
pub(crate) fn port_forwarding(
    router: &Netns,
    uplink: &str,
    forwards: &[(u16, Ipv4Addr)],
) -> Result<(), BenchError> {
    match with_nft(router, uplink, forwards) {
        // Inside `ip netns exec` a missing tool is a failed command, not a missing program.
        Err(BenchError::Command { reason, .. }) if reason.contains("No such file") => {
            with_iptables(router, uplink, forwards)
        }
        other => other,
    }
}

fn with_nft(router: &Netns, uplink: &str, forwards: &[(u16, Ipv4Addr)]) -> Result<(), BenchError> {
    let mut rules = String::new();
    for (port, address) in forwards {
        let range = format!("{port}-{}", port + PORTS - 1);
        for protocol in ["tcp", "udp"] {
            // Writing to a String cannot fail.
            let _infallible = writeln!(
                rules,
                "    iifname \"{uplink}\" {protocol} dport {range} dnat to {address}"
            );
        }
    }
    let table = format!(
        "table ip cofferdam {{\n  chain prerouting {{\n    type nat hook prerouting priority dstnat;\n{rules}  }}\n  chain postrouting {{\n    type nat hook postrouting priority srcnat;\n    oifname \"{uplink}\" masquerade\n  }}\n}}\n"
    );
    run_with_input(&format!("ip netns exec {} nft -f -", router.name), &table)?;
    Ok(())
}

fn with_iptables(
    router: &Netns,
    uplink: &str,
    forwards: &[(u16, Ipv4Addr)],
) -> Result<(), BenchError> {
    for (port, address) in forwards {
        let range = format!("{port}:{}", port + PORTS - 1);
        for protocol in ["tcp", "udp"] {
            router.exec(&format!(
                "iptables -t nat -A PREROUTING -i {uplink} -p {protocol} --dport {range} -j DNAT --to-destination {address}"
            ))?;
        }
    }
    router
        .exec(&format!(
            "iptables -t nat -A POSTROUTING -o {uplink} -j MASQUERADE"
        ))
        .map(drop)
}
