//! Port forwarding and masquerade with connection tracking, as container runtimes set it up. Uses
//! nftables, or iptables if nft is missing.

use crate::LabError;
use crate::netns::Netns;
use std::fmt::Write;

/// Packets that are forwarded to another address.
#[derive(Clone, Debug)]
pub struct Forward<'a> {
    /// Receiving device; `None`: any.
    pub device: Option<&'a str>,
    /// `tcp` or `udp`.
    pub protocol: &'a str,
    /// First and last port.
    pub ports: (u16, u16),
    /// `ADDRESS` or `ADDRESS:PORT`.
    pub to: String,
}

impl Forward<'_> {
    /// Text of the ports; nft refuses a range of one.
    fn range(&self, separator: char) -> String {
        match self.ports {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}{separator}{last}"),
        }
    }
}

/// Forwards, and rewrites the source of all packets that leave through `masquerade`. Adds to the
/// existing translations of `netns`.
pub fn translate(
    netns: &Netns,
    forwards: &[Forward],
    masquerade: Option<&str>,
) -> Result<(), LabError> {
    match netns.run_with_input("nft -f -", &table(forwards, masquerade)) {
        Err(LabError::Missing { .. }) => rules(forwards, masquerade)
            .iter()
            .try_for_each(|rule| netns.run(&format!("iptables -t nat -A {rule}")).map(drop)),
        other => other.map(drop),
    }
}

/// Input of `nft -f`.
fn table(forwards: &[Forward], masquerade: Option<&str>) -> String {
    let mut rules = String::new();
    for forward in forwards {
        let device = forward
            .device
            .map(|device| format!("iifname \"{device}\" "));
        // Writing to a String cannot fail.
        let _infallible = writeln!(
            rules,
            "    {}{} dport {} dnat to {}",
            device.unwrap_or_default(),
            forward.protocol,
            forward.range('-'),
            forward.to
        );
    }
    let masquerade = masquerade.map(|device| format!("    oifname \"{device}\" masquerade\n"));
    format!(
        "table ip cofferdam {{\n\
        \x20 chain prerouting {{\n\
        \x20   type nat hook prerouting priority dstnat;\n\
         {rules}  }}\n\
        \x20 chain postrouting {{\n\
        \x20   type nat hook postrouting priority srcnat;\n\
         {}  }}\n\
         }}\n",
        masquerade.unwrap_or_default()
    )
}

/// Arguments of `iptables -t nat -A`.
fn rules(forwards: &[Forward], masquerade: Option<&str>) -> Vec<String> {
    let forward = |forward: &Forward| {
        let device = forward.device.map(|device| format!("-i {device} "));
        format!(
            "PREROUTING {}-p {} --dport {} -j DNAT --to-destination {}",
            device.unwrap_or_default(),
            forward.protocol,
            forward.range(':'),
            forward.to
        )
    };
    let masquerade = masquerade.map(|device| format!("POSTROUTING -o {device} -j MASQUERADE"));
    forwards.iter().map(forward).chain(masquerade).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_firewalls_get_the_same_rules() {
        let forward = Forward {
            device: Some("up0"),
            protocol: "udp",
            ports: (20_000, 20_999),
            to: "10.78.100.10".to_owned(),
        };
        let table = table(std::slice::from_ref(&forward), Some("up0"));
        assert!(
            table.contains("iifname \"up0\" udp dport 20000-20999 dnat to 10.78.100.10\n"),
            "{table}"
        );
        assert!(table.contains("oifname \"up0\" masquerade\n"), "{table}");
        assert_eq!(
            rules(&[forward], Some("up0")),
            [
                "PREROUTING -i up0 -p udp --dport 20000:20999 -j DNAT --to-destination \
                 10.78.100.10",
                "POSTROUTING -o up0 -j MASQUERADE"
            ]
        );
    }
}
