//! Arguments of the task.

use anyhow::{Context, Result, bail};
use std::fmt;
use std::path::PathBuf;

/// Stack that the scripts test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// Our stack.
    Shim,
    /// Linux's stack.
    Kernel,
}

/// Version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    V4,
    V6,
    /// IPv6 sockets with IPv4 addresses (RFC 4291, 2.5.5.2).
    Mapped,
}

impl fmt::Display for Ip {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Ip::V4 => "IPv4",
            Ip::V6 => "IPv6",
            Ip::Mapped => "IPv4-mapped IPv6",
        })
    }
}

impl Ip {
    /// Name on the command line and in the classification.
    pub const fn name(self) -> &'static str {
        match self {
            Ip::V4 => "v4",
            Ip::V6 => "v6",
            Ip::Mapped => "mapped",
        }
    }

    /// Whether a script is for this version: its name does not end in another one.
    pub fn applies_to(self, script: &str) -> bool {
        !script.ends_with(match self {
            Ip::V4 | Ip::Mapped => "v6.pkt",
            Ip::V6 => "v4.pkt",
        })
    }
}

/// Arguments of the task.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    pub sources: PathBuf,
    pub scripts: Option<PathBuf>,
    pub ip: Ip,
    pub under: Under,
    /// Number of scripts at a time.
    pub jobs: usize,
    pub verbose: bool,
    /// Part of a script's path.
    pub filter: Option<String>,
}

impl Options {
    pub fn matches(&self, script: &str) -> bool {
        (self.filter.as_deref()).is_none_or(|filter| script.contains(filter))
    }
}

const USAGE: &str = "usage: cargo xtask packetdrill --sources DIR [--scripts DIR] \
    [--ip v4|v6|mapped] [--kernel] [--jobs N] [--verbose] [FILTER]";

/// Parses the arguments.
///
/// # Errors
/// The missing or invalid argument.
pub fn parse(arguments: &[String]) -> Result<Options> {
    let (mut sources, mut scripts, mut filter) = (None, None, None);
    let (mut ip, mut under, mut jobs, mut verbose) = (Ip::V4, Under::Shim, None, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            let value = words
                .next()
                .with_context(|| format!("{word} wants a value"));
            value.cloned()
        };
        match word.as_str() {
            "--sources" => sources = Some(folder(&value()?)?),
            "--scripts" => scripts = Some(folder(&value()?)?),
            "--ip" => {
                let value = value()?;
                let versions = [Ip::V4, Ip::V6, Ip::Mapped];
                let found = versions.into_iter().find(|ip| ip.name() == value);
                ip = found.with_context(|| format!("--ip is v4, v6 or mapped, not `{value}`"))?;
            }
            "--kernel" => under = Under::Kernel,
            "--jobs" => {
                let value = value()?;
                let number = value.parse().ok().filter(|jobs| (1..=64).contains(jobs));
                jobs =
                    Some(number.with_context(|| {
                        format!("--jobs is a number from 1 to 64, not `{value}`")
                    })?);
            }
            "--verbose" => verbose = true,
            option if option.starts_with('-') => bail!("no option {option}\n{USAGE}"),
            _ if filter.is_none() => filter = Some(word.clone()),
            _ => bail!("one filter is enough\n{USAGE}"),
        }
    }
    // Linux's timers run in real time, and so does a script: one at a time.
    let usual = match under {
        Under::Shim => 4,
        Under::Kernel => 1,
    };
    Ok(Options {
        sources: sources.with_context(|| format!("where is packetdrill?\n{USAGE}"))?,
        scripts,
        ip,
        under,
        jobs: jobs.unwrap_or(usual),
        verbose,
        filter,
    })
}

fn folder(path: &str) -> Result<PathBuf> {
    let path = std::path::Path::new(path);
    let found = path.canonicalize().ok().filter(|path| path.is_dir());
    found.with_context(|| format!("{} is not a folder", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Options> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&words)
    }

    /// Promise 62.
    #[test]
    fn arguments_are_read_and_wrong_ones_are_named() {
        let options = read(&["--sources", "/tmp", "--ip", "v6", "--kernel", "sack/"]);
        let options = options.expect("fine");
        assert_eq!(
            (options.ip, options.under, options.jobs),
            (Ip::V6, Under::Kernel, 1)
        );
        let mapped = read(&["--sources", "/tmp", "--ip", "mapped"]).expect("fine");
        assert_eq!((mapped.ip, mapped.under), (Ip::Mapped, Under::Shim));
        assert!(options.matches("a/sack/b.pkt") && !options.matches("a/b.pkt"));
        for (words, named) in [
            (&[][..], "where is packetdrill?"),
            (&["--sources"], "--sources wants a value"),
            (
                &["--sources", "/no/such/folder"],
                "/no/such/folder is not a folder",
            ),
            (&["--sources", "/tmp", "--ip", "v5"], "not `v5`"),
            (&["--sources", "/tmp", "--jobs", "0"], "not `0`"),
            (&["--sources", "/tmp", "--fast"], "no option --fast"),
            (&["--sources", "/tmp", "one", "two"], "one filter"),
        ] {
            let error = read(words).expect_err("refused").to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn a_script_may_be_for_one_ip_version() {
        assert!(Ip::V4.applies_to("mtu/basic-v4.pkt") && !Ip::V4.applies_to("mtu/basic-v6.pkt"));
        assert!(Ip::V6.applies_to("mtu/basic-ipv6.pkt") && !Ip::V6.applies_to("x-v4.pkt"));
        assert!(Ip::V4.applies_to("close.pkt") && Ip::V6.applies_to("close.pkt"));
        // The packets of a mapped socket are IPv4's.
        assert!(Ip::Mapped.applies_to("x-v4.pkt") && !Ip::Mapped.applies_to("x-v6.pkt"));
    }
}
