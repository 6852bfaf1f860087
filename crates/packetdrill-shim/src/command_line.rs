//! What packetdrill was started with: its own options say which address and MTU the stack has.

use std::net::IpAddr;

/// Options that concern the stack.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CommandLine {
    /// `--local_ip`.
    pub local: Option<IpAddr>,
    /// `--mtu`.
    pub mtu_bytes: Option<u32>,
}

/// Reads options as getopt_long(3) does: `--name=value` or `--name value`; the last one counts.
pub fn parse(words: &[&str]) -> CommandLine {
    let mut found = CommandLine::default();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            continue;
        };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, value),
            None if ["local_ip", "mtu"].contains(&option) => {
                (option, words.next().unwrap_or_default())
            }
            None => continue,
        };
        match name {
            "local_ip" => found.local = value.parse().ok().or(found.local),
            "mtu" => found.mtu_bytes = value.parse().ok().or(found.mtu_bytes),
            _ => {}
        }
    }
    found
}

/// This process'.
pub fn own() -> CommandLine {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    parse(&text.split('\0').collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_address_and_mtu_count() {
        let found = parse(&[
            "packetdrill",
            "--local_ip=10.0.0.1",
            "--local_ip",
            "fd00::1",
            "--mtu=1520",
            "--mtu=many",
            "--verbose",
            "script.pkt",
        ]);
        assert_eq!(found.local, "fd00::1".parse().ok());
        assert_eq!(found.mtu_bytes, Some(1520));
        assert_eq!(parse(&["packetdrill", "--mtu"]), CommandLine::default());
    }
}
