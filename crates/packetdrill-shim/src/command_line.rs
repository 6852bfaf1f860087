//! packetdrill's own command line, which sets the stack's address and MTU.

use std::net::IpAddr;

/// Command-line options that concern the stack.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CommandLine {
    /// `--local_ip`.
    pub local: Option<IpAddr>,
    /// `--mtu`.
    pub mtu_bytes: Option<u32>,
}

/// Parses options as getopt_long(3) does: `--name=value` or `--name value`; the last one wins.
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

/// Options of this process.
pub fn own() -> CommandLine {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let words: Vec<&str> = text.split('\0').filter(|word| !word.is_empty()).collect();
    // A script starts with options of its own; those on the command line come before them.
    let script = words.last().map(std::fs::read_to_string);
    let script = script.and_then(|text| text.ok()).unwrap_or_default();
    let mut all: Vec<&str> = script_options(&script).collect();
    all.extend(words);
    parse(&all)
}

/// The options at the start of a script, one per line.
fn script_options(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines
        .skip_while(|line| line.is_empty() || line.starts_with("//"))
        .take_while(|line| line.starts_with("--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scripts_own_options_are_those_at_its_start() {
        let text = "// A comment\n\n--local_ip=10.0.0.7\n --mtu=1280\n`cmd`\n--mtu=9\n";
        let words: Vec<&str> = script_options(text).collect();
        assert_eq!(words, ["--local_ip=10.0.0.7", "--mtu=1280"]);
    }

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
