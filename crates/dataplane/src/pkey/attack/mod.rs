//! Attacks on the protection of `domain = "pkey"`, each in a process of its own, which show the
//! defences of this CPU and kernel.

mod guest;
mod list;
mod stage;

pub use list::{Attack, all};
pub use stage::run;

use std::fmt;

/// Outcome of an attack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A defence stopped it.
    Stopped(String),
    /// The application did what it may do: this is no attack.
    Allowed(String),
    /// Nothing stopped an attack, or an allowed act was stopped.
    Succeeded(String),
}

const STOPPED: &str = "stopped: ";
const ALLOWED: &str = "allowed: ";
const SUCCEEDED: &str = "succeeded: ";

/// The verdict as one line, which [`Verdict::parse`] reads.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Stopped(how) => write!(f, "{STOPPED}{how}"),
            Verdict::Allowed(how) => write!(f, "{ALLOWED}{how}"),
            Verdict::Succeeded(how) => write!(f, "{SUCCEEDED}{how}"),
        }
    }
}

impl Verdict {
    /// Parses a line.
    pub fn parse(line: &str) -> Option<Verdict> {
        let rest = |word| line.strip_prefix(word).map(str::to_owned);
        rest(STOPPED)
            .map(Verdict::Stopped)
            .or_else(|| rest(ALLOWED).map(Verdict::Allowed))
            .or_else(|| rest(SUCCEEDED).map(Verdict::Succeeded))
    }

    /// Text of the verdict without its word.
    pub fn how(&self) -> &str {
        match self {
            Verdict::Stopped(how) | Verdict::Allowed(how) | Verdict::Succeeded(how) => how,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_survives_its_line() {
        for verdict in [
            Verdict::Stopped("a key".to_owned()),
            Verdict::Allowed(String::new()),
            Verdict::Succeeded("x: y".to_owned()),
        ] {
            assert_eq!(Verdict::parse(&verdict.to_string()), Some(verdict));
        }
        assert_eq!(Verdict::parse("killed"), None);
    }

    #[test]
    fn each_attack_has_its_own_name_and_description() {
        let mut names: Vec<_> = all().iter().map(|attack| attack.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(all().iter().all(|attack| !attack.what.is_empty()));
    }
}
