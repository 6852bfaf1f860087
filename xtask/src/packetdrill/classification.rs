//! Classification of the scripts in the repository.

use super::options::Ip;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt;

/// Class of one script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    Passes,
    /// The stack behaves differently, as its RFC allows.
    Differs(String),
    /// The script tests something that only Linux has.
    NotApplicable(String),
    /// A defect, or a missing feature.
    Open(String),
}

impl fmt::Display for Class {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Passes => to.write_str(PASSES),
            Class::Differs(why) => write!(to, "{DIFFERS}{why}"),
            Class::NotApplicable(why) => write!(to, "{NOT_APPLICABLE}{why}"),
            Class::Open(why) => write!(to, "{OPEN}{why}"),
        }
    }
}

const PASSES: &str = "passes";
const DIFFERS: &str = "differs by choice: ";
const NOT_APPLICABLE: &str = "not applicable: ";
const OPEN: &str = "open: ";

/// Tables in the order of precedence, the lowest first.
const TABLES: [&str; 4] = ["both", "v4", "v6", "mapped"];

/// Classes by the paths of scripts.
#[derive(Debug, Default)]
pub struct Classification {
    classes: BTreeMap<String, Class>,
}

impl Classification {
    pub fn class(&self, script: &str) -> Option<&Class> {
        self.classes.get(script)
    }
}

/// Parses the file: tables `both` (packets of both versions), `v4`, `v6` and `mapped` of paths and
/// classes.
///
/// A later table overrides an earlier one. Classes for IPv4's packets also apply to those of a
/// mapped socket.
///
/// # Errors
/// The words that are not a class.
pub fn parse(text: &str, ip: Ip) -> Result<Classification> {
    let tables: BTreeMap<String, BTreeMap<String, String>> =
        toml::from_str(text).context("the classification is not a table of scripts")?;
    let mut classes = BTreeMap::new();
    let own: &[&str] = match ip {
        Ip::V4 => &["both", "v4"],
        Ip::V6 => &["both", "v6"],
        Ip::Mapped => &["both", "v4", "mapped"],
    };
    for name in tables.keys() {
        if !TABLES.contains(&name.as_str()) {
            bail!(
                "the classification has no table [{name}]: there are {}",
                TABLES.join(", ")
            );
        }
    }
    for name in TABLES {
        for (script, words) in tables.get(name).into_iter().flatten() {
            let class = class(words).with_context(|| format!("{script} in [{name}]"))?;
            if own.contains(&name) {
                classes.insert(script.clone(), class);
            }
        }
    }
    Ok(Classification { classes })
}

fn class(words: &str) -> Result<Class> {
    let why = |start: &str| {
        let why = words.strip_prefix(start)?.trim();
        (!why.is_empty()).then(|| why.to_owned())
    };
    if words == PASSES {
        return Ok(Class::Passes);
    }
    if let Some(why) = why(DIFFERS) {
        if !why.contains("RFC ") {
            bail!("`{words}` names no RFC that allows it");
        }
        return Ok(Class::Differs(why));
    }
    if let Some(why) = why(NOT_APPLICABLE) {
        return Ok(Class::NotApplicable(why));
    }
    if let Some(why) = why(OPEN) {
        return Ok(Class::Open(why));
    }
    bail!(
        "`{words}` is not a class: there are `{PASSES}`, `{DIFFERS}RFC and reason`, \
         `{NOT_APPLICABLE}reason` and `{OPEN}cause`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_ip_counts_before_both() {
        let text = "[both]\n\"a.pkt\" = \"passes\"\n\"b.pkt\" = \"open: no PRR\"\n\
                    [v6]\n\"a.pkt\" = \"not applicable: flow labels\"\n";
        let (v4, v6) = (
            parse(text, Ip::V4).expect("fine"),
            parse(text, Ip::V6).expect("fine"),
        );
        assert_eq!(v4.class("a.pkt"), Some(&Class::Passes));
        assert_eq!(
            v6.class("a.pkt"),
            Some(&Class::NotApplicable("flow labels".into()))
        );
        assert_eq!(v6.class("b.pkt"), Some(&Class::Open("no PRR".into())));
        assert_eq!(v4.class("c.pkt"), None);
    }

    /// Promise 62.
    #[test]
    fn ipv4_classes_apply_to_mapped_sockets_unless_overridden() {
        let text = "[v4]\n\"a.pkt\" = \"open: no PRR\"\n\"b.pkt\" = \"open: no PRR\"\n\
                    [mapped]\n\"b.pkt\" = \"passes\"\n[v6]\n\"a.pkt\" = \"passes\"\n";
        let mapped = parse(text, Ip::Mapped).expect("fine");
        assert_eq!(mapped.class("a.pkt"), Some(&Class::Open("no PRR".into())));
        assert_eq!(mapped.class("b.pkt"), Some(&Class::Passes));
    }

    /// Promise 62.
    #[test]
    fn wrong_classifications_are_named() {
        for (text, named) in [
            ("[v5]\n\"a.pkt\" = \"passes\"", "[v5]"),
            ("[v4]\n\"a.pkt\" = \"fails\"", "`fails` is not a class"),
            ("[v4]\n\"a.pkt\" = \"open: \"", "is not a class"),
            (
                "[v4]\n\"a.pkt\" = \"differs by choice: because\"",
                "names no RFC",
            ),
            ("[v4]\n\"a.pkt\" = 1", "not a table of scripts"),
        ] {
            let error = format!("{:#}", parse(text, Ip::V4).expect_err("refused"));
            assert!(error.contains(named), "{error}");
        }
    }

    /// Promise 62.
    #[test]
    fn the_repositorys_own_classification_is_valid() {
        let path = crate::tree::root().join(super::super::CLASSIFICATION);
        let text = std::fs::read_to_string(path).expect("it is there");
        for ip in [Ip::V4, Ip::V6, Ip::Mapped] {
            assert!(!parse(&text, ip).expect("valid").classes.is_empty());
        }
    }
}
